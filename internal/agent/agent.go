// Package agent is what runs inside a pod: it obeys one runner over one pipe,
// and ends with it. It gates and loads; it accepts no other connection.
//
// The pipe carries one JSON object a line: commands in, messages out.
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
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
)

// maxLine bounds one message; a result with its histograms is about 200 KB.
const maxLine = 64 << 20

// GateJob asks for the ready gate: requests one after another until Streak
// right answers have come in a row, or Timeout has passed.
type GateJob struct {
	Load       model.Load       `json:"load"`
	Targets    []netip.AddrPort `json:"targets"`
	Host       string           `json:"host"` // authority that requests carry
	Streak     int              `json:"streak"`
	Timeout    time.Duration    `json:"timeout_ns"`
	Identities []string         `json:"identities,omitempty"` // that may answer; none: any
}

// LoadJob asks for one load. Payload is the digest of the right body, from the
// gate; empty: bodies are not compared.
type LoadJob struct {
	Load    model.Load       `json:"load"`
	Targets []netip.AddrPort `json:"targets"`
	Host    string           `json:"host"`
	Warmup  time.Duration    `json:"warmup_ns"`
	Payload string           `json:"payload,omitempty"`
}

// Progress counts since the load began, warm-up included.
type Progress struct {
	Due       uint64 `json:"due"`
	Succeeded uint64 `json:"succeeded"`
	Failed    uint64 `json:"failed"`
}

type command struct {
	Gate *GateJob `json:"gate,omitempty"`
	Load *LoadJob `json:"load,omitempty"`
}

type message struct {
	Ready    *model.Ready      `json:"ready,omitempty"`
	Window   *model.Window     `json:"window,omitempty"`
	Progress *Progress         `json:"progress,omitempty"`
	Result   *model.LoadResult `json:"result,omitempty"`
	Error    string            `json:"error,omitempty"`
}

// Protocols are the protocols that an agent speaks, by name.
type Protocols map[string]load.Protocol

// Serve obeys commands from the pipe until it ends, or the context does. The
// end of the pipe also ends a load that is under way.
func Serve(ctx context.Context, pipe io.ReadWriter, protocols Protocols) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The reader runs on its own, so that a runner that dies is noticed.
	commands := make(chan []byte)
	var readErr error
	go func() {
		defer cancel()
		readErr = readLines(ctx, pipe, commands)
		close(commands)
	}()
	out := &lineWriter{w: pipe}
	for line := range commands {
		if err := obey(ctx, line, protocols, out); err != nil {
			if sendErr := out.write(message{Error: err.Error()}); sendErr != nil {
				return sendErr
			}
		}
	}
	return readErr
}

func readLines(ctx context.Context, r io.Reader, lines chan<- []byte) error {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 64<<10), maxLine)
	for in.Scan() {
		select {
		case lines <- slices.Clone(in.Bytes()):
		case <-ctx.Done():
			return nil
		}
	}
	return in.Err()
}

type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lineWriter) write(m message) error {
	line, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encoding a message: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.w.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("answering the runner: %w", err)
	}
	return nil
}

func obey(ctx context.Context, line []byte, protocols Protocols, out *lineWriter) error {
	var c command
	if err := json.Unmarshal(line, &c); err != nil {
		return fmt.Errorf("reading a command: %w", err)
	}
	switch {
	case c.Gate != nil:
		ready, err := gate(ctx, *c.Gate, protocols)
		if err != nil {
			return err
		}
		return out.write(message{Ready: &ready})
	case c.Load != nil:
		result, err := runLoad(ctx, *c.Load, protocols, out)
		if err != nil {
			return err
		}
		return out.write(message{Result: result})
	}
	return errors.New("reading a command: neither gate nor load")
}

func sessions(protocols Protocols, l model.Load, host string) (func() load.Session, error) {
	p, ok := protocols[l.Protocol]
	if !ok {
		return nil, fmt.Errorf("this agent does not speak %q", l.Protocol)
	}
	return p.Prepare(l, host)
}

func runLoad(ctx context.Context, j LoadJob, protocols Protocols, out *lineWriter) (*model.LoadResult, error) {
	session, err := sessions(protocols, j.Load, j.Host)
	if err != nil {
		return nil, err
	}
	expect, err := parsePayload(j.Payload)
	if err != nil {
		return nil, err
	}
	var sendErr error
	send := func(m message) { sendErr = errors.Join(sendErr, out.write(m)) }
	result, err := load.Run(ctx, load.Job{
		Load: j.Load, Session: session, Targets: j.Targets, Warmup: j.Warmup, Expect: expect,
		Workers:    1,
		OnWindow:   func(w model.Window) { send(message{Window: &w}) },
		OnProgress: func(p load.Progress) { send(message{Progress: &Progress{p.Due, p.Succeeded, p.Failed}}) },
	})
	return result, errors.Join(err, sendErr)
}

// payload writes a body's digest as "crc32c:01234567/120".
func payload(a load.Answer) string { return fmt.Sprintf("crc32c:%08x/%d", a.Sum, a.BodyBytes) }

func parsePayload(text string) (load.Expect, error) {
	if text == "" {
		return load.Expect{}, nil
	}
	e := load.Expect{Known: true}
	if _, err := fmt.Sscanf(text, "crc32c:%08x/%d", &e.Sum, &e.Bytes); err != nil {
		return e, fmt.Errorf("reading the payload digest %q: %w", text, err)
	}
	return e, nil
}
