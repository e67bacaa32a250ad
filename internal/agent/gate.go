package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
)

const (
	// gatePause is between attempts after a wrong answer.
	gatePause = 20 * time.Millisecond
	// attemptLimit bounds one attempt where the load's timeout is longer: a path
	// that is being set up may swallow the first packets.
	attemptLimit = 2 * time.Second
	// requestsPerConnection is more than one, so that keeping alive is proved,
	// and small, so that a service that balances connections shows its servers.
	requestsPerConnection = 2
)

// Gate sends requests one after another, with the sessions of the load itself,
// until enough right answers have come in a row. Not passing is no error.
func Gate(ctx context.Context, j GateJob, protocols Protocols) (model.Ready, error) {
	g := &gating{job: j, ready: model.Ready{Wanted: j.Streak, Responders: map[string]uint64{}}}
	g.job.Identities = slices.DeleteFunc(slices.Clone(j.Identities), func(id string) bool { return id == "" })
	p, err := protocols.of(j.Load)
	if err != nil {
		return g.ready, err
	}
	g.network = network(p)
	if a, ok := p.(load.Anonymous); ok && a.Anonymous() {
		g.job.Identities = nil // answers cannot tell
	}
	if len(j.Targets) == 0 || j.Streak < 1 {
		return g.ready, fmt.Errorf("gating load %s: %d targets and a streak of %d; both must be at least 1", j.Load.Name, len(j.Targets), j.Streak)
	}
	peer, err := load.PeerOf(j.Load, p, j.Host, j.Targets)
	if err != nil {
		return g.ready, err
	}
	g.tls = peer.TLS
	newSession, err := p.Prepare(ctx, peer)
	if err != nil {
		return g.ready, fmt.Errorf("preparing load %s: %w", j.Load.Name, err)
	}
	began := time.Now()
	limited, cancel := context.WithDeadline(ctx, began.Add(j.Timeout))
	defer cancel()
	for i := 0; g.ready.Streak < j.Streak && limited.Err() == nil; i++ {
		if err := g.connection(limited, j.Targets[i%len(j.Targets)], newSession()); err != nil {
			g.ready.Streak = 0
			// One cut short by the end of the gate says nothing. By the clock, as
			// a dial ends a moment before the context of the same deadline.
			if time.Since(began) < j.Timeout || g.ready.LastError == "" {
				g.ready.LastError = err.Error()
			}
			pause(limited, gatePause)
		}
	}
	g.ready.Passed = g.ready.Streak >= j.Streak
	g.ready.Took = time.Since(began)
	if ctx.Err() != nil {
		return g.ready, fmt.Errorf("gating load %s: %w", j.Load.Name, context.Cause(ctx))
	}
	return g.ready, nil
}

func network(p load.Protocol) string {
	n, ok := p.(load.Networker)
	if !ok {
		return string(load.TCP)
	}
	return string(n.Network())
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

type gating struct {
	job     GateJob
	network string
	tls     *tls.Config
	ready   model.Ready
}

// connection makes a connection and sends a few requests over it.
func (g *gating) connection(ctx context.Context, to netip.AddrPort, s load.Session) error {
	const trips = 6 // connecting, TLS of several hops, the answer
	limit := attemptLimit + trips*g.job.RTT
	if g.job.Load.Timeout > 0 {
		limit = min(limit, g.job.Load.Timeout)
	}
	conn, err := g.dial(ctx, to, limit)
	if err != nil {
		g.ready.Attempts++
		return err
	}
	closed := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer closed()
	defer conn.Close() //nolint:errcheck // everything that matters has been read
	out := s.Open(nil)
	for i := 0; i < requestsPerConnection && g.ready.Streak < g.job.Streak; i++ {
		g.ready.Attempts++
		if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
			return err
		}
		a, err := exchange(conn, s, s.Begin(out, 0))
		if err == nil {
			err = g.judge(&a)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", to, err)
		}
		if a.Close {
			return nil
		}
		out = nil
	}
	return nil
}

func (g *gating) dial(ctx context.Context, to netip.AddrPort, limit time.Duration) (net.Conn, error) {
	dialer := net.Dialer{Timeout: limit}
	if g.network == string(load.ICMP) {
		return load.DialICMP(to.Addr())
	}
	if g.tls == nil {
		return dialer.DialContext(ctx, g.network, to.String())
	}
	secured := tls.Dialer{NetDialer: &dialer, Config: g.tls}
	return secured.DialContext(ctx, g.network, to.String())
}

// exchange writes the bytes of a request and reads until its answer is whole.
func exchange(conn net.Conn, s load.Session, request []byte) (load.Answer, error) {
	if _, err := conn.Write(request); err != nil {
		return load.Answer{}, err
	}
	buf := make([]byte, 64<<10)
	for {
		n, readErr := conn.Read(buf)
		if readErr != nil {
			n = 0
			var timeout net.Error
			if errors.As(readErr, &timeout) && timeout.Timeout() {
				return load.Answer{}, readErr
			}
		}
		got, err := s.Feed(buf[:n], nil)
		if len(got) > 0 {
			return got[0], nil
		}
		if err = errors.Join(err, readErr); err != nil {
			return load.Answer{}, err
		}
		if r, ok := s.(load.Replier); ok {
			if _, err := conn.Write(r.Reply(nil)); err != nil {
				return load.Answer{}, err
			}
		}
	}
}

// judge says whether an answer is right: that it is a success, who gave it, and
// that bodies do not change from one to the next.
func (g *gating) judge(a *load.Answer) error {
	if a.Failure != "" {
		return fmt.Errorf("%s %d", a.Failure, a.Status)
	}
	id := string(a.Identity)
	if len(g.job.Identities) > 0 && !slices.Contains(g.job.Identities, id) {
		return fmt.Errorf("answered by %q; expected is one of %s", id, strings.Join(g.job.Identities, ", "))
	}
	digest, before := string(a.Digest()), g.ready.Payload
	g.ready.Payload, g.ready.BodyBytes = digest, a.BodyBytes
	if before != "" && before != digest {
		return fmt.Errorf("the body has changed from %s to %s: answers must all be alike", before, digest)
	}
	if id != "" {
		g.ready.Responders[id]++
	}
	g.ready.Headers = headers(a.Header)
	g.ready.Streak++
	return nil
}

// headers makes a map of an HTTP header, names in lower case; of several lines
// of one name the values are joined by commas, as HTTP has it.
func headers(h []byte) map[string]string {
	m := map[string]string{}
	for line := range bytes.Lines(h) {
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			continue
		}
		key, v := strings.ToLower(string(name)), string(bytes.TrimSpace(value))
		if before, ok := m[key]; ok {
			v = before + ", " + v
		}
		m[key] = v
	}
	return m
}
