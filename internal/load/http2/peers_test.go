package http2

import (
	"context"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/windtunnel/windtunnel/internal/app/echo"
	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
)

func closed() model.Load {
	return model.Load{Name: "test", Protocol: Name, Arrival: model.ArrivalClosed, Connections: 2, Duration: 200 * time.Millisecond, Timeout: 2 * time.Second}
}

func run(t *testing.T, l model.Load, to netip.AddrPort, config string) *model.LoadResult {
	t.Helper()
	p, err := New([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := load.Run(t.Context(), load.Job{Load: l, Protocol: p, Host: "example.com", Targets: []netip.AddrPort{to}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ours is our echo server.
func ours(t *testing.T) netip.AddrPort {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ready, done := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		done <- echo.Serve(ctx, echo.Options{Listen: "127.0.0.1:0", Identity: "me", Ready: func(a net.Addr) { ready <- a }})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case a := <-ready:
		return netip.MustParseAddrPort(a.String())
	case err := <-done:
		t.Fatal(err)
		return netip.AddrPort{}
	}
}

// answers is what the standard library's server says here.
func answers(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(load.IdentityHeader, r.Proto)
	switch r.URL.Path {
	case "/echo":
		_, _ = io.Copy(w, r.Body)
	case "/early": // before it has read all
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	case "/hints":
		w.Header().Set("link", "</a>")
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(w, "hints")
	case "/trailer":
		_, _ = io.WriteString(w, "trailer")
		w.Header().Set(http.TrailerPrefix+"x-sum", "1")
	case "/abort":
		panic(http.ErrAbortHandler)
	case "/large":
		_, _ = w.Write(make([]byte, 1<<20))
	}
}

func standard(t *testing.T, secure bool, streams int) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(answers))
	p := new(http.Protocols)
	p.SetHTTP2(secure)
	p.SetUnencryptedHTTP2(!secure)
	s.Config.Protocols, s.Config.HTTP2 = p, &http.HTTP2Config{MaxConcurrentStreams: streams}
	if s.EnableHTTP2 = secure; secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

func addressOf(s *httptest.Server) netip.AddrPort {
	return netip.MustParseAddrPort(s.Listener.Addr().String())
}

func TestOurServer(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	to := ours(t)
	for _, config := range []string{`{}`, `{"streams": 32}`, `{"method": "POST", "body": "hello", "streams": 4}`, `{"method": "HEAD"}`, `{"path": "/size/300000", "streams": 3}`} {
		r := run(t, closed(), to, config)
		if r.Succeeded < 2 || r.Succeeded != r.Due || r.Responders["me"] != r.Succeeded || r.Sockets != 2 {
			t.Errorf("%s: succeeded %d of %d, failed %v, reasons %v, responders %v, %d sockets", config, r.Succeeded, r.Due, r.Failed, r.Reasons, r.Responders, r.Sockets)
		}
	}
}

func TestStandardServer(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	to := addressOf(standard(t, false, 100))
	large := `"body": "` + strings.Repeat("x", 300_000) + `"`
	tests := map[string]struct {
		config string
		status int
		cause  model.Cause
		body   int64
	}{
		"small":         {config: `{"streams": 8}`, status: 200},
		"large request": {config: `{"path": "/echo", "method": "POST", "streams": 2, ` + large + `}`, status: 200, body: 300_000},
		"large answer":  {config: `{"path": "/large", "streams": 2}`, status: 200, body: 1 << 20},
		"early answer":  {config: `{"path": "/early", "method": "POST", "streams": 2, ` + large + `}`, status: 413, cause: model.CauseStatus},
		"early hints":   {config: `{"path": "/hints"}`, status: 200, body: 5},
		"trailer":       {config: `{"path": "/trailer"}`, status: 200, body: 7},
		"reset":         {config: `{"path": "/abort", "streams": 4}`, cause: model.CauseReset},
	}
	for name, tt := range tests {
		r := run(t, closed(), to, tt.config)
		good := r.Due >= 2 && r.Sockets == 2 && (tt.status == 0 || r.Statuses[tt.status] == r.Due)
		if tt.cause == "" {
			good = good && r.Succeeded == r.Due && r.BodyBytesMin == tt.body && r.BodyBytesMax == tt.body && r.Responders["HTTP/2.0"] == r.Due
		} else {
			good = good && r.Failed[tt.cause] == r.Due
		}
		if !good {
			t.Errorf("%s: succeeded %d of %d, failed %v, reasons %v, statuses %v, %d sockets, body %d to %d", name, r.Succeeded, r.Due, r.Failed, r.Reasons, r.Statuses, r.Sockets, r.BodyBytesMin, r.BodyBytesMax)
		}
	}
	if r := run(t, closed(), addressOf(standard(t, false, 3)), `{"streams": 20}`); r.Succeeded < 20 || r.Succeeded != r.Due {
		t.Errorf("of a server of 3 streams: succeeded %d of %d, failed %v", r.Succeeded, r.Due, r.Failed)
	}
}

func TestTLS(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	s := standard(t, true, 100)
	l := closed()
	l.TLS = &model.TLS{CA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))}
	if r := run(t, l, addressOf(s), `{"streams": 4}`); r.Succeeded < 20 || r.Succeeded != r.Due || r.Responders["HTTP/2.0"] != r.Succeeded {
		t.Errorf("succeeded %d of %d, failed %v, reasons %v, responders %v", r.Succeeded, r.Due, r.Failed, r.Reasons, r.Responders)
	}
}

// A server that ends each connection after some requests, of which it says what
// it has processed: nothing must be lost by it.
func TestServerThatGoesAway(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = ln.Close(); <-done })
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go goingAway(c)
		}
	}()
	to := netip.MustParseAddrPort(ln.Addr().String())
	l := closed()
	for _, streams := range []string{`{"streams": 1}`, `{"streams": 16}`} {
		r := run(t, l, to, streams)
		if r.Succeeded < 50 || r.Succeeded != r.Due || r.Sockets < 4 {
			t.Errorf("%s: succeeded %d of %d, failed %v, %d sockets", streams, r.Succeeded, r.Due, r.Failed, r.Sockets)
		}
	}
	l.Arrival, l.Rate = model.ArrivalOpen, 500
	if r := run(t, l, to, `{"streams": 8}`); r.Succeeded+r.Unsent != r.Due || r.Due != 100 || r.Sockets < 4 {
		t.Errorf("open: succeeded %d of %d, failed %v, %d sockets", r.Succeeded, r.Due, r.Failed, r.Sockets)
	}
}

// goingAway answers 20 requests of a connection and refuses the others.
func goingAway(c net.Conn) {
	defer c.Close() //nolint:errcheck // of a test
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	fr := http2.NewFramer(c, c)
	_ = fr.WriteSettings()
	for n := 1; ; {
		f, err := fr.ReadFrame()
		if err != nil {
			return
		}
		if f.Header().Type != http2.FrameHeaders {
			continue
		}
		if n == 20 {
			_ = fr.WriteGoAway(f.Header().StreamID, http2.ErrCodeNo, nil)
		}
		if n <= 20 {
			_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: f.Header().StreamID, BlockFragment: []byte{0x88}, EndHeaders: true, EndStream: true})
		}
		n++
	}
}

// A request may time out alone.
func TestSilentStream(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	s.Config.Protocols = p
	s.Start()
	defer s.Close()
	l := closed()
	l.Timeout = 50 * time.Millisecond
	if r := run(t, l, addressOf(s), `{"streams": 4}`); r.Due < 8 || r.Failed[model.CauseTimeout] != r.Due || r.Sockets != 2 {
		t.Errorf("failed %v of %d over %d sockets", r.Failed, r.Due, r.Sockets)
	}
}

func TestNginx(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	program, err := exec.LookPath("nginx")
	if err != nil {
		if _, err = os.Stat("/usr/sbin/nginx"); err != nil {
			t.Skip("no nginx: apt-get install nginx-light")
		}
		program = "/usr/sbin/nginx"
	}
	dir := t.TempDir()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	to := netip.MustParseAddrPort(ln.Addr().String())
	_ = ln.Close()
	conf := `daemon off; master_process off; pid ` + dir + `/pid; error_log ` + dir + `/log; events {}
http {
  access_log off; client_body_temp_path ` + dir + `; proxy_temp_path ` + dir + `; fastcgi_temp_path ` + dir + `; uwsgi_temp_path ` + dir + `; scgi_temp_path ` + dir + `;
  keepalive_requests 20;
  server { listen ` + to.String() + ` http2; location / { add_header ` + load.IdentityHeader + ` nginx; return 200 "hello"; } }
}`
	if err := os.WriteFile(filepath.Join(dir, "conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-c", filepath.Join(dir, "conf"), "-e", filepath.Join(dir, "log"), "-p", dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	var d net.Dialer
	for limit := time.Now().Add(5 * time.Second); ; {
		c, err := d.DialContext(t.Context(), "tcp", to.String())
		if err == nil {
			_ = c.Close()
			break
		}
		if time.Now().After(limit) {
			t.Fatal(err)
		}
	}
	for _, streams := range []string{`{"streams": 1}`, `{"streams": 32}`} {
		r := run(t, closed(), to, streams)
		if r.Succeeded < 60 || r.Succeeded != r.Due || r.Responders["nginx"] != r.Due || r.Sockets < 3 {
			t.Errorf("%s: succeeded %d of %d, failed %v, reasons %v, responders %v, %d sockets", streams, r.Succeeded, r.Due, r.Failed, r.Reasons, r.Responders, r.Sockets)
		}
	}
}
