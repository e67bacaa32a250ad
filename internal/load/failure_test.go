package load_test

import (
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
)

func nobody(t *testing.T) netip.AddrPort {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	return netip.MustParseAddrPort(ln.Addr().String())
}

func TestFailuresAreCountedByCause(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		to     netip.AddrPort
		causes []model.Cause // any of them
	}{
		"refused":           {nobody(t), []model.Cause{model.CauseRefused}},
		"accepts, closes":   {serve(t, func(net.Conn) {}), []model.Cause{model.CauseClosed, model.CauseReset}},
		"closes on request": {serve(t, once("")), []model.Cause{model.CauseClosed}},
		"header cut short":  {serve(t, once(okAnswer[:30])), []model.Cause{model.CauseClosed}},
		"body cut short":    {serve(t, once(okAnswer[:len(okAnswer)-1])), []model.Cause{model.CauseClosed}},
		"garbage":           {serve(t, says("nonsense")), []model.Cause{model.CauseProtocol}},
		"bad status":        {serve(t, says("HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n")), []model.Cause{model.CauseStatus}},
		"never answers":     {serve(t, says()), []model.Cause{model.CauseTimeout}},
		"answers too slow":  {serve(t, after(400*time.Millisecond, okAnswer)), []model.Cause{model.CauseTimeout}},
		"stops in the body": {serve(t, says(okAnswer[:len(okAnswer)-1])), []model.Cause{model.CauseTimeout, model.CauseProtocol}},
		"resets": {serve(t, answering(func(c net.Conn) bool {
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			return false
		})), []model.Cause{model.CauseReset}},
		"endless header": {serve(t, answering(func(c net.Conn) bool {
			_, err := c.Write([]byte("HTTP/1.1 200 OK\r\n"))
			for err == nil {
				_, err = c.Write([]byte(strings.Repeat("x: y\r\n", 1000)))
			}
			return false
		})), []model.Cause{model.CauseProtocol}},
	}
	for name, tt := range tests {
		for _, l := range []model.Load{open(50, 4, 400*time.Millisecond), closed(2, 400*time.Millisecond)} {
			t.Run(name+", "+string(l.Arrival), func(t *testing.T) {
				t.Parallel()
				l.Timeout = 5 * time.Second
				if tt.causes[0] == model.CauseTimeout {
					l.Timeout = 200 * time.Millisecond
				}
				r := run(t, job(l, tt.to))
				var n uint64
				for _, c := range tt.causes {
					n += r.Failed[c]
				}
				if r.Succeeded != 0 || n == 0 || n != r.FailedTotal() {
					t.Errorf("succeeded %d, failed %v, want only %q", r.Succeeded, r.Failed, tt.causes)
				}
				if r.FailedPrefix != r.FailedTotal() || r.FirstSuccess != 0 {
					t.Errorf("all %d failures came before a success, not %d", r.FailedTotal(), r.FailedPrefix)
				}
				if r.Arrival == model.ArrivalOpen && r.Due != 20 {
					t.Errorf("%d due, want 20 whatever the server does", r.Due)
				}
				if limit := uint64(2 * (400/20 + 2)); l.Arrival == model.ArrivalClosed && tt.causes[0] != model.CauseStatus && r.Due > limit {
					t.Errorf("%d requests: a connection must rest for 20 ms after a failure", r.Due)
				}
			})
		}
	}
}

// A server that is away for the first part of a load: its requests fail fast,
// and connections come back by themselves.
func TestServerThatComesBack(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	var up atomic.Bool
	to := serve(t, func(c net.Conn) {
		if up.Load() {
			says(okAnswer)(c)
		}
	})
	j := job(open(500, 4, 600*time.Millisecond), to)
	j.OnWindow = func(model.Window) { time.AfterFunc(250*time.Millisecond, func() { up.Store(true) }) }
	r := run(t, j)
	if r.Due != 300 || r.FailedTotal() < 20 || r.Succeeded < 20 || r.FailedPrefix != r.FailedTotal() {
		t.Errorf("due %d, failed %d of which %d at first, succeeded %d", r.Due, r.FailedTotal(), r.FailedPrefix, r.Succeeded)
	}
	if r.FirstSuccess < 150*time.Millisecond {
		t.Errorf("first success after %s; the server was away for 200 ms", r.FirstSuccess)
	}
}

func TestPeerMayCloseIdleConnections(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	// Each connection is closed in good order after its answer: without a
	// header that says so, and between two requests.
	r := run(t, job(open(100, 40, 400*time.Millisecond), serve(t, once(okAnswer))))
	if r.Succeeded+r.Unsent != 40 || r.Sockets < r.Succeeded {
		t.Errorf("succeeded %d of 40 over %d sockets; failed %v", r.Succeeded, r.Sockets, r.Failed)
	}
}

func TestAnswerMayEndWithItsConnection(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	for _, l := range []model.Load{open(100, 32, 300*time.Millisecond), closed(2, 300*time.Millisecond)} {
		r := run(t, job(l, serve(t, once("HTTP/1.1 200 OK\r\n\r\nuntil the end"))))
		if r.Succeeded == 0 || r.Succeeded+r.Unsent != r.Due || r.BodyBytesMin != 13 || r.Unidentified != r.Succeeded {
			t.Errorf("%s loop: succeeded %d of %d, body %d bytes, failed %v", l.Arrival, r.Succeeded, r.Due, r.BodyBytesMin, r.Failed)
		}
	}
}

func TestChangedPayloadIsCounted(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	var n atomic.Int64
	to := serve(t, answering(func(c net.Conn) bool {
		text := okAnswer
		if n.Add(1)%2 == 0 {
			text = strings.Replace(okAnswer, "\r\n\r\nok", "\r\n\r\nko", 1)
		}
		_, err := c.Write([]byte(text))
		return err == nil
	}))
	j := job(open(200, 32, 200*time.Millisecond), to)
	right := load.Answer{Sum: load.Sum(0, []byte("ok")), BodyBytes: 2}
	j.Expect = right.Digest()
	if r := run(t, j); r.PayloadChanged != r.Succeeded/2 || r.Succeeded+r.Unsent != 40 {
		t.Errorf("%d of %d changed, want half of 40", r.PayloadChanged, r.Succeeded)
	}
}

func TestRespondersAreBounded(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	var n atomic.Int64
	to := serve(t, answering(func(c net.Conn) bool {
		id := strings.Repeat("x", int(n.Add(1)%1000))
		_, err := c.Write([]byte(strings.Replace(okAnswer, ": me", ": "+id, 1)))
		return err == nil
	}))
	r := run(t, job(closed(1, 600*time.Millisecond), to))
	if len(r.Responders) != load.MaxResponders || r.Unidentified == 0 {
		t.Errorf("%d responders, %d unidentified", len(r.Responders), r.Unidentified)
	}
}
