package udp

import (
	"errors"
	"testing"

	"github.com/windtunnel/windtunnel/internal/flow"
	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	for raw, key := range map[string]string{
		`{}`: "", `{"mode": "flow"}`: "", `{"raw": true, "request": 8}`: "", `{"request": 10}`: "request", `{"response": 65}`: "response",
		`{"mode": "x"}`: "mode", `{"size": 100}`: "size", `{"mode": "flow", "size": 10}`: "size", `{"mode": "flow", "raw": true}`: "raw", `{"gso": true}`: "gso",
	} {
		_, err := New([]byte(raw))
		var wrong *model.ConfigError
		if errors.As(err, &wrong) != (key != "") || wrong != nil && wrong.Key != key {
			t.Errorf("%s: %v, want an error about %q", raw, err, key)
		}
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

func FuzzFeed(f *testing.F) {
	f.Add([]byte("hello"), true)
	f.Fuzz(func(t *testing.T, b []byte, raw bool) {
		config := `{}`
		if raw {
			config = `{"raw": true}`
		}
		s := sessionOf(t, config)
		s.Begin(nil, 0)
		if got, _ := s.Feed(b, nil); len(got) > 1 {
			t.Error(got)
		}
	})
}

func TestNoAllocations(t *testing.T) { //nolint:paralleltest // AllocsPerRun panics in parallel tests
	s := sessionOf(t, `{"request": 100, "response": 100}`)
	out, got := make([]byte, 0, 256), make([]load.Answer, 0, 4)
	n := testing.AllocsPerRun(100, func() {
		out = s.Begin(out[:0], 0)
		var err error
		if got, err = s.Feed(flow.ToAnswer(out, "me"), got[:0]); err != nil || len(got) != 1 {
			t.Fatal(err, got)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations per request", n)
	}
}
