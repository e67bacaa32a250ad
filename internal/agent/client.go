package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Client commands one agent over its pipe. Its methods are for one goroutine
// at a time.
type Client struct {
	pipe   io.Closer
	out    *lineWriter
	in     *input
	cancel context.CancelFunc
	last   uint64 // number of the last command
}

// Dial takes over the pipe to an agent. Close gives it up.
func Dial(pipe io.ReadWriteCloser) *Client {
	ctx, cancel := context.WithCancel(context.Background())
	return &Client{pipe: pipe, out: &lineWriter{w: pipe}, in: readLines(ctx, pipe), cancel: cancel}
}

// Close closes the pipe, which also ends the agent.
func (c *Client) Close() error {
	c.cancel()
	return c.pipe.Close()
}

// Gate runs the ready gate. What it saw comes back also if it did not pass,
// which is no error.
func (c *Client) Gate(ctx context.Context, j GateJob) (model.Ready, error) {
	var ready model.Ready
	err := c.call(ctx, command{Gate: &j}, func(m *message) bool {
		if m.Ready != nil {
			ready = *m.Ready
		}
		return m.Ready != nil
	})
	if err != nil {
		return ready, fmt.Errorf("gating through the agent: %w", err)
	}
	return ready, nil
}

// connectTime is what agents have for opening their connections before a common
// start: enough for TLS between continents.
const connectTime = time.Second

// CommonStart is when agents on this host should begin that send one load
// together: they have the same clock, and time to open their connections.
func CommonStart() (int64, error) {
	now, err := Now()
	return now + connectTime.Nanoseconds(), err
}

// Now is CLOCK_MONOTONIC of this host, on which windows are given.
func Now() (int64, error) { return load.Monotonic() }

// Load runs one load. onWindow is called once, before the measured window
// opens, onProgress about five times a second; both may be nil. The end of the
// context ends the load.
func (c *Client) Load(ctx context.Context, j LoadJob, onWindow func(model.Window), onProgress func(Progress)) (*model.LoadResult, error) {
	var result *model.LoadResult
	err := c.call(ctx, command{Load: &j}, func(m *message) bool {
		if m.Window != nil && onWindow != nil {
			onWindow(*m.Window)
		}
		if m.Progress != nil && onProgress != nil {
			onProgress(*m.Progress)
		}
		result = m.Result
		return result != nil
	})
	if err != nil {
		return nil, fmt.Errorf("loading through the agent: %w", err)
	}
	return result, nil
}

// call sends a command and hands its messages over until last says that one was
// the last. If the context ends, the agent is told to cancel, and what it still
// answers is skipped by a later call.
func (c *Client) call(ctx context.Context, cmd command, last func(m *message) bool) error {
	c.last++
	cmd.ID = c.last
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if err := c.out.write(cmd); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), c.abandon(cmd.ID))
		case line, ok := <-c.in.lines:
			if !ok {
				return errors.Join(errors.New("the agent has ended; its log says why"), c.in.err)
			}
			var m message
			if err := json.Unmarshal(line, &m); err != nil {
				return fmt.Errorf("the agent said %.200q, which is no message: %w", line, err)
			}
			switch {
			case m.ID != 0 && m.ID != cmd.ID: // of an earlier command
			case m.Error != "":
				return errors.New(m.Error)
			case last(&m):
				return nil
			}
		}
	}
}

// abandon tells the agent to cancel a command, listening meanwhile: the agent
// may itself be waiting to be heard.
func (c *Client) abandon(id uint64) error {
	told := make(chan error, 1)
	go func() { told <- c.out.write(command{Cancel: id}) }()
	for {
		select {
		case err := <-told:
			return err
		case _, ok := <-c.in.lines:
			if !ok {
				return nil // it has ended, and the command with it
			}
		}
	}
}
