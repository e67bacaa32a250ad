package load_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/load/http1"
	"github.com/windtunnel/windtunnel/internal/model"
)

// serve runs a server on loopback that treats each connection as it likes.
func serve(t *testing.T, handle func(c net.Conn)) netip.AddrPort {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				handle(c)
			}()
		}
	}()
	return netip.MustParseAddrPort(ln.Addr().String())
}

// answering calls answer for every request that has come in whole.
func answering(answer func(c net.Conn) bool) func(net.Conn) {
	return func(c net.Conn) {
		in := bufio.NewReader(c)
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_ = r.Body.Close()
			if !answer(c) {
				return
			}
		}
	}
}

const okAnswer = "HTTP/1.1 200 OK\r\nx-windtunnel-identity: me\r\ncontent-length: 2\r\n\r\nok"

func ok(c net.Conn) bool {
	_, err := c.Write([]byte(okAnswer))
	return err == nil
}

func run(t *testing.T, to netip.AddrPort, l model.Load, warmup time.Duration) *model.LoadResult {
	t.Helper()
	l.Name, l.HTTP = "test", model.HTTPRequest{Method: "GET", Path: "/"}
	if l.Timeout == 0 {
		l.Timeout = time.Second
	}
	session, err := http1.Protocol{}.Prepare(l, "test")
	if err != nil {
		t.Fatal(err)
	}
	r, err := load.Run(t.Context(), load.Job{Load: l, Session: session, Targets: []netip.AddrPort{to}, Warmup: warmup})
	if err != nil {
		t.Fatal(err)
	}
	if r.Due != r.Succeeded+r.FailedTotal()+r.Unsent {
		t.Errorf("the books do not balance: due %d, succeeded %d, failed %d, unsent %d", r.Due, r.Succeeded, r.FailedTotal(), r.Unsent)
	}
	return r
}

func open(rate float64, conns int, d time.Duration) model.Load {
	return model.Load{Arrival: model.ArrivalOpen, Rate: rate, Connections: conns, Duration: d}
}

func closed(conns int, d time.Duration) model.Load {
	return model.Load{Arrival: model.ArrivalClosed, Connections: conns, Duration: d}
}

func TestOpenLoopSendsEveryRequestOfItsSchedule(t *testing.T) { //nolint:paralleltest // timing
	r := run(t, serve(t, answering(ok)), open(500, 8, 400*time.Millisecond), 100*time.Millisecond)
	if r.Due != 200 || r.Succeeded != 200 {
		t.Errorf("due %d, succeeded %d, want 200", r.Due, r.Succeeded)
	}
	if r.WarmupDue != 50 {
		t.Errorf("warm-up sent %d, want 50", r.WarmupDue)
	}
	if r.Responders["me"] != 200 || r.Statuses[200] != 200 || r.BodyBytesMin != 2 || r.Response.Count() != 200 {
		t.Errorf("got %+v", r)
	}
}

func TestClosedLoopObeysLittlesLaw(t *testing.T) { //nolint:paralleltest // timing
	slow := func(c net.Conn) bool {
		<-time.NewTimer(5 * time.Millisecond).C
		return ok(c)
	}
	r := run(t, serve(t, answering(slow)), closed(4, 500*time.Millisecond), 50*time.Millisecond)
	inFlight := float64(r.Succeeded) / r.Elapsed.Seconds() * r.Service.Mean().Seconds()
	if inFlight < 3.7 || inFlight > 4.3 {
		t.Errorf("%.2f in flight, with 4 connections", inFlight)
	}
	if r.Response.Quantile(0.5) != r.Service.Quantile(0.5) {
		t.Error("a closed loop has no other response time than service time")
	}
}

// A server that stops for half a second: requests that were due meanwhile have
// waited, and the response time must say so.
func TestStallIsSeenInResponseTime(t *testing.T) { //nolint:paralleltest // timing
	var stallUntil atomic.Int64
	var served atomic.Int64
	h := func(c net.Conn) bool {
		if served.Add(1) == 100 {
			stallUntil.Store(time.Now().Add(500 * time.Millisecond).UnixNano())
		}
		if d := time.Until(time.Unix(0, stallUntil.Load())); d > 0 {
			<-time.NewTimer(d).C
		}
		return ok(c)
	}
	r := run(t, serve(t, answering(h)), open(200, 2, 2*time.Second), 0)
	late := r.Response.Above(100 * time.Millisecond)
	if late < 60 || late > 110 { // truth: 80 requests were due in the first 400 ms of the stall
		t.Errorf("%d response times over 100 ms, want about 80", late)
	}
	if seen := r.Service.Above(100 * time.Millisecond); seen > 4 {
		t.Errorf("%d service times over 100 ms: with 2 connections at most 2 requests can have met the stall", seen)
	}
	if r.Blocked == 0 {
		t.Error("no request was blocked")
	}
}

func TestFailuresAreCountedByCause(t *testing.T) { //nolint:paralleltest // timing
	refused := serve(t, func(net.Conn) {})
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := netip.MustParseAddrPort(ln.Addr().String())
	_ = ln.Close()
	_ = refused
	tests := map[string]struct {
		to    netip.AddrPort
		cause model.Cause
	}{
		"refused":   {nobody, model.CauseRefused},
		"closed":    {serve(t, answering(func(net.Conn) bool { return false })), model.CauseClosed},
		"cut short": {serve(t, answering(func(c net.Conn) bool { _, _ = c.Write([]byte(okAnswer[:30])); return false })), model.CauseClosed},
		"garbage":   {serve(t, answering(func(c net.Conn) bool { _, _ = c.Write([]byte("nonsense\r\n\r\n")); return true })), model.CauseProtocol},
		"bad status": {serve(t, answering(func(c net.Conn) bool {
			_, _ = c.Write([]byte("HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n"))
			return true
		})), model.CauseStatus},
		"never answers": {serve(t, answering(func(net.Conn) bool { return true })), model.CauseTimeout},
		"endless header": {serve(t, answering(func(c net.Conn) bool {
			_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\n"))
			for {
				if _, err := c.Write([]byte(strings.Repeat("x: y\r\n", 1000))); err != nil {
					return false
				}
			}
		})), model.CauseProtocol},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // timing
			for _, l := range []model.Load{open(50, 4, 200*time.Millisecond), closed(2, 200*time.Millisecond)} {
				l.Timeout = 100 * time.Millisecond
				r := run(t, tt.to, l, 0)
				if r.Succeeded != 0 || r.Failed[tt.cause] == 0 {
					t.Errorf("%s loop: succeeded %d, failed %v, want cause %q", l.Arrival, r.Succeeded, r.Failed, tt.cause)
				}
				if r.FailedPrefix != r.FailedTotal() {
					t.Errorf("all %d failures came before a success, not %d", r.FailedTotal(), r.FailedPrefix)
				}
			}
		})
	}
}

func TestSaturatedOpenLoopHidesNothing(t *testing.T) { //nolint:paralleltest // timing
	slow := func(c net.Conn) bool {
		<-time.NewTimer(50 * time.Millisecond).C
		return ok(c)
	}
	r := run(t, serve(t, answering(slow)), open(400, 1, 500*time.Millisecond), 0)
	if r.Due != 200 || r.Unsent < 150 {
		t.Errorf("due %d, unsent %d: one connection at 50 ms can send about ten of 200", r.Due, r.Unsent)
	}
}

func TestCancelEndsALoad(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	l := open(10, 1, time.Hour)
	l.Timeout, l.HTTP = time.Second, model.HTTPRequest{Method: "GET", Path: "/"}
	session, err := http1.Protocol{}.Prepare(l, "test")
	if err != nil {
		t.Fatal(err)
	}
	_, err = load.Run(ctx, load.Job{Load: l, Session: session, Targets: []netip.AddrPort{serve(t, answering(ok))}})
	if err == nil {
		t.Error("a cancelled load must say so")
	}
}

func TestConstantNeverDrifts(t *testing.T) {
	t.Parallel()
	c := load.Constant{Rate: 3000}
	if at, _ := c.Due(3000 * 3600); at != time.Hour {
		t.Errorf("request 10,800,000 at 3,000/s is due at %v, want 1h", at)
	}
}
