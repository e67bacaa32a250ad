package tcp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windtunnel/windtunnel/internal/flow"
	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	for raw, key := range map[string]string{
		`{}`: "", `{"mode": "connect"}`: "", `{"raw": true, "request": 9}`: "", `{"mode": "stream", "direction": "both", "block": 1048576}`: "",
		`{"mode": "fast"}`: "mode", `{"request": -1}`: "request", `{"response": 99999999}`: "response", `{"raw": true, "response": 3}`: "response",
		`{"direction": "up"}`: "direction", `{"mode": "stream", "direction": "left"}`: "direction", `{"mode": "stream", "raw": true}`: "raw",
		`{"mode": "stream", "block": 99999999}`: "block", `{"bitrate": 5}`: "bitrate", `{"mode": "stream", "bitrate": -5}`: "bitrate", `{"zerocopy": true}`: "zerocopy",
	} {
		_, err := New([]byte(raw))
		var wrong *model.ConfigError
		if errors.As(err, &wrong) != (key != "") || wrong != nil && wrong.Key != key {
			t.Errorf("%s: %v, want an error about %q", raw, err, key)
		}
	}
	if _, err := New([]byte(`{"colour": 1}`)); err == nil {
		t.Error("unknown key: no error")
	}
}

func sessionOf(tb testing.TB, config string) load.Session {
	tb.Helper()
	p, err := New([]byte(config))
	if err != nil {
		tb.Fatal(err)
	}
	sessions, err := p.Prepare(tb.Context(), load.Peer{})
	if err != nil {
		tb.Fatal(err)
	}
	return sessions()
}

type outcome struct {
	Answers []load.Answer
	ID      string
	Err     bool
}

func (o *outcome) feed(s load.Session, b []byte) {
	got, err := s.Feed(b, nil)
	for _, a := range got {
		o.ID = string(a.Identity)
		a.Identity = nil
		o.Answers = append(o.Answers, a)
	}
	o.Err = err != nil
}

func parse(s load.Session, b []byte, eof bool, splits ...int) (o outcome) {
	s.Begin(s.Open(nil), 7)
	at := 0
	for _, end := range append(splits, len(b)) {
		if end = min(max(end, at), len(b)); end == at {
			continue
		}
		if o.feed(s, b[at:end]); o.Err {
			return o
		}
		at = end
	}
	if eof {
		o.feed(s, nil)
	}
	return o
}

func TestFeed(t *testing.T) {
	t.Parallel()
	body := []byte("12345")
	welcome := string(flow.AppendWelcome(nil, 1, "me"))
	answer := load.Answer{ID: 7, BodyBytes: 5, Sum: load.Sum(0, body)}
	closing := answer
	closing.Close = true
	const request, connect = `{"response": 5}`, `{"mode": "connect", "response": 5}`
	for name, tt := range map[string]struct {
		config, text string
		eof          bool
		want         []load.Answer
		id           string
		fails        bool
	}{
		"request":                  {request, welcome + "12345", false, []load.Answer{answer}, "me", false},
		"raw":                      {`{"raw": true, "request": 5}`, "12345", false, []load.Answer{answer}, "", false},
		"cut short":                {request, welcome + "1234", true, nil, "", false},
		"too much":                 {request, welcome + "123456", false, nil, "", true},
		"another protocol":         {request, "HTTP/1.1 400 Bad Request\r\n", false, nil, "", true},
		"connect: server may talk": {connect, welcome + "12345", false, nil, "", false},
		"connect: closed":          {connect, welcome + "12345", true, []load.Answer{closing}, "me", false},
		"connect: closed early":    {connect, welcome + "123", true, nil, "", false},
		"connect, raw":             {`{"mode": "connect", "raw": true, "request": 5}`, "12345", false, []load.Answer{closing}, "", false},
	} {
		whole := parse(sessionOf(t, tt.config), []byte(tt.text), tt.eof)
		if diff := cmp.Diff(outcome{tt.want, tt.id, tt.fails}, whole, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		for split := range len(tt.text) {
			if again := parse(sessionOf(t, tt.config), []byte(tt.text), tt.eof, split); again.Err != whole.Err || !tt.fails && !cmp.Equal(whole, again) {
				t.Errorf("%s, split at %d: %+v", name, split, again)
			}
		}
	}
}

func FuzzFeed(f *testing.F) {
	f.Add(flow.AppendWelcome(nil, 1, "me"), uint16(3), true)
	f.Add(append(flow.AppendWelcome(nil, 1, "me"), "12345"...), uint16(20), false)
	f.Fuzz(func(t *testing.T, b []byte, split uint16, once bool) {
		config := `{"response": 5}`
		if once {
			config = `{"mode": "connect", "response": 5}`
		}
		whole, split2 := parse(sessionOf(t, config), b, true), parse(sessionOf(t, config), b, true, int(split))
		if whole.Err != split2.Err || !whole.Err && !cmp.Equal(whole, split2) {
			t.Errorf("whole %+v, split %+v", whole, split2)
		}
	})
}

func TestNoAllocations(t *testing.T) { //nolint:paralleltest // AllocsPerRun panics in parallel tests
	s := sessionOf(t, `{"request": 100, "response": 100}`)
	s.Open(nil)
	out, got, body := make([]byte, 0, 256), make([]load.Answer, 0, 4), make([]byte, 100)
	if _, err := s.Feed(flow.AppendWelcome(nil, 1, "me"), nil); err != nil {
		t.Fatal(err)
	}
	n := testing.AllocsPerRun(100, func() {
		out = s.Begin(out[:0], 1)
		var err error
		if got, err = s.Feed(body, got[:0]); err != nil || len(got) != 1 {
			t.Fatal(err, got)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations per request", n)
	}
}

// peer is a server on loopback that treats streams as it likes, after it has
// agreed to them.
func peer(t *testing.T, handle func(c net.Conn)) netip.AddrPort {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
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
				defer c.Close() //nolint:errcheck // only a test's
				handle(c)
			}()
		}
	}()
	return netip.MustParseAddrPort(ln.Addr().String())
}

func agree(c net.Conn) bool {
	if _, err := io.ReadFull(c, make([]byte, flow.HelloSize)); err != nil {
		return false
	}
	_, _ = c.Write(flow.AppendWelcome(nil, 0, "me"))
	for b := make([]byte, 1); ; {
		if _, err := io.ReadFull(c, b); err != nil || b[0] == flow.GoByte {
			return err == nil
		}
		_, _ = c.Write(flow.Report{At: 1}.Append(nil))
	}
}

func runLoad(ctx context.Context, t *testing.T, config string, to netip.AddrPort, d time.Duration, edit func(*load.Job)) (*model.LoadResult, error) {
	t.Helper()
	p, err := New([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	j := load.Job{
		Load:     model.Load{Name: "test", Arrival: model.ArrivalClosed, Connections: 1, Duration: d, Timeout: 300 * time.Millisecond},
		Protocol: p, Targets: []netip.AddrPort{to},
	}
	if edit != nil {
		edit(&j)
	}
	r, _, err := load.Run(ctx, j)
	return r, err
}

func TestStreamsThatBreak(t *testing.T) {
	t.Parallel()
	const up, down = `{"mode": "stream"}`, `{"mode": "stream", "direction": "down"}`
	silent := func(c net.Conn) {
		if agree(c) {
			_, _ = io.ReadFull(c, make([]byte, 1000)) // and no more
			<-t.Context().Done()
		}
	}
	for name, tt := range map[string]struct {
		config string
		handle func(net.Conn)
		want   model.Cause
	}{
		"closes at once":      {up, func(c net.Conn) { _, _ = io.ReadFull(c, make([]byte, flow.HelloSize)) }, model.CauseClosed},
		"does not answer":     {up, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, model.CauseTimeout},
		"another protocol":    {up, func(c net.Conn) { _, _ = c.Write([]byte("SSH-2.0-OpenSSH_9.2\r\n")) }, model.CauseProtocol},
		"up: takes nothing":   {up, silent, model.CauseTimeout},
		"down: gives nothing": {down, silent, model.CauseTimeout},
		"down: ends":          {down, func(c net.Conn) { agree(c) }, model.CauseClosed},
		"up: reports backwards": {up, func(c net.Conn) {
			agree(c)
			_, _ = c.Write(flow.Report{At: 2}.Append(flow.Report{At: 9}.Append(nil)))
			_, _ = io.Copy(io.Discard, c)
		}, model.CauseProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := runLoad(t.Context(), t, tt.config, peer(t, tt.handle), 600*time.Millisecond, nil)
			if err != nil {
				t.Fatal(err)
			}
			if r.Due != 1 || r.Failed[tt.want] != 1 || r.Succeeded != 0 || r.FailedTotal() != 1 {
				t.Errorf("due %d, succeeded %d, failed %v, want one %q", r.Due, r.Succeeded, r.Failed, tt.want)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	r, err := runLoad(t.Context(), t, `{"mode": "stream"}`, netip.MustParseAddrPort("127.0.0.1:1"), 50*time.Millisecond, nil)
	if err != nil || r.Failed[model.CauseRefused] != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	to := peer(t, func(c net.Conn) { agree(c); _, _ = io.Copy(io.Discard, c) })
	ctx, cancel := context.WithCancel(t.Context())
	var when time.Time
	_, err := runLoad(ctx, t, `{"mode": "stream"}`, to, time.Hour, func(j *load.Job) {
		j.Load.Timeout = time.Minute
		j.OnWindow = func(model.Window) { time.AfterFunc(100*time.Millisecond, func() { when = time.Now(); cancel() }) }
	})
	if took := time.Since(when); !errors.Is(err, context.Canceled) || took > 500*time.Millisecond {
		t.Errorf("%v, after %s", err, took)
	}
}
