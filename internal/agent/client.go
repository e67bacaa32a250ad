package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Client commands one agent. It is for one goroutine; after an error it is of
// no more use.
type Client struct {
	out      *lineWriter
	messages chan []byte
	err      error
}

// Dial takes over the pipe to an agent. The client reads it until it ends.
func Dial(pipe io.ReadWriter) *Client {
	c := &Client{out: &lineWriter{w: pipe}, messages: make(chan []byte, 16)}
	go func() {
		defer close(c.messages)
		in := bufio.NewScanner(pipe)
		in.Buffer(make([]byte, 64<<10), maxLine)
		for in.Scan() {
			c.messages <- slices.Clone(in.Bytes())
		}
		c.err = in.Err()
	}()
	return c
}

// Gate runs the ready gate; what it saw comes back also if it did not pass.
func (c *Client) Gate(ctx context.Context, j GateJob) (model.Ready, error) {
	if err := c.send(command{Gate: &j}); err != nil {
		return model.Ready{}, err
	}
	for {
		m, err := c.receive(ctx)
		if err != nil {
			return model.Ready{}, fmt.Errorf("gating through the agent: %w", err)
		}
		if m.Ready != nil {
			return *m.Ready, nil
		}
	}
}

// Load runs one load. onWindow is called before the measured window opens.
func (c *Client) Load(ctx context.Context, j LoadJob, onWindow func(model.Window), onProgress func(Progress)) (*model.LoadResult, error) {
	if err := c.send(command{Load: &j}); err != nil {
		return nil, err
	}
	for {
		m, err := c.receive(ctx)
		switch {
		case err != nil:
			return nil, fmt.Errorf("loading through the agent: %w", err)
		case m.Window != nil:
			onWindow(*m.Window)
		case m.Progress != nil:
			onProgress(*m.Progress)
		case m.Result != nil:
			return m.Result, nil
		}
	}
}

func (c *Client) send(cmd command) error {
	line, err := json.Marshal(cmd)
	if err != nil {
		return fmt.Errorf("encoding a command: %w", err)
	}
	if _, err := c.out.w.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("commanding the agent: %w", err)
	}
	return nil
}

func (c *Client) receive(ctx context.Context) (message, error) {
	select {
	case <-ctx.Done():
		return message{}, context.Cause(ctx)
	case line, ok := <-c.messages:
		if !ok {
			return message{}, errors.Join(errors.New("the agent has ended"), c.err)
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			return m, fmt.Errorf("reading the agent's message: %w", err)
		}
		if m.Error != "" {
			return m, errors.New(m.Error)
		}
		return m, nil
	}
}
