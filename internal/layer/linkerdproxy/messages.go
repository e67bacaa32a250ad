package linkerdproxy

import (
	"encoding/binary"
	"net/netip"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// message is one of Linkerd's proxy API, version 0.13 and later, encoded. The
// tests hold the part of the API that is used here, with its names.
type message []byte

func (m message) raw(n protowire.Number, b []byte) message {
	return protowire.AppendBytes(protowire.AppendTag(m, n, protowire.BytesType), b)
}
func (m message) text(n protowire.Number, s string) message     { return m.raw(n, []byte(s)) }
func (m message) sub(n protowire.Number, inner message) message { return m.raw(n, inner) }
func (m message) number(n protowire.Number, v uint64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, n, protowire.VarintType), v)
}

func (m message) label(n protowire.Number, key, value string) message {
	return m.sub(n, message{}.text(1, key).text(2, value))
}

// present is a message that says something by being there.
func present() message { return message{} }

// What Linkerd's control plane tells proxies where nobody has asked for anything
// else.
const (
	detectTimeout   = 10 * time.Second
	queueCapacity   = 100
	failfastTimeout = 3 * time.Second
	defaultRTT      = 30 * time.Millisecond
	decay           = 10 * time.Second
)

// duration is google.protobuf.Duration.
func duration(d time.Duration) message {
	m := message{}
	if s := d / time.Second; s > 0 {
		m = m.number(1, uint64(s))
	}
	if n := d % time.Second; n > 0 {
		m = m.number(2, uint64(n))
	}
	return m
}

// metadata names an implicit configuration.
func metadata(name string) message { return message{}.text(1, name) }

// ip is an IPv4 address.
func ip(a netip.Addr) message {
	v4 := a.As4()
	return protowire.AppendFixed32(protowire.AppendTag(nil, 1, protowire.Fixed32Type), binary.BigEndian.Uint32(v4[:]))
}

// endpoint is a pod's port: weight 1, mutual TLS with the identity of servers,
// and, of HTTP, one connection of HTTP/2 between sidecars for all requests.
func endpoint(addr netip.AddrPort, opaque bool) message {
	const plenty = 10_000 // Linkerd's unit of weight
	server := message{}.text(1, identity(roleServer))
	hint := message{}.sub(1, present())
	if opaque {
		hint = message{}.sub(3, present())
	}
	return message{}.
		sub(1, message{}.sub(1, ip(addr.Addr())).number(2, uint64(addr.Port()))).
		number(3, plenty).
		sub(5, message{}.sub(1, server).sub(4, server)).
		sub(6, hint)
}

// roleServer is the role of services' pods.
const roleServer = "server"

// profileOf is a destination's: a service's has its name, a pod's the endpoint.
func profileOf(name string, endpoint message, opaque bool) message {
	m := message{}
	if opaque {
		m = m.number(4, 1)
	}
	if name != "" {
		m = m.text(5, name)
	}
	if endpoint != nil {
		m = m.sub(6, endpoint)
	}
	return m
}

// added are a service's endpoints.
func added(endpoints []message) message {
	set := message{}
	for _, e := range endpoints {
		set = set.sub(1, e)
	}
	return message{}.sub(1, set)
}

// noEndpoints says that there is no such service.
func noEndpoints() message { return message{}.sub(3, present()) }

// outboundPolicy sends everything to a service's endpoints, by the peak EWMA of
// their latency. What is said of the protocol is nothing, unless it is opaque.
func outboundPolicy(s service) message {
	meta := metadata("service")
	backend := message{}.
		sub(1, meta).
		sub(3, message{}.
			sub(1, message{}.sub(1, message{}.text(1, authority(s)))).
			sub(2, message{}.sub(1, duration(defaultRTT)).sub(2, duration(decay)))).
		sub(4, message{}.number(1, queueCapacity).sub(2, duration(failfastTimeout)))
	first := message{}.sub(2, message{}.sub(1, message{}.sub(1, backend)))
	everything := message{}.sub(1, message{}.text(2, "/"))
	http := message{}.sub(1, message{}.sub(1, meta).sub(3, message{}.sub(1, everything).sub(3, first)))
	opaque := message{}.sub(1, message{}.sub(1, meta).sub(3, message{}.sub(1, first)))
	protocol := message{}.sub(1, message{}.sub(1, duration(detectTimeout)).sub(2, opaque).sub(3, http).sub(4, http))
	if s.opaque {
		protocol = message{}.sub(2, opaque)
	}
	return message{}.sub(1, protocol).sub(2, meta)
}

// serverPolicy lets everybody in, or everybody who proves an identity.
func serverPolicy(opaque, authenticated bool) message {
	name := string(Unauthenticated)
	permit := message{}.sub(1, present())
	if authenticated {
		name = string(Authenticated)
		anybody := message{}.sub(2, present()) // a suffix of no parts is of all names
		permit = message{}.sub(2, message{}.sub(2, anybody))
	}
	labels := func(m message, n protowire.Number) message {
		return m.label(n, "group", "").label(n, "kind", "default").label(n, "name", name)
	}
	everywhere := message{}.sub(1, message{}.sub(1, ip(netip.IPv4Unspecified())))
	authorization := labels(message{}.sub(1, everywhere).sub(2, permit), 3).sub(4, metadata(name))
	protocol := message{}.sub(1, message{}.sub(1, duration(detectTimeout)))
	if opaque {
		protocol = message{}.sub(2, present())
	}
	return labels(message{}.sub(1, protocol).sub(3, authorization), 4)
}

// certificate is the answer to a request for one, in DER.
func certificate(der []byte, until time.Time) message {
	return message{}.raw(1, der).sub(3, message{}.number(1, uint64(until.Unix()))) //nolint:gosec // after 1970
}
