package agent

import (
	"bytes"
	"context"
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
	gatePause   = 20 * time.Millisecond // between attempts after a failure
	gateRequest = 2 * time.Second       // for one attempt
	perConn     = 5                     // requests on one connection: a service balances connections, so there must be several
)

// gate sends requests one after another, with the protocol code of the load
// itself, until enough right answers have come in a row.
func gate(ctx context.Context, j GateJob, protocols Protocols) (model.Ready, error) {
	newSession, err := sessions(protocols, j.Load, j.Host)
	if err != nil {
		return model.Ready{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, j.Timeout)
	defer cancel()
	began := time.Now()
	g := &gating{job: j, ready: model.Ready{Wanted: j.Streak, Responders: map[string]uint64{}}}
	for i := 0; g.ready.Streak < j.Streak && ctx.Err() == nil; i++ {
		err := g.connection(ctx, j.Targets[i%len(j.Targets)], newSession())
		if err == nil {
			continue
		}
		g.ready.Streak, g.ready.LastError = 0, err.Error()
		pause(ctx, gatePause)
	}
	g.ready.Passed = g.ready.Streak >= j.Streak
	g.ready.Took = time.Since(began)
	return g.ready, nil
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
	job   GateJob
	ready model.Ready
}

// connection makes a connection and sends some requests over it.
func (g *gating) connection(ctx context.Context, to netip.AddrPort, session load.Session) error {
	dialer := net.Dialer{Timeout: gateRequest}
	conn, err := dialer.DialContext(ctx, "tcp", to.String())
	if err != nil {
		g.ready.Attempts++
		return err
	}
	defer conn.Close() //nolint:errcheck // everything that matters has been read
	for i := 0; i < perConn && g.ready.Streak < g.job.Streak; i++ {
		g.ready.Attempts++
		a, err := exchange(conn, session)
		if err != nil {
			return err
		}
		if err := g.judge(a); err != nil {
			return err
		}
		if a.Close {
			return nil
		}
	}
	return nil
}

func exchange(conn net.Conn, session load.Session) (load.Answer, error) {
	if err := conn.SetDeadline(time.Now().Add(gateRequest)); err != nil {
		return load.Answer{}, err
	}
	if _, err := conn.Write(session.Begin(nil, 0)); err != nil {
		return load.Answer{}, err
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := conn.Read(buf)
		got, feedErr := session.Feed(buf[:n], nil)
		if err != nil && feedErr == nil && len(got) == 0 {
			got, feedErr = session.EOF(nil)
			feedErr = errors.Join(err, feedErr)
		}
		if feedErr != nil {
			return load.Answer{}, feedErr
		}
		if len(got) > 0 {
			return got[0], nil
		}
	}
}

// judge says whether an answer is right: its status, who gave it, and that its
// body does not change.
func (g *gating) judge(a load.Answer) error {
	if !a.OK {
		return fmt.Errorf("status %d", a.Status)
	}
	id := string(a.Identity)
	if len(g.job.Identities) > 0 && !slices.Contains(g.job.Identities, id) {
		return fmt.Errorf("answered by %q; expected one of %s", id, strings.Join(g.job.Identities, ", "))
	}
	if p := payload(a); g.ready.Payload != p {
		if g.ready.Payload != "" {
			g.ready.Payload = p
			return fmt.Errorf("the body changed to %s", p)
		}
		g.ready.Payload = p
	}
	g.ready.Responders[id]++
	g.ready.BodyBytes = a.BodyBytes
	g.ready.Headers = headers(a.Header)
	g.ready.Streak++
	g.ready.LastError = ""
	return nil
}

// headers makes a map of an HTTP header, names in lower case.
func headers(h []byte) map[string]string {
	m := map[string]string{}
	for line := range bytes.Lines(h) {
		name, value, ok := bytes.Cut(line, []byte(":"))
		if ok {
			m[strings.ToLower(string(name))] = string(bytes.TrimSpace(value))
		}
	}
	return m
}
