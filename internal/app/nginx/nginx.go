// Package nginx is a real server under load: Debian's nginx, one worker.
package nginx

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// Name is the app's name in studies.
const Name = "nginx"

// Config is the app's configuration in a study.
type Config struct {
	// Path is the nginx program, where it is not to be looked for.
	Path string `json:"path,omitempty"`
	// KeepaliveRequests is how many requests a connection may carry. nginx's
	// own default of 1000 puts a reconnect exactly at the 99.9th percentile.
	KeepaliveRequests int `json:"keepalive_requests,omitempty" jsonschema:"minimum=1,default=1000000000"`
	// BodyBytes is the size of the answer.
	BodyBytes int `json:"body_bytes,omitempty" jsonschema:"minimum=0,maximum=1048576,default=16"`
}

const maxBody = 1 << 20

func parse(raw json.RawMessage) (Config, error) {
	c := Config{KeepaliveRequests: 1_000_000_000, BodyBytes: 16}
	if len(raw) == 0 {
		return c, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return c, fmt.Errorf("nginx's configuration: %w; known keys are path, keepalive_requests, body_bytes", err)
	}
	var errs []error
	if c.KeepaliveRequests < 1 {
		errs = append(errs, fmt.Errorf("nginx's keepalive_requests is %d; it must be at least 1", c.KeepaliveRequests))
	}
	if c.BodyBytes < 0 || c.BodyBytes > maxBody {
		errs = append(errs, fmt.Errorf("nginx's body_bytes is %d; it can be 0 to %d", c.BodyBytes, maxBody))
	}
	return c, errors.Join(errs...)
}

// Plugin is the catalog entry.
func Plugin() model.Plugin[model.App] {
	return model.Plugin[model.App]{
		Name: Name, Summary: "Debian's nginx, a real server to measure", Config: Config{},
		New: func(raw json.RawMessage) (model.App, error) {
			c, err := parse(raw)
			return app{c}, err
		},
	}
}

type app struct{ config Config }

var _ model.App = app{}

// Check says whether there is an nginx to run.
func (a app) Check(context.Context) error {
	_, err := a.find()
	return err
}

func (a app) find() (string, error) {
	looked := []string{a.config.Path}
	if a.config.Path == "" {
		if path, err := sys.Look("nginx"); err == nil {
			return path, nil
		}
		looked = []string{"/usr/sbin/nginx"} // not in an ordinary user's PATH
	}
	if _, err := os.Stat(looked[0]); err != nil {
		return "", &model.UnsupportedError{What: "the app nginx", Missing: "no nginx program in PATH nor at " + looked[0], Hint: "apt-get install nginx-light"}
	}
	return looked[0], nil
}

// Deploy starts one nginx in every pod of every service.
func (a app) Deploy(ctx context.Context, s model.Site) (model.Endpoints, error) {
	var all model.Endpoints
	program, err := a.find()
	if err != nil {
		return all, err
	}
	for _, svc := range s.Topology().Services {
		all.Service = svc.Name
		for _, name := range svc.Pods {
			pod, err := s.Pod(name)
			if err != nil {
				return all, err
			}
			if _, err := pod.Start(ctx, a.process(program, name, svc.TargetPort)); err != nil {
				return all, err
			}
			all.Backends = append(all.Backends, model.Backend{Pod: name, Identity: name, Addr: netip.AddrPortFrom(pod.Addr(), svc.TargetPort)})
		}
	}
	return all, nil
}

func (a app) process(program, pod string, port uint16) model.Process {
	return model.Process{
		Name: Name, Component: model.ComponentApp, Files: map[string][]byte{"nginx.conf": a.file(pod, port)},
		Command: []string{program, "-p", "{dir}", "-e", "stderr", "-c", "{dir}/nginx.conf"},
	}
}

// file is the whole configuration: no access log, everything written below
// {dir}, so that it runs as any user.
func (a app) file(pod string, port uint16) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `daemon off;
worker_processes 1;
pid {dir}/nginx.pid;
error_log stderr warn;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_temp_path {dir}/body;
  proxy_temp_path {dir}/proxy;
  fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi;
  scgi_temp_path {dir}/scgi;
  keepalive_requests %d;
  keepalive_timeout 600s;
  map $http_x_forwarded_client_cert $peer { default ""; "~URI=(?<peer_uri>[^;,]+)" $peer_uri; }
  server {
    listen 0.0.0.0:%d backlog=4096;
    add_header x-windtunnel-identity %s always;
    add_header x-windtunnel-peer $peer always;
    location / { default_type text/plain; %s }
  }
}
`, a.config.KeepaliveRequests, port, pod, answer(a.config.BodyBytes))
	if os.Getuid() == 0 {
		return []byte("user root;\n" + b.String()) // the private folder is root's
	}
	return []byte(b.String())
}

// answer is what makes a body of n bytes. nginx's configuration takes at most
// 4,096 bytes in one word, so long bodies are put together of pieces.
func answer(n int) string {
	const piece = 4000
	rest := strings.Repeat("w", n%piece)
	if n < piece {
		return `return 200 "` + rest + `";`
	}
	return fmt.Sprintf(`set $w "%s"; set $r "%s"; return 200 "$r%s";`, strings.Repeat("w", piece), rest, strings.Repeat("$w", n/piece))
}
