package sys

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// insideMarker tells a re-executed process that it is the one inside. It is
// believed only by process 1 of a pid namespace, and removed at once.
const insideMarker = "WINDTUNNEL_INSIDE"

// Inside says whether this process is the re-executed one, and forgets the
// marker so that no child inherits it.
func Inside() bool {
	marked := os.Getenv(insideMarker) != "" && os.Getpid() == 1
	if err := os.Unsetenv(insideMarker); err != nil {
		return false
	}
	return marked
}

// Reexec runs this program again, with the same arguments and standard files,
// as process 1 of new network, pid, mount, ipc and uts namespaces (and a user
// namespace where this user is not root), bound to the given CPUs. It returns
// the inner process's exit code. Whichever of the two dies, by whatever
// signal, the kernel removes the namespaces and everything in them.
func Reexec(ctx context.Context, cpus []int) (code int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("finding this program: %w", err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self)
	cmd.Args = os.Args
	cmd.Env = append(os.Environ(), insideMarker+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = namespaces()
	// The terminal sends SIGINT to both processes; the inner one decides.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer signal.Stop(signals)

	// PDEATHSIG fires when the *thread* that forked ends, so that thread is
	// kept until the child has ended.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := setAffinity(cpus); err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("making the lab's namespaces: %w", err)
	}
	done := make(chan struct{})
	go forward(signals, cmd.Process, done)
	err = cmd.Wait()
	close(done)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if s, ok := exit.Sys().(syscall.WaitStatus); ok && s.Signaled() {
			return 128 + int(s.Signal()), nil
		}
		return exit.ExitCode(), nil
	}
	return 0, err
}

func forward(signals <-chan os.Signal, p *os.Process, done <-chan struct{}) {
	for {
		select {
		case s := <-signals:
			if s == unix.SIGINT && foreground() {
				continue
			}
			if err := p.Signal(s); err != nil {
				return // it has ended; Wait reports how
			}
		case <-done:
			return
		}
	}
}

// foreground says whether this process's group is the terminal's foreground
// group, in which case the terminal itself has signalled the inner process.
func foreground() bool {
	group, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// SettleInside makes the new namespaces a home: mounts do not leak out, /proc
// shows the own pid namespace, loopback is up. notes says what could not be
// done but is not needed.
func SettleInside() (notes []string, err error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("making mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		notes = append(notes, "/proc shows the host's processes: "+err.Error())
	}
	if err := LoopbackUp(); err != nil {
		return notes, err
	}
	return notes, RaiseOpenFiles()
}

// TryNamespaces makes the namespaces that Reexec needs, around a process that
// ends at once.
func TryNamespaces(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "/bin/true")
	cmd.SysProcAttr = namespaces()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("making namespaces: %w", err)
	}
	return nil
}

// namespaces asks for new ones of every kind that the lab needs.
func namespaces() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		Pdeathsig:  unix.SIGKILL,
	}
	if os.Getuid() != 0 {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return attr
}
