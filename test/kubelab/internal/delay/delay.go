// Package delay emulates the distance between two clusters: the lab's WAN hands
// what crosses it to a delay line, a process that tells the kernel later what
// becomes of each packet. That process is windtunnel's own, `windtunnel
// delay-line`, which emulates the links of its lab where the kernel has no netem;
// it is run as a program, and spoken to in JSON.
package delay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Link is the way between two devices of a router, by their names, with a delay
// each way.
type Link struct {
	A, B  string
	Delay time.Duration
}

// Line is one direction, as the delay line wants it.
type Line struct {
	Name     string   `json:"name"`
	Queue    uint16   `json:"queue"`
	Seed     uint64   `json:"seed"`
	Settings Settings `json:"settings"`
}

// Settings are a direction's.
type Settings struct {
	Delay time.Duration `json:"delay_ns"`
}

// Lines are the two directions.
func (l Link) Lines() []Line {
	line := func(from, to string, queue uint16) Line {
		return Line{Name: from + ">" + to, Queue: queue, Seed: uint64(queue), Settings: Settings{l.Delay}}
	}
	return []Line{line(l.A, l.B, 1), line(l.B, l.A, 2)}
}

// Rules are calls of iptables that hand the two directions to their queues.
// While nobody is there to delay them, packets are dropped: a link must not
// become fast when its emulation has died.
func (l Link) Rules() [][]string {
	return [][]string{queue(l.A, l.B, "1"), queue(l.B, l.A, "2")}
}

func queue(from, to, number string) []string {
	return []string{"-A", "FORWARD", "-i", from, "-o", to, "-j", "NFQUEUE", "--queue-num", number}
}

// Running is a link that is being delayed.
type Running struct {
	command *exec.Cmd
	in      io.Closer
	ended   chan struct{}
	err     error // how it ended
	remove  func() error
}

// Start begins to delay, in the calling thread's network namespace. Command is
// the delay line.
func Start(ctx context.Context, l Link, command ...string) (*Running, error) {
	ctx = context.WithoutCancel(ctx) // Stop ends it, in order
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.SysProcAttr = alone()
	in, err := c.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("preparing the delay line: %w", err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("preparing the delay line: %w", err)
	}
	c.Stderr = os.Stderr
	if err = c.Start(); err != nil {
		return nil, fmt.Errorf("starting the delay line %s: %w (`make build` makes it; WINDTUNNEL names another)", strings.Join(command, " "), err)
	}
	r := &Running{command: c, in: in, ended: make(chan struct{}), remove: func() error { return nil }}
	err = hello(in, out, l.Lines())
	go func() {
		_, _ = io.Copy(io.Discard, out) // it says no more, and ends
		r.err = c.Wait()
		close(r.ended)
	}()
	if err != nil {
		return nil, errors.Join(err, r.Stop())
	}
	r.remove = func() error { return Clear(ctx) }
	for _, rule := range l.Rules() {
		if err == nil {
			err = iptables(ctx, rule...)
		}
	}
	if err != nil {
		return nil, errors.Join(err, r.Stop())
	}
	return r, nil
}

// hello tells the delay line its lines and waits until it is ready.
func hello(in io.Writer, out io.Reader, lines []Line) error {
	var ready struct {
		Error string `json:"error"`
	}
	if err := json.NewEncoder(in).Encode(lines); err != nil {
		return fmt.Errorf("telling the delay line its links: %w", err)
	}
	if err := json.NewDecoder(out).Decode(&ready); err != nil {
		return fmt.Errorf("waiting for the delay line: %w", err)
	}
	if ready.Error != "" {
		return fmt.Errorf("the delay line: %s", ready.Error)
	}
	return nil
}

// Ended is closed when the delay line has ended; Err then says how.
func (r *Running) Ended() <-chan struct{} { return r.ended }

// Err says how the delay line ended.
func (r *Running) Err() error { return r.err }

// Stop lets packets pass again and ends the delay line, whose input ends.
func (r *Running) Stop() error {
	err := errors.Join(r.remove(), r.in.Close())
	select {
	case <-r.ended:
	case <-time.After(5 * time.Second):
		err = errors.Join(err, r.command.Process.Kill())
	}
	return err
}

// iptables runs the host's program of that name in the thread's namespace.
func iptables(ctx context.Context, args ...string) error {
	c := exec.CommandContext(ctx, "iptables", append([]string{"-w"}, args...)...)
	c.SysProcAttr = alone()
	said, err := c.CombinedOutput()
	if err != nil {
		return fmt.Errorf("iptables %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(said)))
	}
	return nil
}

// Clear lets packets pass in the thread's namespace, also where a link was killed
// that could not: nothing else has rules there.
func Clear(ctx context.Context) error { return iptables(ctx, "-F", "FORWARD") }

// alone keeps a terminal's ctrl-C from what has to end in order.
func alone() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
