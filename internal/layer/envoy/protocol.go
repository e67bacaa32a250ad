package envoy

import "github.com/windtunnel/windtunnel/internal/proxy"

// asAsked lets a cluster use the HTTP version in which the request has come, as
// Istio does for services of HTTP: gRPC stays HTTP/2 on all of its way. By ALPN
// a connection then says what is spoken on it.
func asAsked() object {
	const options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
	return object{options: proxy.Typed(options, object{
		"use_downstream_protocol_config": object{"http_protocol_options": object{}, "http2_protocol_options": object{}},
	})}
}
