// Package sys is the only door to the kernel and to other programs: processes,
// namespaces, network devices, cgroups. Everything here is Linux.
//
// Functions that act on "the network namespace of the calling thread" are
// called inside Netns.Do.
package sys

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Monotonic is CLOCK_MONOTONIC now, in nanoseconds: the same for every process
// of the host.
func Monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return ts.Nano()
}

// ExactTimers makes the kernel wake the calling thread when its timers expire,
// and not up to 50 us later, as it does to save power.
func ExactTimers() error {
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("asking for exact timers: %w", err)
	}
	return nil
}

// Sleep waits, or returns why not.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// SleepUntil lets the calling thread sleep until a moment on CLOCK_MONOTONIC. A
// signal may end it earlier.
func SleepUntil(at int64) error {
	t := unix.NsecToTimespec(at)
	if err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &t, nil); err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("sleeping: %w", err)
	}
	return nil
}

// onThrowawayThread runs f on an operating-system thread of its own, which
// ends with f: what f changes of the thread cannot leak into other goroutines.
func onThrowawayThread(f func() error) error {
	done := make(chan error, 1)
	go throwAway(func() { done <- f() })
	return <-done
}

// throwAway runs f on the calling goroutine's thread, which ends with the
// goroutine, or on another: the process's first thread cannot end. Go would
// park it for good in the state that f has left it in, in a pod's network
// namespace for one, and that is what others see as the state of the process.
func throwAway(f func()) {
	runtime.LockOSThread() // not unlocked where f runs
	if unix.Gettid() != unix.Getpid() {
		f()
		return
	}
	done := make(chan struct{})
	go func() { // on another thread: this one is taken
		defer close(done)
		throwAway(f)
	}()
	<-done
	runtime.UnlockOSThread()
}

// Affinity returns the CPUs that this process may run on, ascending.
func Affinity() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("reading the CPU affinity: %w", err)
	}
	var cpus []int
	for c := range 1024 {
		if set.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	return cpus, nil
}

// setAffinity binds the calling thread, and what it forks, to CPUs.
func setAffinity(cpus []int) error {
	if len(cpus) == 0 {
		return nil
	}
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("binding to CPUs %v: %w", cpus, err)
	}
	return nil
}

// WriteSysctl sets a network setting in the calling thread's namespace, e.g.
// "net/ipv4/ip_forward".
func WriteSysctl(key, value string) error {
	if err := os.WriteFile("/proc/sys/"+key, []byte(value), 0o600); err != nil {
		return fmt.Errorf("setting %s = %s: %w", strings.ReplaceAll(key, "/", "."), value, err)
	}
	return nil
}

// RaiseOpenFiles raises the number of open files to what is allowed: every pod of the
// lab is held by one.
func RaiseOpenFiles() error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("reading the limit of open files: %w", err)
	}
	l.Cur = l.Max
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("raising the limit of open files: %w", err)
	}
	return nil
}

// Lock makes a file and holds an exclusive lock on it until the file is closed
// or this process ends, however it ends. It waits for another holder to let go.
func Lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // in our own state folder
	if err != nil {
		return nil, fmt.Errorf("making a lock: %w", err)
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("taking the lock %s: %w", path, err), f.Close())
	}
	return f, nil
}

// Locked says whether a live process holds the lock.
func Locked(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR, 0) //nolint:gosec // in our own state folder
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // only read
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// PrivateDir makes a folder that only this user can enter, or makes sure that
// what is there is one: in a shared place another user may have been faster.
func PrivateDir(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("making a private folder: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return fmt.Errorf("looking at the folder %s: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		return fmt.Errorf("%s must be a folder of this user with mode 0700: remove it, or fix its owner and mode", path)
	}
	return nil
}

// ReadFile reads a file of the kernel's, or one whose path this program made:
// what it reads is never named by a study.
func ReadFile(path string) ([]byte, error) {
	return os.ReadFile(path) //nolint:gosec // see above
}

// Required says whether $WINDTUNNEL_REQUIRE, a list separated by commas, names
// an ability: a test that cannot have it then fails instead of being skipped.
func Required(ability string) bool {
	return slices.Contains(strings.Split(os.Getenv("WINDTUNNEL_REQUIRE"), ","), ability)
}

// Args are this program's arguments, without its name.
func Args() []string { return os.Args[1:] }
