// Package sys is the only door to the kernel and to other programs: processes,
// namespaces, network devices, cgroups. Everything here is Linux.
//
// Functions that act on "the network namespace of the calling thread" are
// called inside Netns.Do.
package sys

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

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

// Netns holds a network namespace open by a file descriptor: no name, no
// process, nothing that could outlive this program.
type Netns struct{ file *os.File }

// NewNetns makes an empty network namespace.
func NewNetns() (*Netns, error) {
	var ns *Netns
	err := onThrowawayThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("making a network namespace: %w", err)
		}
		var err error
		ns, err = currentNetns()
		return err
	})
	return ns, err
}

// NewNetnses makes n empty network namespaces on one thread.
func NewNetnses(n int) ([]*Netns, error) {
	all := make([]*Netns, 0, n)
	err := onThrowawayThread(func() error {
		for range n {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("making network namespace %d of %d: %w", len(all)+1, n, err)
			}
			ns, err := currentNetns()
			if err != nil {
				return err
			}
			all = append(all, ns)
		}
		return nil
	})
	if err != nil {
		for _, ns := range all {
			err = errors.Join(err, ns.Close())
		}
		return nil, err
	}
	return all, nil
}

// OwnNetns is the namespace that this process started in.
func OwnNetns() (*Netns, error) {
	f, err := os.Open("/proc/self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("opening the own network namespace: %w", err)
	}
	return &Netns{f}, nil
}

func currentNetns() (*Netns, error) {
	f, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("opening a network namespace: %w", err)
	}
	return &Netns{f}, nil
}

// Do runs f on a thread inside the namespace. The thread is thrown away.
func (n *Netns) Do(f func() error) error {
	return onThrowawayThread(func() error {
		if err := n.enter(); err != nil {
			return err
		}
		return f()
	})
}

func (n *Netns) enter() error {
	if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("entering a network namespace: %w", err)
	}
	return nil
}

// FD is the descriptor that holds the namespace; it stays Netns's own.
func (n *Netns) FD() int { return int(n.file.Fd()) }

// Close lets go of the namespace; the kernel removes it, with its devices and
// rules, when no process is left in it. Closing twice is fine.
func (n *Netns) Close() error {
	if err := n.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("closing a network namespace: %w", err)
	}
	return nil
}

// onThrowawayThread runs f on an operating-system thread of its own, which
// ends with f: what f changes of the thread cannot leak into other goroutines.
func onThrowawayThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		done <- f()
	}()
	return <-done
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

// PinProcess binds every thread of this process to CPUs.
func PinProcess(cpus []int) error {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("listing own threads: %w", err)
	}
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	for _, t := range tasks {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		if err := unix.SchedSetaffinity(tid, &set); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("binding thread %d to CPUs %v: %w", tid, cpus, err)
		}
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
// or this process ends, however it ends.
func Lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("making a lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("taking the lock %s: %w", path, err), f.Close())
	}
	return f, nil
}

// Locked says whether a live process holds the lock.
func Locked(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // only read
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
}
