package echo

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/echopb"
	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/load/grpc"
	loadhttp1 "github.com/windtunnel/windtunnel/internal/load/http1"
	"github.com/windtunnel/windtunnel/internal/load/http2"
	"github.com/windtunnel/windtunnel/internal/model"
)

// serving serves on loopback for the length of the test.
func serving(tb testing.TB) string {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	ready, done := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		done <- Serve(ctx, Options{Listen: "127.0.0.1:0", Identity: "me", Ready: func(a net.Addr) { ready <- a }})
	}()
	tb.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			tb.Errorf("serving ended with: %v", err)
		}
	})
	select {
	case a := <-ready:
		return a.String()
	case err := <-done:
		tb.Fatal(err)
		return ""
	}
}

func client(tb testing.TB, h2 bool) *http.Client {
	tb.Helper()
	p := new(http.Protocols)
	p.SetHTTP1(!h2)
	p.SetUnencryptedHTTP2(h2)
	tr := &http.Transport{Protocols: p}
	tb.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

type reply struct {
	Proto          string
	Status         int
	Identity, Peer string
	Length         int64
	Body           string
}

// whole is a body of known length.
func whole(s string) func() io.Reader { return func() io.Reader { return strings.NewReader(s) } }

// pieces are a body of unknown length, which HTTP/1.1 sends in chunks.
func pieces(parts ...string) func() io.Reader {
	return func() io.Reader {
		var readers []io.Reader
		for _, p := range parts {
			readers = append(readers, strings.NewReader(p))
		}
		return io.MultiReader(readers...)
	}
}

func TestAnswersOfBothProtocols(t *testing.T) {
	t.Parallel()
	addr := serving(t)
	long := strings.Repeat("0123456789", 100_000)
	tests := map[string]struct {
		method, path, xfcc string
		body               func() io.Reader
		want               reply
	}{
		"root":        {method: "GET", path: "/", want: reply{Status: 200, Length: 27, Body: fixedBody}},
		"root, query": {method: "GET", path: "/?x", want: reply{Status: 200, Length: 27, Body: fixedBody}},
		"head":        {method: "HEAD", path: "/", want: reply{Status: 200, Length: 27}},
		"peer":        {method: "GET", path: "/", xfcc: "By=a;URI=spiffe://b", want: reply{Status: 200, Length: 27, Body: fixedBody, Peer: "By=a;URI=spiffe://b"}},
		"size":        {method: "GET", path: "/size/5", want: reply{Status: 200, Length: 5, Body: "wwwww"}},
		"size 0":      {method: "GET", path: "/size/0", want: reply{Status: 200}},
		"large size":  {method: "GET", path: "/size/300000", want: reply{Status: 200, Length: 300000, Body: strings.Repeat("w", 300000)}},
		"bad size":    {method: "GET", path: "/size/x", want: reply{Status: 400}},
		"huge size":   {method: "GET", path: "/size/67108865", want: reply{Status: 400}},
		"no such":     {method: "GET", path: "/nothing", want: reply{Status: 404}},
		"delete":      {method: "DELETE", path: "/", want: reply{Status: 405}},
		"post":        {method: "POST", path: "/", body: whole("hello"), want: reply{Status: 200, Length: 5, Body: "hello"}},
		"empty post":  {method: "POST", path: "/", want: reply{Status: 200}},
		"long put":    {method: "PUT", path: "/x", body: whole(long), want: reply{Status: 200, Length: 1_000_000, Body: long}},
		"chunks":      {method: "POST", path: "/", body: pieces("hel", "lo"), want: reply{Status: 200, Length: 5, Body: "hello"}},
		"long chunks": {method: "POST", path: "/", body: pieces(long), want: reply{Status: 200, Length: 1_000_000, Body: long}},
		"get a body":  {method: "GET", path: "/", body: whole("ignored"), want: reply{Status: 200, Length: 27, Body: fixedBody}},
	}
	for proto, c := range map[string]*http.Client{"HTTP/1.1": client(t, false), "HTTP/2.0": client(t, true)} {
		for name, tt := range tests {
			t.Run(proto+" "+name, func(t *testing.T) {
				t.Parallel()
				want := tt.want
				want.Proto, want.Identity = proto, "me"
				var body io.Reader
				if tt.body != nil {
					body = tt.body()
				}
				r, err := http.NewRequestWithContext(t.Context(), tt.method, "http://"+addr+tt.path, body)
				if err != nil {
					t.Fatal(err)
				}
				if tt.xfcc != "" {
					r.Header.Set(headerXFCC, tt.xfcc)
				}
				if diff := cmp.Diff(want, do(t, c, r)); diff != "" {
					t.Errorf("(-want +got):\n%.2000s", diff)
				}
			})
		}
	}
}

func do(tb testing.TB, c *http.Client, r *http.Request) reply {
	tb.Helper()
	resp, err := c.Do(r)
	if err != nil {
		tb.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		tb.Fatal(err)
	}
	return reply{resp.Proto, resp.StatusCode, resp.Header.Get(headerIdentity), resp.Header.Get(headerPeer), resp.ContentLength, string(b)}
}

// statuses sends raw bytes and returns the status lines and how it ended.
func statuses(tb testing.TB, text string) string {
	tb.Helper()
	var got bytes.Buffer
	h := newHTTP1("me", bufio.NewReaderSize(strings.NewReader(text), 16<<10), &got)
	for h.exchange() {
	}
	var lines []string
	for line := range strings.Lines(got.String()) {
		if rest, ok := strings.CutPrefix(line, "HTTP/1.1 "); ok {
			lines = append(lines, rest[:3])
		}
		if strings.HasPrefix(line, "connection: close") {
			lines = append(lines, "close")
		}
	}
	return strings.Join(lines, " ")
}

func TestRawRequests(t *testing.T) {
	t.Parallel()
	const get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	tests := map[string]struct{ text, want string }{
		"one":                    {get, "200"},
		"pipelined":              {get + get + "POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\nk\n" + get, "200 200 200 200"},
		"chunks and trailer":     {"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nk\n\r\n0\r\na: b\r\n\r\n" + get, "200 200"},
		"expects continue":       {"POST / HTTP/1.1\r\nExpect: 100-continue\r\ncontent-length: 2\r\n\r\nok", "100 200"},
		"asks to close":          {"GET / HTTP/1.1\r\nConnection: close\r\n\r\n" + get, "200 close"},
		"1.0":                    {"GET / HTTP/1.0\r\n\r\n" + get, "200 close"},
		"1.0 kept alive":         {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + get, "200 200"},
		"empty lines before":     {"\r\n\r\n" + get, "200"},
		"bare line feeds":        {"GET / HTTP/1.1\nHost: x\n\n", "200"},
		"nothing":                {"", ""},
		"cut short":              {get[:20], ""},
		"garbage":                {"hello\r\n\r\n", "400 close"},
		"HTTP/3":                 {"GET / HTTP/3.0\r\n\r\n", "400 close"},
		"no colon":               {"GET / HTTP/1.1\r\nnonsense\r\n\r\n", "400 close"},
		"bad length":             {"POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n", "400 close"},
		"negative length":        {"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n", "400 close"},
		"two lengths":            {"POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", "400 close"},
		"length and chunks":      {"POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", "400 close"},
		"unknown coding":         {"POST / HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\n", "400 close"},
		"bad chunk":              {"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", "400 close"},
		"body too large":         {"POST / HTTP/1.1\r\ncontent-length: 67108865\r\n\r\n", "413 close"},
		"line too long":          {"GET /" + strings.Repeat("x", 20000) + " HTTP/1.1\r\n\r\n", "413 close"},
		"too many header lines":  {"GET / HTTP/1.1\r\n" + strings.Repeat("a: bcdefgh\r\n", 10000) + "\r\n", "413 close"},
		"body cut short":         {"POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nok", ""},
		"several after an error": {"hello\r\n\r\n" + get, "400 close"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := statuses(t, tt.text); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzHTTP1(f *testing.F) {
	f.Add("GET / HTTP/1.1\r\nHost: x\r\n\r\nPOST / HTTP/1.1\r\ncontent-length: 2\r\n\r\nok")
	f.Add("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n2\r\nok\r\n0\r\na: b\r\n\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(strings.ToLower(text), "/size/") {
			return // 64 MiB each take long, and are not what is looked for
		}
		statuses(t, text)
	})
}

func TestNoAllocations(t *testing.T) { //nolint:paralleltest // AllocsPerRun panics in parallel tests
	in := &repeat{text: []byte("GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: y\r\n\r\n")}
	h := newHTTP1("me", bufio.NewReaderSize(in, 16<<10), io.Discard)
	if n := testing.AllocsPerRun(1000, func() { h.exchange() }); n != 0 {
		t.Errorf("%v allocations per request", n)
	}
}

// repeat gives one request per read.
type repeat struct{ text []byte }

func (r *repeat) Read(b []byte) (int, error) { return copy(b, r.text), nil }

func BenchmarkExchange(b *testing.B) {
	in := &repeat{text: []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")}
	h := newHTTP1("me", bufio.NewReaderSize(in, 16<<10), io.Discard)
	b.ReportAllocs()
	for b.Loop() {
		h.exchange()
	}
}

func TestAddressInUse(t *testing.T) {
	t.Parallel()
	if err := Serve(t.Context(), Options{Listen: serving(t)}); err == nil || !strings.Contains(err.Error(), "listening on") {
		t.Errorf("got %v", err)
	}
}

// site is a model.Site of pods that remember what was started in them.
type site struct {
	model.Site
	services []model.Service
	started  map[string]model.Process
}

func (s *site) Topology() model.Topology { return model.Topology{Services: s.services} }

func (s *site) Service(name string) (model.Service, error) {
	for _, svc := range s.services {
		if svc.Name == name {
			return svc, nil
		}
	}
	return model.Service{}, io.EOF
}

func (s *site) Pod(name string) (model.Pod, error) { return &pod{site: s, name: name}, nil }

type pod struct {
	site *site
	name string
}

func (p *pod) Name() string     { return p.name }
func (p *pod) Addr() netip.Addr { return netip.MustParseAddr("10.0.0.1") }

func (p *pod) Start(_ context.Context, proc model.Process) (model.Running, error) {
	p.site.started[p.name] = proc
	return nil, nil //nolint:nilnil // nobody looks
}

func TestDeploy(t *testing.T) {
	t.Parallel()
	app, err := Plugin().New([]byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	s := &site{started: map[string]model.Process{}, services: []model.Service{{Name: "server", TargetPort: 8080, Pods: []string{"server-0", "server-1"}}}}
	got, err := app.Deploy(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort("10.0.0.1:8080")
	want := model.Endpoints{Service: "server", Backends: []model.Backend{{Pod: "server-0", Identity: "server-0", Addr: at}, {Pod: "server-1", Identity: "server-1", Addr: at}}}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Errorf("endpoints (-want +got):\n%s", diff)
	}
	process := func(id string) model.Process {
		return model.Process{Name: "echo", Component: model.ComponentApp, Command: []string{"{self}", "echo", "--listen", "0.0.0.0:8080", "--identity", id, "--impairable"}}
	}
	if diff := cmp.Diff(map[string]model.Process{"server-0": process("server-0"), "server-1": process("server-1")}, s.started); diff != "" {
		t.Errorf("processes (-want +got):\n%s", diff)
	}
	if _, err := app.Deploy(t.Context(), &site{}); err == nil {
		t.Error("a topology without services must be an error")
	}
	if _, err := Plugin().New([]byte(`{"port": 1}`)); err == nil {
		t.Error("an unknown setting must be an error")
	}
}

// Traced requests are told what they took here; others are not.
func TestTiming(t *testing.T) {
	t.Parallel()
	addr := serving(t)
	for _, h2 := range []bool{false, true} {
		for id, want := range map[string]bool{model.TracedPrefix + "000000000000002a": true, "another": false, "": false} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			if id != "" {
				r.Header.Set(model.HeaderRequestID, id)
			}
			resp, err := client(t, h2).Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if took := model.Timing(resp.Header.Get(model.HeaderTiming)); (took > 0) != want {
				t.Errorf("HTTP/2 %v, request id %q: %q", h2, id, resp.Header.Get(model.HeaderTiming))
			}
		}
	}
}

// What loads of every protocol of HTTP trace is what the server has told them.
func TestTracedLoads(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	to := serving(t)
	for name, plugin := range map[string]func([]byte) (load.Protocol, error){
		`http1 {}`:                              func(c []byte) (load.Protocol, error) { return loadhttp1.New(c) },
		`http2 {"streams": 4}`:                  func(c []byte) (load.Protocol, error) { return http2.New(c) },
		`http2 {"body": "hello"}`:               func(c []byte) (load.Protocol, error) { return http2.New(c) },
		`grpc {"message": {"payload": "aGk="}}`: func(c []byte) (load.Protocol, error) { return grpc.New(c) },
		`grpc {"method": "` + echopb.MethodServerStream + `", "message": {"count": 3}}`: func(c []byte) (load.Protocol, error) { return grpc.New(c) },
	} {
		_, config, _ := strings.Cut(name, " ")
		r := loading(t, plugin, config, to, func(j *load.Job) {
			j.Load.Arrival, j.Load.Rate, j.Traced, j.Host = model.ArrivalOpen, 100, true, to
		})
		if r.Succeeded == 0 || r.FailedTotal() > 0 || r.Traced == nil || uint64(len(r.Traced.Number)) != r.Succeeded {
			t.Errorf("%s: %d succeeded, failed %v, traced %+v", name, r.Succeeded, r.Failed, r.Traced)
			continue
		}
		for i, n := range r.Traced.Number {
			if app := r.Traced.App[i]; app <= 0 || app > r.Traced.Service[i] {
				t.Fatalf("%s: request %d took %d ns, of which the app %d", name, n, r.Traced.Service[i], app)
			}
		}
	}
}
