package grpc

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/windtunnel/windtunnel/internal/echopb"
	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
)

func sessionOf(tb testing.TB, config string) load.Session {
	tb.Helper()
	p, err := New([]byte(config))
	if err != nil {
		tb.Fatal(err)
	}
	sessions, err := p.Prepare(tb.Context(), load.Peer{Authority: "server", Timeout: time.Second})
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

func (s *server) head(end bool, fields ...string) *server {
	s.tb.Helper()
	buf := &server{tb: s.tb}
	e := hpack.NewEncoder(buf)
	e.SetMaxDynamicTableSize(0)
	for i := 0; i < len(fields); i += 2 {
		s.must(e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
	}
	s.must(s.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: buf.b, EndStream: end, EndHeaders: true}))
	return s
}

func (s *server) data(end bool, text string) *server {
	s.tb.Helper()
	s.must(s.WriteData(1, end, []byte(text)))
	return s
}

func (s *server) reset() *server {
	s.tb.Helper()
	s.must(s.WriteRSTStream(1, http2.ErrCodeInternal))
	return s
}

// begin is the header of an answer of gRPC.
func begin(tb testing.TB) *server {
	tb.Helper()
	return newServer(tb).head(false, ":status", "200", "content-type", "application/grpc", load.IdentityHeader, "me")
}

type outcome struct {
	Answers []load.Answer
	Err     bool
}

// parse has two calls under way and feeds the bytes in pieces of a size.
func parse(tb testing.TB, method string, b []byte, size int) outcome {
	tb.Helper()
	s := sessionOf(tb, `{"streams": 2, "method": "`+method+`"}`)
	s.Begin(s.Begin(s.Open(nil), 1), 0) // streams 1 and 3
	replier, ok := s.(load.Replier)
	if !ok {
		tb.Fatal("it has nothing to say")
	}
	var o outcome
	for first := true; len(b) > 0 && !o.Err; first = first && len(b) > 9 && size < 9 {
		n := min(size, len(b))
		if first {
			n = min(n, 9) // the settings
		}
		got, err := s.Feed(b[:n], nil)
		o.Err = err != nil
		for _, a := range got {
			a.Header, a.HeaderBytes = nil, 0
			o.Answers = append(o.Answers, a)
		}
		replier.Reply(nil)
		b = b[n:]
	}
	return o
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	const one, two = "\x00\x00\x00\x00\x02\x0a\x00", "\x00\x00\x00\x00\x02\x0a\x00\x00\x00\x00\x00\x00"
	ok := func(body string, messages int64) load.Answer {
		return load.Answer{ID: 1, BodyBytes: int64(len(body)), Sum: load.Sum(0, []byte(body)), Messages: messages, Identity: []byte("me")}
	}
	bad := func(status int, id string) load.Answer {
		a := load.Answer{ID: 1, Status: status, Failure: model.CauseStatus}
		if id != "" {
			a.Identity = []byte(id)
		}
		return a
	}
	failed := func(why model.Cause) load.Answer { return load.Answer{ID: 1, Failure: why} }
	page := func(status string) *server {
		return newServer(t).head(false, ":status", status, "content-type", "text/html").data(true, "<html>")
	}
	withBody := func(a load.Answer, body string) load.Answer {
		a.BodyBytes, a.Sum = int64(len(body)), load.Sum(0, []byte(body))
		return a
	}
	tests := map[string]struct {
		stream bool
		server *server
		want   []load.Answer
		fails  bool
	}{
		"ok":                     {server: begin(t).data(false, one).head(true, "grpc-status", "0"), want: []load.Answer{ok(one, 1)}},
		"in pieces":              {server: begin(t).data(false, one[:3]).data(false, one[3:6]).data(false, one[6:]).head(true, "grpc-status", "0"), want: []load.Answer{ok(one, 1)}},
		"empty message":          {server: begin(t).data(false, one[:4]+"\x00").head(true, "grpc-status", "0"), want: []load.Answer{ok(one[:4]+"\x00", 1)}},
		"status in the trailer":  {server: begin(t).head(true, "grpc-status", "5", "grpc-message", "no"), want: []load.Answer{bad(5, "me")}},
		"trailer only":           {server: newServer(t).head(true, ":status", "200", "content-type", "application/grpc", "grpc-status", "14"), want: []load.Answer{bad(14, "")}},
		"content type with more": {server: newServer(t).head(true, ":status", "200", "content-type", "application/grpc+proto", "grpc-status", "14"), want: []load.Answer{bad(14, "")}},
		"stream":                 {stream: true, server: begin(t).data(false, two).data(false, one).head(true, "grpc-status", "0"), want: []load.Answer{ok(two+one, 3)}},
		"stream of nothing":      {stream: true, server: begin(t).head(true, "grpc-status", "0"), want: []load.Answer{ok("", 0)}},
		"stream cut short":       {stream: true, server: begin(t).data(false, two[:9]).head(true, "grpc-status", "0"), want: []load.Answer{failed(model.CauseProtocol)}},
		"unary without message":  {server: begin(t).head(true, "grpc-status", "0"), want: []load.Answer{failed(model.CauseProtocol)}},
		"ok without message":     {server: newServer(t).head(true, ":status", "200", "content-type", "application/grpc", "grpc-status", "0"), want: []load.Answer{failed(model.CauseProtocol)}},
		"unary with two":         {server: begin(t).data(false, two).head(true, "grpc-status", "0"), want: []load.Answer{failed(model.CauseProtocol)}},
		"no status":              {server: begin(t).data(false, one).head(true, "grpc-message", "0"), want: []load.Answer{failed(model.CauseProtocol)}},
		"no trailer":             {server: begin(t).data(true, one), want: []load.Answer{failed(model.CauseProtocol)}},
		"status that is none":    {server: begin(t).data(false, one).head(true, "grpc-status", "ok"), want: []load.Answer{failed(model.CauseProtocol)}},
		"status below 0":         {server: begin(t).data(false, one).head(true, "grpc-status", "-1"), want: []load.Answer{failed(model.CauseProtocol)}},
		"compressed":             {server: begin(t).data(false, "\x01\x00\x00\x00\x00").head(true, "grpc-status", "0"), want: []load.Answer{failed(model.CauseProtocol)}},
		"no gRPC":                {server: newServer(t).head(false, ":status", "200", "content-type", "text/html").data(true, "<html>"), want: []load.Answer{failed(model.CauseProtocol)}},
		"almost gRPC":            {server: newServer(t).head(true, ":status", "200", "content-type", "application/grpc-web", "grpc-status", "0"), want: []load.Answer{failed(model.CauseProtocol)}},
		"HTTP 503":               {server: page("503"), want: []load.Answer{withBody(bad(14, ""), "<html>")}},
		"HTTP 404":               {server: page("404"), want: []load.Answer{withBody(bad(12, ""), "<html>")}},
		"HTTP 401":               {server: page("401"), want: []load.Answer{withBody(bad(16, ""), "<html>")}},
		"HTTP 403":               {server: page("403"), want: []load.Answer{withBody(bad(7, ""), "<html>")}},
		"HTTP 400":               {server: page("400"), want: []load.Answer{withBody(bad(13, ""), "<html>")}},
		"HTTP 500":               {server: page("500"), want: []load.Answer{withBody(bad(2, ""), "<html>")}},
		"HTTP 204":               {server: page("204"), want: []load.Answer{withBody(bad(2, ""), "<html>")}},
		"HTTP 503 with status":   {server: newServer(t).head(true, ":status", "503", "grpc-status", "8"), want: []load.Answer{bad(8, "")}},
		"HTTP 503 that is ok":    {server: newServer(t).head(true, ":status", "503", "grpc-status", "0"), want: []load.Answer{failed(model.CauseProtocol)}},
		"reset":                  {server: begin(t).data(false, one).reset(), want: []load.Answer{failed(model.CauseReset)}},
		"malformed":              {server: newServer(t).head(true, "a", "b"), want: []load.Answer{failed(model.CauseProtocol)}},
		"not HTTP/2":             {server: &server{b: []byte("HTTP/1.1 400 Bad Request\r\n\r\n")}, fails: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			method := echopb.MethodUnary
			if tt.stream {
				method = echopb.MethodServerStream
			}
			whole := parse(t, method, tt.server.b, 1<<20)
			same := cmp.Comparer(func(a, b []byte) bool { return string(a) == string(b) })
			if diff := cmp.Diff(tt.want, whole.Answers, same); diff != "" || whole.Err != tt.fails {
				t.Fatalf("fails: %v; answers (-want +got):\n%s", whole.Err, diff)
			}
			for _, size := range []int{1, 2, 7} {
				if diff := cmp.Diff(whole, parse(t, method, tt.server.b, size), same); diff != "" {
					t.Errorf("in pieces of %d (-whole +pieces):\n%s", size, diff)
				}
			}
		})
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x02\x0a\x00"), uint8(3), true)
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01a"), uint8(7), false)
	f.Fuzz(func(t *testing.T, body []byte, size uint8, stream bool) {
		method := echopb.MethodUnary
		if stream {
			method = echopb.MethodServerStream
		}
		if len(body) > 16384 {
			return
		}
		s := begin(t).data(false, string(body)).head(true, "grpc-status", "0")
		whole := parse(t, method, s.b, 1<<20)
		if diff := cmp.Diff(whole, parse(t, method, s.b, int(size)+1)); diff != "" || len(whole.Answers) != 1 {
			t.Errorf("%d answers; in pieces of %d (-whole +pieces):\n%s", len(whole.Answers), size, diff)
		}
	})
}

func TestRequest(t *testing.T) {
	t.Parallel()
	s := sessionOf(t, `{"message": {"payload": "aGVsbG8="}, "metadata": {"x-a": "b", "user-agent": "me"}}`)
	replier, ok := s.(load.Replier)
	if !ok {
		t.Fatal("it has nothing to say")
	}
	s.Begin(s.Open(nil), 0)
	if _, err := s.Feed(newServer(t).b, nil); err != nil {
		t.Fatal(err)
	}
	fr := http2.NewFramer(nil, strings.NewReader(string(replier.Reply(nil))))
	fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	var got []string
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			break
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			for _, field := range f.Fields {
				got = append(got, field.Name+"="+field.Value)
			}
		case *http2.DataFrame:
			got = append(got, string(f.Data()))
		}
	}
	want := []string{
		":method=POST", ":scheme=http", ":path=/windtunnel.echo.v1.Echo/Unary", ":authority=server", "te=trailers", "content-type=application/grpc",
		"grpc-timeout=1000000u", "user-agent=me", "x-a=b", "\x00\x00\x00\x00\x07\x0a\x05hello",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		time.Nanosecond: "1u", 10 * time.Second: "10000000u", 100 * time.Second: "100000m", 100000 * time.Hour: "6000000M",
	} {
		if got := timeout(d); got != want {
			t.Errorf("%s is %q, want %q", d, got, want)
		}
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	set, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{echopb.File()}})
	if err != nil {
		t.Fatal(err)
	}
	encode := func(b []byte) string {
		text, wrong := json.Marshal(b)
		if wrong != nil {
			t.Fatal(wrong)
		}
		return string(text)
	}
	file := echopb.File()
	file.GetService()[0].GetMethod()[0].ClientStreaming = new(true)
	streaming, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{file}})
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ config, key, text string }{
		"none":             {config: ``},
		"descriptor":       {config: `{"descriptor": ` + encode(set) + `}`},
		"reflection":       {config: `{"method": "a.B/C", "reflection": true}`},
		"form of method":   {config: `{"method": "/a.B/C"}`, key: "method", text: "form"},
		"unknown service":  {config: `{"method": "a.B/C"}`, key: "method", text: "reflection"},
		"unknown method":   {config: `{"method": "windtunnel.echo.v1.Echo/X"}`, key: "method", text: "Unary, ServerStream"},
		"no service":       {config: `{"method": "windtunnel.echo.v1.Message/X"}`, key: "method", text: "service"},
		"client stream":    {config: `{"descriptor": ` + encode(streaming) + `}`, key: "method", text: "streams requests"},
		"bad message":      {config: `{"message": {"colour": 1}}`, key: "message", text: "colour"},
		"bad descriptor":   {config: `{"descriptor": "AAAA"}`, key: "descriptor", text: "FileDescriptorSet"},
		"two sources":      {config: `{"reflection": true, "descriptor": "AAAA"}`, key: "reflection", text: "descriptor"},
		"streams":          {config: `{"streams": 2000}`, key: "streams", text: "2000"},
		"metadata":         {config: `{"metadata": {"A": "b"}}`, key: "metadata.A", text: "lower-case"},
		"own metadata":     {config: `{"metadata": {"grpc-timeout": "b"}}`, key: "metadata.grpc-timeout", text: "generator"},
		"metadata's value": {config: `{"metadata": {"a": "b\n"}}`, key: "metadata.a", text: "ASCII"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := New([]byte(tt.config))
			var key *model.ConfigError
			switch {
			case tt.key == "" && err != nil:
				t.Error(err)
			case tt.key != "" && (!errors.As(err, &key) || key.Key != tt.key || !strings.Contains(key.Text, tt.text)):
				t.Errorf("got %v, want an error about %s that says %q", err, tt.key, tt.text)
			}
		})
	}
}

// exchange is a session whose connection is under way, and what answers its
// next call.
func exchange(tb testing.TB) func() {
	tb.Helper()
	s := sessionOf(tb, `{"message": {"payload": "aGVsbG8="}}`)
	out, got := s.Open(nil), make([]load.Answer, 0, 4)
	if _, err := s.Feed(newServer(tb).b, nil); err != nil {
		tb.Fatal(err)
	}
	template := newServer(tb)
	template.b = nil
	template.head(false, ":status", "200", "content-type", "application/grpc", load.IdentityHeader, "server-0")
	data := len(template.b)
	template.data(false, "\x00\x00\x00\x00\x07\x0a\x05hello")
	trailer := len(template.b)
	template.head(true, "grpc-status", "0", "grpc-message", "")
	b := template.b
	id := uint32(1)
	replier, ok := s.(load.Replier)
	if !ok {
		tb.Fatal("it has nothing to say")
	}
	window := newServer(tb)
	window.b = nil
	window.must(window.WriteWindowUpdate(0, 12))
	b = append(b, window.b...)
	return func() {
		out = s.Begin(replier.Reply(out[:0]), 0)
		for _, at := range []int{5, data + 5, trailer + 5} {
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
