package http2

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
)

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

// server is what a server sends.
type server struct {
	tb testing.TB
	b  []byte
	*http2.Framer
}

func newServer(tb testing.TB) *server {
	tb.Helper()
	s := &server{tb: tb}
	s.Framer = http2.NewFramer(s, nil)
	s.must(s.WriteSettings())
	return s
}

func (s *server) Write(b []byte) (int, error) {
	s.b = append(s.b, b...)
	return len(b), nil
}

func (s *server) must(err error) {
	s.tb.Helper()
	if err != nil {
		s.tb.Fatal(err)
	}
}

func (s *server) head(id uint32, end bool, fields ...string) *server {
	s.tb.Helper()
	buf := &server{tb: s.tb}
	e := hpack.NewEncoder(buf)
	e.SetMaxDynamicTableSize(0)
	for i := 0; i < len(fields); i += 2 {
		s.must(e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
	}
	s.must(s.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: buf.b, EndStream: end, EndHeaders: true}))
	return s
}

func (s *server) data(id uint32, end bool, text string) *server {
	s.tb.Helper()
	s.must(s.WriteData(id, end, []byte(text)))
	return s
}

func (s *server) reset(id uint32) *server {
	s.tb.Helper()
	s.must(s.WriteRSTStream(id, http2.ErrCodeInternal))
	return s
}

func (s *server) goAway(last uint32) *server {
	s.tb.Helper()
	s.must(s.WriteGoAway(last, http2.ErrCodeNo, nil))
	return s
}

type outcome struct {
	Answers          []load.Answer
	Header, Identity []string
	Err              bool
}

// parse has two requests under way and feeds the bytes in pieces of a size.
func parse(tb testing.TB, c Config, b []byte, size int) outcome {
	tb.Helper()
	c.Streams = 2
	s := sessionOf(tb, c)
	s.Begin(s.Begin(s.Open(nil), 1), 0) // streams 1 and 3
	replier, ok := s.(load.Replier)
	if !ok {
		tb.Fatal("it has nothing to say")
	}
	var o outcome
	for len(b) > 0 && !o.Err {
		n := min(size, len(b))
		if len(o.Answers) == 0 && size > 9 {
			n = min(n, 9) // the settings
		}
		got, err := s.Feed(b[:n], nil)
		o.Err = err != nil
		for _, a := range got {
			o.Header, o.Identity = append(o.Header, string(a.Header)), append(o.Identity, string(a.Identity))
			a.Header, a.Identity = nil, nil
			o.Answers = append(o.Answers, a)
		}
		replier.Reply(nil)
		b = b[n:]
	}
	return o
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	answer := func(id uint32, status int, header int64, body string) load.Answer {
		return load.Answer{ID: id, Status: status, HeaderBytes: header, BodyBytes: int64(len(body)), Sum: load.Sum(0, []byte(body))}
	}
	failed := func(a load.Answer, why model.Cause) load.Answer { a.Failure = why; return a }
	closing := func(a load.Answer) load.Answer { a.Close = true; return a }
	tests := map[string]struct {
		config   Config
		server   *server
		want     []load.Answer
		header   string // of the first
		identity string
		fails    bool
	}{
		"identity":       {server: newServer(t).head(1, false, ":status", "200", load.IdentityHeader, "me").data(1, true, "hello"), want: []load.Answer{answer(1, 200, 39, "hello")}, header: "HTTP/2 200\r\nx-windtunnel-identity: me\r\n", identity: "me"},
		"length":         {server: newServer(t).head(1, false, ":status", "200", "content-length", "5").data(1, false, "he").data(1, true, "llo"), want: []load.Answer{answer(1, 200, 31, "hello")}, header: "HTTP/2 200\r\ncontent-length: 5\r\n"},
		"wrong length":   {server: newServer(t).head(1, false, ":status", "200", "content-length", "6").data(1, true, "hello"), want: []load.Answer{failed(answer(1, 200, 31, "hello"), model.CauseProtocol)}, header: "HTTP/2 200\r\ncontent-length: 6\r\n"},
		"no length":      {server: newServer(t).head(1, true, ":status", "200", "content-length", "x"), want: []load.Answer{failed(answer(1, 200, 31, ""), model.CauseProtocol)}, header: "HTTP/2 200\r\ncontent-length: x\r\n"},
		"head":           {config: Config{HTTPRequest: load.HTTPRequest{Method: "HEAD"}}, server: newServer(t).head(1, true, ":status", "200", "content-length", "6"), want: []load.Answer{answer(1, 200, 31, "")}, header: "HTTP/2 200\r\ncontent-length: 6\r\n"},
		"not modified":   {server: newServer(t).head(1, true, ":status", "304", "content-length", "6"), want: []load.Answer{answer(1, 304, 31, "")}, header: "HTTP/2 304\r\ncontent-length: 6\r\n"},
		"bad status":     {server: newServer(t).head(1, true, ":status", "503"), want: []load.Answer{failed(answer(1, 503, 12, ""), model.CauseStatus)}, header: "HTTP/2 503\r\n"},
		"trailer":        {server: newServer(t).head(1, false, ":status", "200").data(1, false, "a").head(1, true, "x", "y"), want: []load.Answer{answer(1, 200, 12, "a")}, header: "HTTP/2 200\r\n"},
		"two, in turn":   {server: newServer(t).head(1, false, ":status", "200").head(3, false, ":status", "202").data(1, false, "a").data(3, true, "c").data(1, true, "b"), want: []load.Answer{answer(0, 202, 12, "c"), answer(1, 200, 12, "ab")}, header: "HTTP/2 202\r\n"},
		"reset":          {server: newServer(t).head(1, false, ":status", "200").reset(1).head(3, true, ":status", "200"), want: []load.Answer{{ID: 1, Failure: model.CauseReset}, answer(0, 200, 12, "")}},
		"malformed":      {server: newServer(t).head(1, true, "a", "b").head(3, true, ":status", "200"), want: []load.Answer{{ID: 1, Failure: model.CauseProtocol}, answer(0, 200, 12, "")}},
		"going away":     {server: newServer(t).goAway(1).head(1, true, ":status", "200"), want: []load.Answer{closing(answer(1, 200, 12, ""))}, header: "HTTP/2 200\r\n"},
		"not HTTP/2":     {server: &server{b: []byte("HTTP/1.1 400 Bad Request\r\n\r\n")}, fails: true},
		"good, then bad": {server: newServer(t).head(1, true, ":status", "200").head(8, true), want: []load.Answer{answer(1, 200, 12, "")}, header: "HTTP/2 200\r\n", fails: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole := parse(t, tt.config, tt.server.b, 1<<20)
			if diff := cmp.Diff(tt.want, whole.Answers); diff != "" || whole.Err != tt.fails {
				t.Fatalf("fails: %v; answers (-want +got):\n%s", whole.Err, diff)
			}
			if len(tt.want) > 0 && (whole.Header[0] != tt.header || whole.Identity[0] != tt.identity) {
				t.Errorf("header %q, identity %q", whole.Header[0], whole.Identity[0])
			}
			for _, size := range []int{1, 2, 7} {
				if diff := cmp.Diff(whole, parse(t, tt.config, tt.server.b, size)); diff != "" {
					t.Errorf("in pieces of %d (-whole +pieces):\n%s", size, diff)
				}
			}
		})
	}
}

func TestRequestsThatCannotBeSent(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ config, key string }{
		"method injection": {`{"method": "GET / HTTP/1.1\r\nx:"}`, "method"},
		"own framing":      {`{"headers": {"Content-Length": "5"}}`, "headers.Content-Length"},
		"keep alive":       {`{"headers": {"Keep-Alive": "5"}}`, "headers.Keep-Alive"},
		"te":               {`{"headers": {"TE": "gzip"}}`, "headers.TE"},
		"no streams":       {`{"streams": 0}`, "streams"},
		"too many streams": {`{"streams": 1025}`, "streams"},
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

// exchange is a session whose connection is under way, and what answers its
// next request.
func exchange(tb testing.TB) func() {
	tb.Helper()
	s := sessionOf(tb, Config{HTTPRequest: load.HTTPRequest{Method: "POST", Body: "hello"}, Streams: 1})
	out, got := s.Open(nil), make([]load.Answer, 0, 4)
	if _, err := s.Feed(newServer(tb).b, nil); err != nil {
		tb.Fatal(err)
	}
	template := newServer(tb)
	template.b = nil
	template.head(1, false, ":status", "200", "content-length", "5", "date", "Sat, 21 Nov 2026 02:31:42 GMT", load.IdentityHeader, "server-0").data(1, true, "hello")
	template.must(template.WriteWindowUpdate(0, 5))
	b := template.b
	second := 9 + int(b[1])<<8 + int(b[2])
	id := uint32(1)
	replier, ok := s.(load.Replier)
	if !ok {
		tb.Fatal("it has nothing to say")
	}
	return func() {
		out = s.Begin(replier.Reply(out[:0]), 0)
		for _, at := range []int{5, second + 5} {
			b[at], b[at+1], b[at+2], b[at+3] = byte(id>>24), byte(id>>16), byte(id>>8), byte(id)
		}
		id += 2
		var err error
		if got, err = s.Feed(b, got[:0]); err != nil || len(got) != 1 || got[0].Failure != "" {
			tb.Fatal(err, got)
		}
	}
}

func TestNoAllocations(t *testing.T) { //nolint:paralleltest // AllocsPerRun panics in parallel tests
	if n := testing.AllocsPerRun(1000, exchange(t)); n != 0 {
		t.Errorf("%v allocations per request", n)
	}
}

func BenchmarkExchange(b *testing.B) {
	do := exchange(b)
	b.ReportAllocs()
	for b.Loop() {
		do()
	}
}
