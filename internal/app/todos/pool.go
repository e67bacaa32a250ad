package todos

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// pool keeps connections to databases as Redigo does: as many as are needed,
// the one used last is taken first, and of the idle ones the oldest is closed
// where there are more than idle.
type pool struct {
	idle    int
	timeout time.Duration // of idle ones
	answer  time.Duration // how long a database may take to answer
	addrs   []netip.AddrPort

	mu   sync.Mutex
	next uint32
	free []*conn // the one used last comes last
}

type conn struct {
	net.Conn

	in   *bufio.Reader
	used time.Time
}

func newPool(s settings, identity string, addrs []netip.AddrPort) *pool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(identity)) // never fails; servers begin with different databases
	return &pool{idle: s.Idle, timeout: s.IdleTimeout, answer: s.Timeout, addrs: addrs, next: h.Sum32()}
}

// take gives the connection that was used last, or a new one to the next
// database.
func (p *pool) take(ctx context.Context) (*conn, error) {
	p.mu.Lock()
	p.free = slices.DeleteFunc(p.free, func(c *conn) bool {
		old := time.Since(c.used) > p.timeout
		if old {
			_ = c.Close()
		}
		return old
	})
	if n := len(p.free); n > 0 {
		c := p.free[n-1]
		p.free = p.free[:n-1]
		p.mu.Unlock()
		return c, nil
	}
	to := p.addrs[p.next%uint32(len(p.addrs))] //nolint:gosec // a few
	p.next++
	p.mu.Unlock()
	return dial(ctx, to)
}

func dial(ctx context.Context, to netip.AddrPort) (*conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, fmt.Errorf("connecting to the database: %w", err)
	}
	return &conn{Conn: c, in: bufio.NewReaderSize(c, maxLine)}, nil
}

func (p *pool) give(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.used = time.Now()
	p.free = append(p.free, c)
	if len(p.free) > p.idle {
		_ = p.free[0].Close()
		p.free = p.free[1:]
	}
}

// transact runs commands as one transaction, in one round trip, and returns
// the answers. A connection that fails is closed.
func (p *pool) transact(ctx context.Context, commands ...[]byte) ([]value, error) {
	ctx, cancel := context.WithTimeout(ctx, p.answer)
	defer cancel()
	c, err := p.take(ctx)
	if err != nil {
		return nil, err
	}
	all, err := c.transact(ctx, commands...)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	p.give(c)
	return all, nil
}

func (c *conn) transact(ctx context.Context, commands ...[]byte) ([]value, error) {
	cut := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Now()) })
	text := bytes.Join([][]byte{command("MULTI"), bytes.Join(commands, nil), command("EXEC")}, nil)
	if _, err := c.Write(text); err != nil {
		return nil, fmt.Errorf("redis: asking: %w", err)
	}
	var last value
	for range len(commands) + 2 { // OK, QUEUED for each, and what they gave
		v, err := readValue(c.in, 0)
		if err != nil {
			return nil, err
		}
		if v.err != nil {
			return nil, v.err
		}
		last = v
	}
	if !cut() {
		return nil, errors.New("redis: the time is over")
	}
	if len(last.array) != len(commands) {
		return nil, fmt.Errorf("redis: %d answers to %d commands", len(last.array), len(commands))
	}
	for _, v := range last.array {
		if v.err != nil {
			return nil, v.err
		}
	}
	return last.array, nil
}
