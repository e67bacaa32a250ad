package http1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
)

func newSession(tb testing.TB, method string) *session {
	tb.Helper()
	make, err := Protocol{}.Prepare(model.Load{HTTP: model.HTTPRequest{Method: method, Path: "/"}}, "server")
	if err != nil {
		tb.Fatal(err)
	}
	return make().(*session) //nolint:forcetypeassert // our own
}

type outcome struct {
	Answers []load.Answer
	Err     bool
}

// parse feeds the bytes in two pieces, and ends the connection if asked.
func parse(tb testing.TB, method, text string, split int, eof bool) outcome {
	tb.Helper()
	s := newSession(tb, method)
	s.Begin(nil, 7)
	var o outcome
	for _, part := range []string{text[:split], text[split:]} {
		got, err := s.Feed([]byte(part), nil)
		if err != nil {
			return outcome{Err: true}
		}
		o.Answers = append(o.Answers, got...)
		if len(o.Answers) > 0 && part != text[split:] && split < len(text) {
			return outcome{Err: true} // bytes after the answer: the engine refuses them too
		}
	}
	if eof && len(o.Answers) == 0 {
		got, err := s.EOF(nil)
		o.Answers, o.Err = append(o.Answers, got...), err != nil
	}
	return o
}

func TestParse(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		method, text string
		eof          bool
		status       int
		body         int64
		identity     string
		close, fails bool
	}{
		"length":             {text: "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nX-Windtunnel-Identity: a\r\n\r\nhello", status: 200, body: 5, identity: "a"},
		"no body":            {text: "HTTP/1.1 204 No Content\r\n\r\n", status: 204},
		"head":               {method: "HEAD", text: "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", status: 200},
		"chunked":            {text: "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;x=y\r\nhello\r\nA\r\n0123456789\r\n0\r\ntrailer: 1\r\n\r\n", status: 200, body: 15},
		"continue first":     {text: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n", status: 500},
		"closing":            {text: "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", status: 200, close: true},
		"1.0 until close":    {text: "HTTP/1.0 200 OK\r\n\r\nall of it", eof: true, status: 200, body: 9, close: true},
		"cut short":          {text: "HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhello", eof: true, fails: true},
		"garbage":            {text: "SSH-2.0-OpenSSH_9.2\r\n\r\n", fails: true},
		"two lengths":        {text: "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello", fails: true},
		"negative length":    {text: "HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n", fails: true},
		"chunk size garbage": {text: "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", fails: true},
		"too much":           {text: "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nhello", fails: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.method == "" {
				tt.method = "GET"
			}
			want := parse(t, tt.method, tt.text, len(tt.text), tt.eof)
			if want.Err != tt.fails {
				t.Fatalf("fails: %v, want %v", want.Err, tt.fails)
			}
			if !tt.fails {
				a := want.Answers[0]
				if a.ID != 7 || a.Status != tt.status || a.BodyBytes != tt.body || string(a.Identity) != tt.identity || a.Close != tt.close || a.OK != (tt.status < 400) {
					t.Errorf("got %+v", a)
				}
			}
			for split := range len(tt.text) {
				got := parse(t, tt.method, tt.text, split, tt.eof)
				if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("split at %d (-whole +split):\n%s", split, diff)
				}
			}
		})
	}
}

func FuzzFeed(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), 20)
	f.Add([]byte("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"), 3)
	f.Fuzz(func(t *testing.T, b []byte, split int) {
		if len(b) == 0 {
			return
		}
		split = int(uint(split) % uint(len(b)))
		whole := parse(t, "GET", string(b), len(b), true)
		parts := parse(t, "GET", string(b), split, true)
		if diff := cmp.Diff(whole, parts, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("split at %d (-whole +split):\n%s", split, diff)
		}
	})
}

func TestNoAllocations(t *testing.T) { //nolint:paralleltest // AllocsPerRun
	s := newSession(t, "GET")
	answer := []byte("HTTP/1.1 200 OK\r\ncontent-length: 5\r\nx-windtunnel-identity: server-0\r\n\r\nhello")
	out, got := make([]byte, 0, 256), make([]load.Answer, 0, 4)
	n := testing.AllocsPerRun(100, func() {
		out = s.Begin(out[:0], 1)
		var err error
		if got, err = s.Feed(answer, got[:0]); err != nil || len(got) != 1 {
			t.Fatal(err, got)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations per request", n)
	}
}
