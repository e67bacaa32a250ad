package http1

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
)

func newSession(tb testing.TB, r load.HTTPRequest) load.Session {
	tb.Helper()
	return sessionOf(tb, Config{HTTPRequest: r})
}

func sessionOf(tb testing.TB, c Config) load.Session {
	tb.Helper()
	raw, err := json.Marshal(c)
	if err != nil {
		tb.Fatal(err)
	}
	p, err := New(raw)
	if err != nil {
		tb.Fatal(err)
	}
	sessions, err := p.Prepare(tb.Context(), load.Peer{Authority: "server"})
	if err != nil {
		tb.Fatal(err)
	}
	return sessions()
}

type outcome struct {
	Answers []load.Answer
	Header  string
	ID      string
	Err     bool
}

// parse feeds the text in pieces that end at the given places, and then, if
// eof, nothing.
func parse(tb testing.TB, method, text string, eof bool, splits ...int) outcome {
	tb.Helper()
	return parseOn(newSession(tb, load.HTTPRequest{Method: method}), text, eof, splits...)
}

// parseAfter is parse on a session that another answer was parsed on before, in
// pieces that end at the same places.
func parseAfter(tb testing.TB, before, method, text string, eof bool, splits ...int) outcome {
	tb.Helper()
	s := newSession(tb, load.HTTPRequest{Method: method})
	parseOn(s, before, true)
	return parseOn(s, text, eof, splits...)
}

func parseOn(s load.Session, text string, eof bool, splits ...int) outcome {
	s.Begin(s.Open(nil), 7)
	var o outcome
	at := 0
	for _, end := range append(splits, len(text)) {
		if end = max(end, at); end == at {
			continue
		}
		o.feed(s, []byte(text[at:end]))
		if at = end; o.Err {
			return o
		}
	}
	if eof {
		o.feed(s, nil)
	}
	return o
}

func (o *outcome) feed(s load.Session, b []byte) {
	got, err := s.Feed(b, nil)
	for _, a := range got {
		o.Header, o.ID = string(a.Header), string(a.Identity) // before they are overwritten
		a.Header, a.Identity = nil, nil
		o.Answers = append(o.Answers, a)
	}
	o.Err = err != nil
}

func answer(status int, header, body int64, sum string) load.Answer {
	return load.Answer{ID: 7, Status: status, HeaderBytes: header, BodyBytes: body, Sum: load.Sum(0, []byte(sum))}
}

func failed(a load.Answer) load.Answer  { a.Failure = model.CauseStatus; return a }
func closing(a load.Answer) load.Answer { a.Close = true; return a }

func TestFeed(t *testing.T) {
	t.Parallel()
	const ok = "HTTP/1.1 200 OK\r\n"
	tests := map[string]struct {
		method, text string
		eof          bool
		want         []load.Answer
		id           string
		fails        bool
	}{
		"length":                  {text: ok + "Content-Length: 5\r\nX-Windtunnel-Identity:  a \r\n\r\nhello", want: []load.Answer{answer(200, 66, 5, "hello")}, id: "a"},
		"bare line feeds":         {text: "HTTP/1.1 200 OK\ncontent-length: 2\n\nok", want: []load.Answer{answer(200, 35, 2, "ok")}},
		"empty body":              {text: ok + "content-length: 0\r\n\r\n", want: []load.Answer{answer(200, 38, 0, "")}},
		"204 has no body":         {text: "HTTP/1.1 204 No Content\r\n\r\n", want: []load.Answer{answer(204, 27, 0, "")}},
		"304 has no body":         {text: "HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n", want: []load.Answer{answer(304, 48, 0, "")}},
		"answer to HEAD":          {method: "HEAD", text: ok + "content-length: 5\r\n\r\n", want: []load.Answer{answer(200, 38, 0, "")}},
		"no reason phrase":        {text: "HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n", want: []load.Answer{answer(200, 35, 0, "")}},
		"chunked":                 {text: ok + "transfer-encoding: chunked\r\n\r\n5;x=y\r\nhello\r\nA\r\n0123456789\r\n0\r\ntrailer: 1\r\n\r\n", want: []load.Answer{answer(200, 47, 15, "hello0123456789")}},
		"chunked beats length":    {text: ok + "content-length: 99\r\ntransfer-encoding: gzip, Chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", want: []load.Answer{answer(200, 73, 2, "ok")}},
		"interim answers":         {text: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\nHTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n", want: []load.Answer{failed(answer(500, 40, 0, ""))}},
		"connection close":        {text: ok + "connection: x, Close\r\ncontent-length: 0\r\n\r\n", want: []load.Answer{closing(answer(200, 60, 0, ""))}},
		"1.0 closes":              {text: "HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n", want: []load.Answer{closing(answer(200, 38, 0, ""))}},
		"1.0 keeps alive":         {text: "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 0\r\n\r\n", want: []load.Answer{answer(200, 62, 0, "")}},
		"body until close":        {text: ok + "\r\nall of it", eof: true, want: []load.Answer{closing(answer(200, 19, 9, "all of it"))}},
		"until close, still open": {text: ok + "\r\nall of it"},
		"body cut short":          {text: ok + "content-length: 50\r\n\r\nhello", eof: true},
		"header cut short":        {text: ok + "content-le", eof: true},
		"more than was asked for": {text: ok + "content-length: 1\r\n\r\nhello", want: []load.Answer{answer(200, 38, 1, "h")}, fails: true},
		"not HTTP":                {text: "SSH-2.0-OpenSSH_9.2", fails: true},
		"HTTP/2":                  {text: "HTTP/2.0 200 OK\r\n\r\n", fails: true},
		"status 99":               {text: "HTTP/1.1 099 ?\r\n\r\n", fails: true},
		"status 2000":             {text: "HTTP/1.1 2000 ?\r\n\r\n", fails: true},
		"switching protocols":     {text: "HTTP/1.1 101 Switching\r\n\r\n", fails: true},
		"two lengths":             {text: ok + "content-length: 5\r\ncontent-length: 6\r\n\r\nhello", fails: true},
		"negative length":         {text: ok + "content-length: -5\r\n\r\n", fails: true},
		"huge length":             {text: ok + "content-length: 99999999999999999999\r\n\r\n", fails: true},
		"header without colon":    {text: ok + "nonsense\r\n\r\n", fails: true},
		"folded header":           {text: ok + "a: b\r\n c\r\n\r\n", fails: true},
		"bad chunk size":          {text: ok + "transfer-encoding: chunked\r\n\r\nzz\r\n", fails: true},
		"huge chunk size":         {text: ok + "transfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n", fails: true},
		"endless chunk line":      {text: ok + "transfer-encoding: chunked\r\n\r\n1;" + strings.Repeat("x", 300), fails: true},
		"chunk without line end":  {text: ok + "transfer-encoding: chunked\r\n\r\n1\r\nab\r\n", fails: true},
		"endless header":          {text: ok + strings.Repeat("a: b\r\n", 12000), fails: true},
		"endless line":            {text: ok + strings.Repeat("x", 70000), fails: true},
		"endless interim answers": {text: strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 3000), fails: true},
		"endless trailer":         {text: ok + "transfer-encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("a: b\r\n", 12000), fails: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole := parse(t, tt.method, tt.text, tt.eof)
			if whole.Err != tt.fails || whole.ID != tt.id {
				t.Fatalf("fails: %v, identity %q; want %v, %q", whole.Err, whole.ID, tt.fails, tt.id)
			}
			if diff := cmp.Diff(tt.want, whole.Answers, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("answers (-want +got):\n%s", diff)
			}
			step := max(len(tt.text)/200, 1)
			for split := 0; split < len(tt.text); split += step {
				if diff := cmp.Diff(whole, parse(t, tt.method, tt.text, tt.eof, split)); diff != "" {
					t.Fatalf("split at %d (-whole +split):\n%s", split, diff)
				}
			}
			every := make([]int, len(tt.text))
			for i := range every {
				every[i] = i
			}
			if diff := cmp.Diff(whole, parse(t, tt.method, tt.text, tt.eof, every...)); diff != "" {
				t.Fatalf("byte by byte (-whole +bytes):\n%s", diff)
			}
			for before, other := range tests {
				if diff := cmp.Diff(whole, parseAfter(t, other.text, tt.method, tt.text, tt.eof)); diff != "" {
					t.Fatalf("after %q (-alone +after):\n%s", before, diff)
				}
			}
		})
	}
}

func FuzzFeed(f *testing.F) {
	f.Add("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", uint16(20), uint16(40), false)
	f.Add("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\nx-windtunnel-identity: a\r\n\r\nhello", uint16(3), uint16(60), true)
	f.Add("HTTP/1.0 503 No\nconnection: keep-alive\n\nbody", uint16(8), uint16(9), true)
	f.Fuzz(func(t *testing.T, text string, a, b uint16, head bool) {
		method := "GET"
		if head {
			method = "HEAD"
		}
		one := min(int(a), len(text))
		two := min(max(int(b), one), len(text))
		whole := parse(t, method, text, true)
		if diff := cmp.Diff(whole, parse(t, method, text, true, one, two)); diff != "" {
			t.Errorf("split at %d and %d (-whole +split):\n%s", one, two, diff)
		}
		for _, before := range []string{text, text[:one], text[two:]} {
			if diff := cmp.Diff(whole, parseAfter(t, before, method, text, true)); diff != "" {
				t.Errorf("after %q (-alone +after):\n%s", before, diff)
			}
			if diff := cmp.Diff(whole, parseAfter(t, before, method, text, true, one, two)); diff != "" {
				t.Errorf("split at %d and %d, after %q (-alone +after):\n%s", one, two, before, diff)
			}
		}
	})
}

func TestRequest(t *testing.T) {
	t.Parallel()
	request := func(c load.HTTPRequest) Config { return Config{HTTPRequest: c} }
	tests := map[string]struct {
		config Config
		want   string
	}{
		"get":       {request(load.HTTPRequest{Path: "/a?b=c"}), "GET /a?b=c HTTP/1.1\r\nHost: server\r\n\r\n"},
		"headers":   {request(load.HTTPRequest{Headers: map[string]string{"b": "2", "a": "1"}}), "GET / HTTP/1.1\r\na: 1\r\nb: 2\r\nHost: server\r\n\r\n"},
		"own host":  {request(load.HTTPRequest{Headers: map[string]string{"host": "other"}}), "GET / HTTP/1.1\r\nHost: other\r\n\r\n"},
		"post":      {request(load.HTTPRequest{Method: "POST", Body: "hello"}), "POST / HTTP/1.1\r\nHost: server\r\nContent-Length: 5\r\n\r\nhello"},
		"binary":    {request(load.HTTPRequest{Method: "POST", BodyBase64: []byte{0, 255}}), "POST / HTTP/1.1\r\nHost: server\r\nContent-Length: 2\r\n\r\n\x00\xff"},
		"empty put": {request(load.HTTPRequest{Method: "PUT"}), "PUT / HTTP/1.1\r\nHost: server\r\nContent-Length: 0\r\n\r\n"},
		"reconnect": {Config{Reconnect: true}, "GET / HTTP/1.1\r\nHost: server\r\nConnection: close\r\n\r\n"},
		"chunks": {
			Config{HTTPRequest: load.HTTPRequest{Method: "POST", Body: "hello world"}, Chunked: 8},
			"POST / HTTP/1.1\r\nHost: server\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nhello wo\r\n3\r\nrld\r\n0\r\n\r\n",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := string(sessionOf(t, tt.config).Begin(nil, 0)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestRequestsThatCannotBeSent(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ config, key string }{
		"method injection": {`{"method": "GET / HTTP/1.1\r\nx:"}`, "method"},
		"no path":          {`{"path": "a"}`, "path"},
		"path injection":   {`{"path": "/ HTTP/1.1\r\nx: y"}`, "path"},
		"header name":      {`{"headers": {"a b": "c"}}`, "headers.a b"},
		"header injection": {`{"headers": {"a": "b\r\nc: d"}}`, "headers.a"},
		"own framing":      {`{"headers": {"Content-Length": "5"}}`, "headers.Content-Length"},
		"header twice":     {`{"headers": {"a": "b", "A": "c"}}`, "headers.a"},
		"two bodies":       {`{"body": "a", "body_base64": "YQ=="}`, "body_base64"},
		"negative chunks":  {`{"body": "a", "chunked": -1}`, "chunked"},
		"nothing chunked":  {`{"chunked": 5}`, "chunked"},
		"unknown key":      {`{"colour": "red"}`, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := New([]byte(tt.config))
			var key *model.ConfigError
			if errors.As(err, &key) && key.Key != tt.key || err == nil || key == nil && tt.key != "" {
				t.Errorf("got %v, want an error about %q", err, tt.key)
			}
		})
	}
}

func TestNoAllocations(t *testing.T) { //nolint:paralleltest // AllocsPerRun panics in parallel tests
	length := []byte("HTTP/1.1 200 OK\r\ncontent-length: 5\r\nx-windtunnel-identity: server-0\r\n\r\nhello")
	chunked := []byte("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nx-windtunnel-identity: server-0\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
	for name, texts := range map[string][][]byte{"length": {length}, "chunked": {chunked}, "by turns": {length, chunked}} {
		s := newSession(t, load.HTTPRequest{})
		out, got := make([]byte, 0, 256), make([]load.Answer, 0, 4)
		n := testing.AllocsPerRun(100, func() {
			for _, b := range texts {
				out = s.Begin(out[:0], 1)
				var err error
				if got, err = s.Feed(b, got[:0]); err != nil || len(got) != 1 {
					t.Fatal(err, got)
				}
			}
		})
		if n != 0 {
			t.Errorf("%s: %v allocations per request", name, n)
		}
	}
}

func BenchmarkFeed(b *testing.B) {
	header := "HTTP/1.1 200 OK\r\nServer: nginx/1.26.3\r\nDate: Sat, 21 Nov 2026 02:31:42 GMT\r\nContent-Type: text/html\r\nLast-Modified: Sat, 21 Nov 2026 02:31:42 GMT\r\nConnection: keep-alive\r\nETag: \"65e9\"\r\nAccept-Ranges: bytes\r\n"
	for _, size := range []int{25, 64 << 10} {
		b.Run(strconv.Itoa(size), func(b *testing.B) { // the same header each time
			s := newSession(b, load.HTTPRequest{})
			text := []byte(header + "Content-Length: " + strconv.Itoa(size) + "\r\n\r\n" + strings.Repeat("x", size))
			out, got := make([]byte, 0, 256), make([]load.Answer, 0, 4)
			b.ReportAllocs()
			for b.Loop() {
				out = s.Begin(out[:0], 1)
				var err error
				if got, err = s.Feed(text, got[:0]); err != nil || len(got) != 1 {
					b.Fatal(err)
				}
			}
		})
	}
}
