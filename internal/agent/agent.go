// Package agent is what runs inside a pod: it obeys one runner over one pipe,
// and ends with it. It gates and loads, and opens no other door.
//
// The pipe carries one JSON object a line: commands in, messages out. Every
// message carries the number of the command that it answers.
package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
)

// maxLine bounds one line; a result with its histograms has up to 0.5 MB.
const maxLine = 8 << 20

// Protocols are the protocols that an agent speaks.
type Protocols []model.Plugin[load.Protocol]

// GateJob asks for the ready gate: requests one after another until Streak
// right answers have come in a row, or Timeout has passed.
type GateJob struct {
	Load    model.Load
	Targets []netip.AddrPort
	Host    string // authority that requests carry
	Streak  int
	Timeout time.Duration
	// RTT is the longest round trip that an answer may have to make; attempts
	// then have more time.
	RTT time.Duration
	// Identities that may answer; none: any.
	Identities []string
}

// LoadJob asks for one load.
type LoadJob struct {
	Load       model.Load
	Targets    []netip.AddrPort // connections are spread over them in turn
	Host       string
	Warmup     time.Duration
	Seed       uint64 // for schedules that draw; a constant rate does not
	Payload    string // digest of the right body, from the ready gate; empty: not compared
	Identities []string
	// Of Shards agents that send one load together, this is number Shard, from 0;
	// Shards 0 or 1: it is alone. All of them begin at Start, from CommonStart.
	Shard, Shards int
	Start         int64
	// Traced has some requests carry a number, and tells of those.
	Traced bool
}

// Progress is how a load is doing since it began, warm-up included.
type Progress struct {
	Due, Succeeded, Failed uint64
	P50, P99               time.Duration // of response time, within 12 %
}

// command asks for one thing. Cancel ends the command of that number.
type command struct {
	ID     uint64   `json:"id"`
	Gate   *GateJob `json:"gate,omitempty"`
	Load   *LoadJob `json:"load,omitempty"`
	Cancel uint64   `json:"cancel,omitempty"`
}

// message answers a command. Ready, Result and Error are the last of one.
type message struct {
	ID       uint64            `json:"id"`
	Ready    *model.Ready      `json:"ready,omitempty"`
	Window   *model.Window     `json:"window,omitempty"`
	Progress *Progress         `json:"progress,omitempty"`
	Result   *model.LoadResult `json:"result,omitempty"`
	Error    string            `json:"error,omitempty"`
}

// Serve obeys commands from the pipe, one at a time, until the pipe ends or the
// context does, which also ends what is under way; neither is an error. A line
// that is no command is answered with an error; a pipe that breaks, or a line
// over 8 MiB, ends Serve with one.
func Serve(ctx context.Context, pipe io.ReadWriter, protocols Protocols) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{protocols: protocols, out: &lineWriter{w: pipe}, finished: make(chan message)}
	defer s.abandon()
	in := readLines(ctx, pipe)
	for s.err == nil {
		select {
		case <-ctx.Done():
			return nil
		case line, ok := <-in.lines:
			if !ok {
				return in.err
			}
			s.obey(ctx, line)
		case m := <-s.finished:
			s.end()
			s.answer(m)
		}
	}
	return s.err // nobody hears the answers
}

// input is the lines of a pipe, read in the background until its end; then err
// may be read.
type input struct {
	lines chan []byte
	err   error
}

func readLines(ctx context.Context, r io.Reader) *input {
	in := &input{lines: make(chan []byte)}
	go func() {
		defer close(in.lines)
		scan := bufio.NewScanner(r)
		scan.Buffer(make([]byte, 64<<10), maxLine)
		for scan.Scan() {
			select {
			case in.lines <- slices.Clone(scan.Bytes()):
			case <-ctx.Done():
				return
			}
		}
		if err := scan.Err(); err != nil {
			in.err = fmt.Errorf("reading the pipe: %w", err)
		}
	}()
	return in
}

// lineWriter writes a JSON object a line, for several goroutines.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lineWriter) write(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding for the pipe: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.w.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("writing to the pipe: %w", err)
	}
	return nil
}

// server is the state of Serve: at most one command is under way. Its fields
// belong to the goroutine of Serve.
type server struct {
	protocols Protocols
	out       *lineWriter
	current   uint64 // the command under way; 0: none
	cancel    context.CancelFunc
	finished  chan message // the last word on the command under way
	err       error        // of writing
}

func (s *server) obey(ctx context.Context, line []byte) {
	var c command
	if err := json.Unmarshal(line, &c); err != nil {
		s.refuse(0, fmt.Sprintf("%.100q is no command: %v", line, err))
		return
	}
	var work func(context.Context) (message, error)
	switch {
	case c.Cancel != 0:
		if c.Cancel == s.current {
			s.cancel()
		}
		return
	case c.ID == 0 || (c.Gate == nil) == (c.Load == nil):
		s.refuse(c.ID, "a command must have an id and either a gate or a load")
		return
	case s.current != 0:
		s.refuse(c.ID, "another command is under way")
		return
	case c.Gate != nil:
		work = func(ctx context.Context) (message, error) {
			ready, err := Gate(ctx, *c.Gate, s.protocols)
			return message{Ready: &ready}, err
		}
	default:
		work = func(ctx context.Context) (message, error) {
			result, err := s.load(ctx, c.ID, *c.Load)
			return message{Result: result}, err
		}
	}
	ctx, s.cancel = context.WithCancel(ctx)
	s.current = c.ID
	go func() {
		m, err := work(ctx)
		if err != nil {
			m = message{Error: err.Error()}
		}
		m.ID = c.ID
		s.finished <- m
	}()
}

func (s *server) refuse(id uint64, why string) { s.answer(message{ID: id, Error: why}) }

func (s *server) answer(m message) { s.err = errors.Join(s.err, s.out.write(m)) }

// abandon ends what is under way without an answer.
func (s *server) abandon() {
	if s.current != 0 {
		s.cancel()
		<-s.finished
	}
}

func (s *server) end() {
	s.cancel()
	s.current = 0
}

func (s *server) load(ctx context.Context, id uint64, j LoadJob) (*model.LoadResult, error) {
	protocol, err := s.protocols.of(j.Load)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	say := func(m message) {
		m.ID = id
		if broken := s.out.write(m); broken != nil {
			cancel(broken)
		}
	}
	result, _, err := load.Run(ctx, load.Job{
		Load: j.Load, Protocol: protocol, Host: j.Host, Targets: j.Targets, Warmup: j.Warmup,
		Expect: load.Digest(j.Payload), Identities: j.Identities, Seed: j.Seed,
		Shard: j.Shard, Shards: j.Shards, Start: j.Start, Traced: j.Traced,
		OnWindow:   func(w model.Window) { say(message{Window: &w}) },
		OnProgress: func(p load.Progress) { say(message{Progress: (*Progress)(&p)}) },
	})
	return result, err
}

// of makes the protocol of a load.
func (p Protocols) of(l model.Load) (load.Protocol, error) {
	var known []string
	for _, plugin := range p {
		if plugin.Name == l.Protocol {
			return plugin.New(l.Config)
		}
		known = append(known, plugin.Name)
	}
	return nil, fmt.Errorf("this agent does not speak %q, only %s", l.Protocol, strings.Join(known, ", "))
}
