package sys

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// insideMarker tells a re-executed process that it is the one inside. It is
// believed only by process 1 of a pid namespace, and removed at once.
const insideMarker = "WINDTUNNEL_INSIDE"

// Handover is what the outer process tells the inner one, which cannot find
// it out: there it seems to be root, and is bound to some of the CPUs.
type Handover struct {
	CPUs     []int  `json:"cpus"` // all that the outer process was given
	StateDir string `json:"state_dir"`
	Rootless bool   `json:"rootless"`
	// Probe says that the inner process is only to try what it can do there;
	// see ReexecProbe.
	Probe bool `json:"probe,omitempty"`
	// Bring is a file of the outer process that the inner one gets, too, e.g. a
	// listener of the host's network; there it is what File returns.
	Bring   *os.File `json:"-"`
	Brought bool     `json:"brought,omitempty"`
}

// broughtFile is the number of the file that was brought: the first after the
// standard ones.
const broughtFile = 3

// File is the file that the outer process has brought, nil if it has not. Call it
// once, before any child is started: no child must inherit it.
func (h Handover) File() *os.File {
	if !h.Brought {
		return nil
	}
	unix.CloseOnExec(broughtFile)
	return os.NewFile(broughtFile, "brought from outside")
}

// Inside says whether this process is the re-executed one, and forgets the
// marker so that no child inherits it.
func Inside() (h Handover, inside bool) {
	marker := os.Getenv(insideMarker)
	if marker == "" || os.Unsetenv(insideMarker) != nil || os.Getpid() != 1 {
		return Handover{}, false
	}
	return h, json.Unmarshal([]byte(marker), &h) == nil
}

// Rootless says whether this process needs a user namespace to make others:
// root without CAP_SYS_ADMIN, as in a container, does.
func Rootless() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return os.Geteuid() != 0
	}
	return caps[0].Effective&(1<<unix.CAP_SYS_ADMIN) == 0
}

// Reexec runs this program again, with the same arguments and standard files,
// as process 1 of new network, pid, mount, ipc and uts namespaces (and a user
// namespace where h says rootless), bound to the given CPUs. It returns the
// inner process's exit code, 128 + signal where one ended it. Whichever of the
// two dies, by whatever signal, the kernel removes the namespaces and
// everything in them.
func Reexec(ctx context.Context, h Handover, bind []int) (code int, err error) {
	cmd, err := insideCommand(ctx, h)
	if err != nil {
		return 0, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = startAndWait(cmd, bind)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exitCode(exit.ProcessState), nil
	}
	return 0, err
}

// ReexecProbe is Reexec for a question: the answer is what the inner process
// gives to Answer.
func ReexecProbe(ctx context.Context, h Handover) (answer []byte, err error) {
	cmd, err := insideCommand(ctx, h)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := startAndWait(cmd, nil); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Answer ends this process, which ReexecProbe has started, with an answer or
// with an error.
func Answer(b []byte, err error) {
	if err == nil {
		_, err = os.Stdout.Write(b)
	}
	if err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// startAndWait runs the inner process to its end, and hands signals on to it.
func startAndWait(cmd *exec.Cmd, bind []int) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer signal.Stop(signals)

	// PDEATHSIG fires when the *thread* that forked ends, so that thread is
	// kept, in Wait, until the child has ended.
	return onThrowawayThread(func() error {
		if err := setAffinity(bind); err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("making the lab's namespaces: %w", err)
		}
		done := make(chan struct{})
		defer close(done)
		go forward(signals, cmd.Process, done)
		return cmd.Wait()
	})
}

func insideCommand(ctx context.Context, h Handover) (*exec.Cmd, error) {
	h.Brought = h.Bring != nil
	marker, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("writing the hand-over to the inner process: %w", err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "/proc/self/exe")
	cmd.Args = os.Args
	if h.Brought {
		cmd.ExtraFiles = []*os.File{h.Bring}
	}
	cmd.Env = append(os.Environ(), insideMarker+"="+string(marker))
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		Pdeathsig:  unix.SIGKILL,
	}
	if h.Rootless {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return cmd, nil
}

func exitCode(s *os.ProcessState) int {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return s.ExitCode()
}

func forward(signals <-chan os.Signal, p *os.Process, done <-chan struct{}) {
	for {
		select {
		case s := <-signals:
			if err := p.Signal(s); err != nil {
				return // it has ended; Wait reports how
			}
		case <-done:
			return
		}
	}
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
	reapOrphans()
	return notes, RaiseOpenFiles()
}
