// Package impair lets servers be made slow or failing while they run: those
// that listen here do to every request what the fault `server` says.
//
// The door is an abstract Unix socket, which exists in a network namespace and
// in no file system: only who is in the pod's network can open it.
package impair

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// socket is the door of a pod's server; there is one server in a pod.
const socket = "@windtunnel-impair"

// patience bounds one question.
const patience = 5 * time.Second

// A delay of a known size ends when it should. The runtime's own timers may be
// a millisecond late in a process that has nothing else to do, as it waits in
// whole milliseconds: the stretch before the last is slept by the kernel's clock.
// What wakes up a sleeper takes some time, too: the last is spent watching.
const (
	fineStretch = 2 * time.Millisecond
	lastStretch = 150 * time.Microsecond
)

// Server is what a server asks about every request.
type Server struct {
	now      atomic.Pointer[model.Impairment]
	requests atomic.Uint64
}

// NewServer makes one with what it does from the beginning.
func NewServer(from model.Impairment) *Server {
	s := &Server{}
	s.set(from)
	return s
}

// set changes what is done, from the next request on. Nothing is a nil, so that
// servers that are well pay for one look only.
func (s *Server) set(to model.Impairment) {
	s.requests.Store(0)
	if to == (model.Impairment{}) {
		s.now.Store(nil)
		return
	}
	s.now.Store(&to)
}

func (s *Server) get() model.Impairment {
	if p := s.now.Load(); p != nil {
		return *p
	}
	return model.Impairment{}
}

// Meet burns and delays, and says whether the request shall fail: exactly the
// share, evenly spread, so that its true size is known of every window.
func (s *Server) Meet() (fail bool) {
	if s == nil {
		return false
	}
	p := s.now.Load()
	if p == nil {
		return false
	}
	watch(time.Now().Add(p.Burn))
	wait(p.Delay)
	n := s.requests.Add(1)
	return uint64(float64(n)*p.Fail) > uint64(float64(n-1)*p.Fail)
}

// wait for so long, to some microseconds.
func wait(delay time.Duration) {
	end := time.Now().Add(delay)
	if rest := delay - fineStretch; rest > 0 {
		timer := time.NewTimer(rest)
		<-timer.C
	}
	if rest := time.Until(end) - lastStretch; rest > 0 {
		_ = sys.SleepUntil(sys.Monotonic() + int64(rest)) // if it cannot, the clock is watched for longer
	}
	watch(end)
}

// watch the clock until then.
func watch(until time.Time) {
	for time.Now().Before(until) {
	}
}

// Listen lets others set what the server does, until the context ends.
func (s *Server) Listen(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("listening for what the server is to suffer: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				s.answer(c)
			}
		}
	}()
	return nil
}

// answer sets what it is told, and says what was before.
func (s *Server) answer(c net.Conn) {
	defer c.Close() //nolint:errcheck // all that can be said has been
	_ = c.SetDeadline(time.Now().Add(patience))
	var to model.Impairment
	line, err := bufio.NewReader(c).ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &to) != nil {
		return // the other end sees that nothing was answered
	}
	before := s.get()
	s.set(to)
	_ = json.NewEncoder(c).Encode(before) //nolint:errchkjson // its share is finite; the other end may be gone
}

// Set makes the server in a pod's network do something to every request, and
// returns what it did before.
func Set(ctx context.Context, pod model.Namespace, to model.Impairment) (before model.Impairment, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var c net.Conn
	err = pod.InNetwork(func() (err error) {
		c, err = (&net.Dialer{}).DialContext(ctx, "unix", socket)
		return err
	})
	if errors.Is(err, syscall.ECONNREFUSED) {
		return before, fmt.Errorf("pod %s has no server that can be impaired: echo's and those of apps of several services can be", pod.Name())
	}
	if err != nil {
		return before, fmt.Errorf("reaching the server in pod %s to impair it: %w", pod.Name(), err)
	}
	defer c.Close() //nolint:errcheck // all that can be said has been
	deadline, _ := ctx.Deadline()
	if err = c.SetDeadline(deadline); err == nil {
		err = json.NewEncoder(c).Encode(to)
	}
	if err == nil {
		err = json.NewDecoder(c).Decode(&before)
	}
	if err != nil {
		return before, fmt.Errorf("impairing the server in pod %s: %w", pod.Name(), err)
	}
	return before, nil
}
