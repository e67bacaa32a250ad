package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/sys"
)

// Ports of the servers.
const (
	portHTTP   = 8080
	portStatus = 8081
	portStream = 5201
)

// server is a running server that counts what it has been asked.
type server struct {
	*process
	url   string
	count func(context.Context) (uint64, error)
	// stamps are when requests have arrived, in nanoseconds; nil: it does not say.
	stamps func() ([]int64, error)
	// close ends it.
	close func(context.Context) error
}

// fast is startFast for later.
func (b *bed) fast(ctx context.Context, mode string) func() (*server, error) {
	return func() (*server, error) { return b.startFast(ctx, mode) }
}

// nginx is startNginx for later.
func (b *bed) nginx(ctx context.Context) func() (*server, error) {
	return func() (*server, error) { return b.startNginx(ctx) }
}

// startFast starts the fast server in one of its modes.
func (b *bed) startFast(ctx context.Context, mode string) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	addr := b.at(portHTTP)
	p, err := b.start(serverSide, true, self, commandServe, mode, addr.String())
	if err != nil {
		return nil, err
	}
	answers := json.NewDecoder(bufio.NewReaderSize(p.Stream(), 1<<20))
	ask := func(question string, answer any) error {
		if _, err := p.Stream().Write([]byte(question + "\n")); err != nil {
			return fmt.Errorf("asking the fast server: %w", err)
		}
		if err := answers.Decode(answer); err != nil {
			return fmt.Errorf("asking the fast server: %w", err)
		}
		return nil
	}
	s := &server{process: p, url: "http://" + addr.String() + "/"}
	s.count = func(context.Context) (n uint64, err error) { err = ask(askCount, &n); return n, err }
	if mode == modeStamps {
		s.stamps = func() (all []int64, err error) { err = ask(askStamps, &all); return all, err }
	}
	s.close = func(ctx context.Context) error { return b.end(ctx, p) }
	return s, b.listening(ctx, addr)
}

// nginxConfig is one worker that gives one short answer. It is asked for its
// counter at a port of its own.
const nginxConfig = `%sworker_processes 1;
daemon off;
pid %[2]s/nginx.pid;
error_log stderr warn;
events { worker_connections 4096; }
http {
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path %[2]s/body; proxy_temp_path %[2]s/proxy; fastcgi_temp_path %[2]s/fastcgi;
  uwsgi_temp_path %[2]s/uwsgi; scgi_temp_path %[2]s/scgi;
  server { listen %[3]s; location / { return 200 "hello, world! 0123456789\n"; } }
  server { listen %[4]s; location / { stub_status; } }
}
`

// startNginx starts nginx.
func (b *bed) startNginx(ctx context.Context) (*server, error) {
	program, err := findProgram([]string{"/usr/sbin"}, "nginx")
	if err != nil {
		return nil, err
	}
	// Inside the lab this process is root, if only of a user namespace.
	config, err := b.file("nginx.conf", fmt.Sprintf(nginxConfig, "user root;\n", b.dir, b.at(portHTTP), b.at(portStatus)))
	if err != nil {
		return nil, err
	}
	p, err := b.start(serverSide, false, program, "-p", b.dir, "-e", "stderr", "-c", config)
	if err != nil {
		return nil, err
	}
	s := &server{process: p, url: "http://" + b.at(portHTTP).String() + "/", close: func(ctx context.Context) error { return b.end(ctx, p) }}
	if err = b.listening(ctx, b.at(portStatus)); err != nil {
		return s, err
	}
	status, err := b.dial(ctx, b.at(portStatus))
	if err != nil {
		return s, err
	}
	asked, lines := uint64(0), bufio.NewReader(status)
	s.count = func(context.Context) (uint64, error) {
		asked++ // nginx counts the question, too
		n, err := nginxCount(status, lines)
		return n - asked, err
	}
	s.close = func(ctx context.Context) error {
		_ = status.Close() // nothing was written to a file
		return b.end(ctx, p)
	}
	return s, nil
}

// nginxCount asks for ngx_http_stub_status_module's page, whose third line is
// "accepts handled requests", and returns the requests.
func nginxCount(c net.Conn, lines *bufio.Reader) (requests uint64, err error) {
	if _, err = c.Write([]byte("GET / HTTP/1.1\r\nHost: status\r\n\r\n")); err != nil {
		return 0, fmt.Errorf("asking nginx: %w", err)
	}
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return 0, fmt.Errorf("asking nginx: %w", err)
		}
		if strings.HasPrefix(line, "Reading:") { // the page's last line
			return requests, nil
		}
		var accepts, handled uint64
		if n, err := fmt.Sscan(line, &accepts, &handled, &requests); err != nil && n == 0 {
			continue
		}
	}
}

// dial connects from the server's side, which no client notices.
func (b *bed) dial(ctx context.Context, addr netip.AddrPort) (c net.Conn, err error) {
	err = b.server.Do(func() error {
		c, err = (&net.Dialer{}).DialContext(ctx, "tcp4", addr.String())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to a server: %w", err)
	}
	return c, nil
}

// listening waits until the server answers its port.
func (b *bed) listening(ctx context.Context, addr netip.AddrPort) error {
	const every, tries = 10 * time.Millisecond, 500
	for try := 0; ; try++ {
		c, err := b.dial(ctx, addr)
		if err == nil {
			return c.Close()
		}
		if try == tries {
			return err
		}
		if err := sys.Sleep(ctx, every); err != nil {
			return err
		}
	}
}
