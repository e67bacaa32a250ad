package feature

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"

	"github.com/windtunnel/windtunnel/internal/model"
)

// scout is a live one, as its master sees it.
type scout struct {
	where   string
	running model.Running
	mu      sync.Mutex // one order at a time
	lines   *bufio.Scanner
}

// startScout starts a scout in a pod or on a node.
func startScout(ctx context.Context, in model.Starter, where, name string) (*scout, error) {
	running, err := in.Start(ctx, model.Process{
		Name: name, Component: model.ComponentApp, Command: []string{"{self}", Command}, Piped: true,
	})
	if err != nil {
		return nil, fmt.Errorf("starting a scout in %s: %w", where, err)
	}
	p := &scout{where: where, running: running, lines: bufio.NewScanner(running.Stream())}
	p.lines.Buffer(make([]byte, 64<<10), maxLine)
	return p, nil
}

// do gives a scout an order and waits for its answer. A scout whose answer was
// not waited for is of no more use.
func (p *scout) do(ctx context.Context, o order) (answer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text, err := json.Marshal(o)
	if err != nil {
		return answer{}, fmt.Errorf("encoding an order: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = p.running.Stream().Close() }) // ends the reading below
	defer stop()
	if _, err = p.running.Stream().Write(append(text, '\n')); err != nil {
		return answer{}, errors.Join(fmt.Errorf("giving the scout in %s an order: %w", p.where, err), ctx.Err())
	}
	if !p.lines.Scan() {
		err = p.lines.Err()
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return answer{}, errors.Join(fmt.Errorf("the scout in %s does not answer: %w", p.where, err), ctx.Err())
	}
	var a answer
	if err = json.Unmarshal(p.lines.Bytes(), &a); err != nil {
		return answer{}, fmt.Errorf("reading what the scout in %s says: %w", p.where, err)
	}
	if a.Error != "" {
		return answer{}, fmt.Errorf("the scout in %s: %s", p.where, a.Error)
	}
	return a, nil
}

// serve makes a scout a server.
func (p *scout) serve(ctx context.Context, port uint16, identity string) error {
	// All addresses, because sidecars reach a server on loopback.
	_, err := p.do(ctx, order{Listen: &listen{Addr: netip.AddrPortFrom(netip.IPv4Unspecified(), port), Identity: identity}})
	return err
}

func (p *scout) tell(ctx context.Context) (Got, error) {
	a, err := p.do(ctx, order{Tell: true})
	if err != nil || a.Got == nil {
		return Got{}, err
	}
	return *a.Got, nil
}
