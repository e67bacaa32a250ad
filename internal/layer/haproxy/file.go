package haproxy

import (
	"fmt"
	"strings"
)

const configFile = "haproxy.cfg"

// trustDomain begins every identity here.
const trustDomain = "windtunnel.local"

// caName is the common name of a deployment's CA, and its DNS name.
const caName = "ca." + trustDomain

// identity is who a sidecar is to the app that is told. HAProxy cannot tell an
// app the URI of a certificate, so the common name holds it.
func identity(role string) string { return "spiffe://" + trustDomain + "/ns/default/sa/" + role }

// serverName is what a sidecar's certificate is checked for.
func serverName(role string) string { return role + "." + trustDomain }

// The names of frontends and backends; counters are kept by them. What a client
// sends by HTTP/2 has a backend of its own, as HAProxy would else send it on by
// HTTP/1.1.
const (
	outbound = "out:"
	inbound  = "in:"
	overH2   = ":h2"
)

// file is a sidecar's whole configuration. Connections may be idle for an hour,
// as with Envoy; there is no access log.
func (l *Layer) file(sc *sidecar) string {
	var b strings.Builder
	add := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	add("global")
	add("  maxconn 8192")
	add("  nbthread %d", l.config.Concurrency)
	add("  stats socket ipv4@127.0.0.1:%d level admin", portAdmin)
	add("defaults")
	add("  timeout connect 10s")
	add("  timeout client 1h")
	add("  timeout server 1h")
	add("  retries %d", l.config.Retries)
	add("  option redispatch")
	if l.config.outbound() {
		for i, svc := range l.services {
			l.send(add, i, svc)
		}
	}
	if l.config.inbound() {
		for i, svc := range sc.own {
			l.receive(add, i, svc)
		}
	}
	return b.String()
}

// writer adds a line.
type writer func(format string, a ...any)

// frontend begins one: where it listens, and which backend is for what.
func (s service) frontend(add writer, name, listen string, more ...string) {
	add("frontend %s", name)
	add("  bind %s", listen)
	add("  mode %s", s.mode())
	for _, line := range more {
		add("  %s", line)
	}
	if s.http {
		add("  use_backend %s if { fc_http_major 2 }", name+overH2)
	}
	add("  default_backend %s", name)
}

func (s service) mode() string {
	if s.http {
		return "http"
	}
	return "tcp"
}

// send writes what takes a client's requests to a service.
func (l *Layer) send(add writer, i int, svc service) {
	name := outbound + svc.Name
	svc.frontend(add, name, fmt.Sprintf("127.0.0.1:%d", portOutbound+i))
	add("backend %s", name)
	add("  mode %s", svc.mode())
	add("  balance %s", l.config.algorithm())
	h := l.config.Health
	if h.Path != "" && svc.http {
		add("  option httpchk GET %s HTTP/1.1", h.Path)
		add("  http-check send hdr Host %s", svc.Name)
	}
	for _, pod := range svc.Endpoints {
		add("  server %s %s:%d check inter %s fall %d rise %d%s", pod.Name(), pod.Addr(), svc.TargetPort, h.milliseconds(), h.Fall, h.Rise, l.prove("http/1.1", svc.http))
	}
	if !svc.http {
		return
	}
	add("backend %s", name+overH2)
	add("  mode http")
	add("  balance %s", l.config.algorithm())
	for _, pod := range svc.Endpoints {
		add("  server %s %s:%d proto h2 track %s/%s%s", pod.Name(), pod.Addr(), svc.TargetPort, name, pod.Name(), l.prove("h2", true))
	}
}

// milliseconds is the interval as HAProxy reads it; parse has checked it.
func (h Health) milliseconds() string {
	every, err := h.Interval.Value()
	if err != nil {
		return "2s"
	}
	return fmt.Sprintf("%dms", max(every.Milliseconds(), 1))
}

// prove makes a client's sidecar use mutual TLS; servers have the role server.
func (l *Layer) prove(protocol string, http bool) string {
	if l.ca == nil {
		return ""
	}
	name := serverName(roleServer)
	tls := " ssl verify required ca-file {dir}/ca.pem crt {dir}/own.pem ssl-min-ver TLSv1.3 verifyhost " + name + " sni str(" + name + ")"
	if http {
		tls += " alpn " + protocol
	}
	return tls
}

// roleServer is the role of services' pods.
const roleServer = "server"

// receive writes what takes requests into the pod. The app is told who the
// client proved to be, and nothing that the client says of that itself.
func (l *Layer) receive(add writer, i int, svc service) {
	name := fmt.Sprintf("%s%d", inbound, svc.TargetPort)
	listen := fmt.Sprintf("0.0.0.0:%d", portInbound+i)
	var more []string
	if svc.http {
		more = append(more, "http-request del-header X-Forwarded-Client-Cert")
	}
	if l.ca != nil {
		listen += " ssl crt {dir}/own.pem ca-file {dir}/ca.pem verify required ssl-min-ver TLSv1.3"
		if svc.http {
			listen += " alpn h2,http/1.1"
			more = append(more, "http-request set-header X-Forwarded-Client-Cert URI=%[ssl_c_s_dn(CN)]")
		}
	}
	svc.frontend(add, name, listen, more...)
	add("backend %s", name)
	add("  mode %s", svc.mode())
	add("  server app 127.0.0.1:%d", svc.TargetPort)
	if svc.http {
		add("backend %s", name+overH2)
		add("  mode http")
		add("  server app 127.0.0.1:%d proto h2", svc.TargetPort)
	}
}
