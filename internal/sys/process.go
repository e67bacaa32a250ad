package sys

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Command is a program to start.
type Command struct {
	Argv []string
	Env  []string
	Dir  string
	// Netns is where it runs; nil: where this process is.
	Netns *Netns
	CPUs  []int
	// Group accounts for it from its first instruction; nil: not accounted.
	Group *Cgroup
	// Files, if set, are its standard input, output and error themselves.
	Files  [3]*os.File
	Output io.Writer // standard output and error, unless Piped
	Piped  bool      // standard input and output through Process.Stream
}

// Process is a started program.
type Process struct {
	cmd    *exec.Cmd
	group  *Cgroup
	done   chan struct{}
	stream io.ReadWriteCloser
	mu     sync.Mutex
	asked  bool
	err    error
}

// stream is both directions of a child's standard files.
type stream struct {
	io.Reader
	in  io.WriteCloser
	out io.Closer
}

func (s stream) Write(p []byte) (int, error) { return s.in.Write(p) }
func (s stream) Close() error                { return errors.Join(s.in.Close(), s.out.Close()) }

// Start starts a program on a thread that has first gone where the program is
// to be: its namespace, CPUs and cgroup are then its own from birth. The
// thread then waits for the program's end: some programs (Envoy) ask to be
// killed when the thread that started them ends.
func Start(c Command) (*Process, error) {
	p := &Process{group: c.Group, done: make(chan struct{})}
	p.cmd = exec.Command(c.Argv[0], c.Argv[1:]...) //nolint:gosec,noctx // what to run is the caller's to say; processes outlive the call, and Stop ends them
	if self, err := os.Executable(); err == nil && c.Argv[0] == self {
		p.cmd.Path = "/proc/self/exe" // even where its folder is closed to this user, or it has been replaced
	}
	p.cmd.Env, p.cmd.Dir = c.Env, c.Dir
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p.cmd.Stdout, p.cmd.Stderr = c.Output, c.Output
	p.cmd.WaitDelay = time.Second
	if c.Files[0] != nil {
		p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = c.Files[0], c.Files[1], c.Files[2]
	}
	closeAfter, err := p.pipe(c)
	if err != nil {
		return nil, err
	}
	started := make(chan error, 1)
	go throwAway(func() {
		failure := p.start(c)
		started <- failure
		if failure == nil {
			p.wait()
		}
	})
	err = <-started
	for _, f := range closeAfter {
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.Argv[0], err)
	}
	return p, nil
}

// start forks on the calling thread, which it takes to the right place first
// and out of the cgroup again after.
func (p *Process) start(c Command) error {
	if c.Netns != nil {
		if err := c.Netns.enter(); err != nil {
			return err
		}
	}
	leave, err := c.Group.join(p.cmd.SysProcAttr)
	if err != nil {
		return errors.Join(err, leave())
	}
	if err = setAffinity(c.CPUs); err != nil {
		return errors.Join(err, leave())
	}
	err = p.cmd.Start()
	if stuck := leave(); stuck != nil && err == nil {
		return errors.Join(stuck, p.cmd.Process.Kill(), p.cmd.Wait())
	}
	return err
}

func (p *Process) pipe(c Command) (closeAfter []*os.File, err error) {
	if !c.Piped {
		return nil, nil
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making a pipe: %w", err), inR.Close(), inW.Close())
	}
	p.cmd.Stdin, p.cmd.Stdout = inR, outW
	p.stream = stream{outR, inW, outR}
	return []*os.File{inR, outW}, nil
}

func (p *Process) wait() {
	err := p.cmd.Wait()
	p.mu.Lock()
	if !p.asked {
		if err == nil {
			err = errors.New("exited with status 0 without being asked to")
		}
		p.err = err
	}
	p.mu.Unlock()
	close(p.done)
}

// PID is the process's number in this pid namespace.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says why it ended; nil while it runs, or if it was asked to.
func (p *Process) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// ExitCode is the exit status, 128 + signal where one ended it; only after Done.
func (p *Process) ExitCode() int { return exitCode(p.cmd.ProcessState) }

// Stream is standard input and output; nil unless Piped.
func (p *Process) Stream() io.ReadWriteCloser { return p.stream }

// Signal sends a signal to the process's group.
func (p *Process) Signal(s syscall.Signal) error { return SignalGroup(p.PID(), s) }

// SignalNumber is Signal by number, as it came over a wire.
func (p *Process) SignalNumber(n int) error { return p.Signal(syscall.Signal(n)) }

// stopGrace is how long a process may take to end by itself when asked.
const stopGrace = 2 * time.Second

// Stop asks the process to end, and after two seconds (or when the context
// ends) kills it and its whole group. It returns when it is gone.
func (p *Process) Stop(ctx context.Context) error {
	p.mu.Lock()
	p.asked = true
	p.mu.Unlock()
	select {
	case <-p.done:
		return p.kill() // children may be left
	default:
	}
	if p.stream != nil {
		_ = p.stream.Close() // the end of its input asks it to end; it may have closed it itself
	}
	err := p.Signal(unix.SIGTERM)
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
	case <-ctx.Done():
	}
	return errors.Join(err, p.kill())
}

// kill makes sure that nothing of the process is left.
func (p *Process) kill() error {
	err := errors.Join(p.Signal(unix.SIGKILL), p.group.Kill())
	<-p.done
	return err
}

// Become goes on as another program, with this one's number, files and
// environment; it returns only if that does not exist.
func Become(path string, args []string) error {
	if err := unix.Exec(path, append([]string{path}, args...), os.Environ()); err != nil {
		return fmt.Errorf("going on as %s: %w", path, err)
	}
	return nil
}
