package linkerdproxy

import (
	"context"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/proxy"
)

// The methods of Linkerd's control plane that proxies call.
const (
	methodCertify = "/io.linkerd.proxy.identity.Identity/Certify"
	methodProfile = "/io.linkerd.proxy.destination.Destination/GetProfile"
	methodGet     = "/io.linkerd.proxy.destination.Destination/Get"
	methodPort    = "/io.linkerd.proxy.inbound.InboundServerPolicies/WatchPort"
	methodWatch   = "/io.linkerd.proxy.outbound.OutboundPolicies/Watch"
)

// The status codes of gRPC that this server answers with.
const (
	grpcOK            = 0
	grpcInvalid       = 3
	grpcNotFound      = 5
	grpcDenied        = 7
	grpcUnimplemented = 12
	grpcInternal      = 13
)

// control is the control plane as one pod's proxy sees it: on that pod's loopback,
// so that no other can be taken for it. Nothing changes while a layer is deployed:
// what is watched is answered once, and then held open.
type control struct {
	identity string
	services []service
	ca       *proxy.CA
	policy   Policy
	server   *http.Server
	ended    chan error
}

// patience is how long a request may take to come in.
const patience = 10 * time.Second

// listen starts serving in the pod.
func (c *control) listen(ctx context.Context, where model.Namespace) error {
	var l net.Listener
	err := where.InNetwork(func() (err error) {
		l, err = (&net.ListenConfig{}).Listen(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", portControl))
		return err
	})
	if err != nil {
		return fmt.Errorf("starting its control plane: %w", err)
	}
	c.server = &http.Server{Handler: c, ReadHeaderTimeout: patience, Protocols: new(http.Protocols)}
	c.server.Protocols.SetUnencryptedHTTP2(true)
	c.ended = make(chan error, 1)
	go func() { c.ended <- c.server.Serve(l) }()
	return nil
}

// close ends all calls. There may be none: not everything has been started.
func (c *control) close() error {
	if c == nil || c.server == nil {
		return nil
	}
	err := c.server.Close()
	if failure := <-c.ended; !errors.Is(failure, http.ErrServerClosed) {
		err = errors.Join(err, failure)
	}
	c.server = nil
	if err != nil {
		return fmt.Errorf("ending its control plane: %w", err)
	}
	return nil
}

// ServeHTTP answers a call.
func (c *control) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "application/grpc")
	finish := func(status int) { h.Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(status)) }
	request, err := readMessage(r.Body)
	if err != nil {
		finish(grpcInvalid)
		return
	}
	answer, status := c.answer(r.URL.Path, request)
	if status != grpcOK {
		finish(status)
		return
	}
	if _, err = w.Write(frame(answer)); err != nil {
		return // the proxy is gone
	}
	if r.URL.Path != methodCertify { // the others are watched
		if err = http.NewResponseController(w).Flush(); err == nil {
			<-r.Context().Done()
		}
	}
	finish(grpcOK)
}

// answer is what a method says, and gRPC's status.
func (c *control) answer(method string, request []byte) (answer message, status int) {
	fields, err := parseFields(request)
	if err != nil {
		return nil, grpcInvalid
	}
	switch method {
	case methodCertify:
		return c.certify(fields)
	case methodProfile:
		return c.profile(fields.text(2)), grpcOK
	case methodGet:
		return c.endpoints(fields.text(2)), grpcOK
	case methodPort:
		return c.serverPolicy(fields.number(2)), grpcOK
	case methodWatch:
		return c.outbound(fields)
	}
	return nil, grpcUnimplemented
}

// certify signs a certificate request, if it is of the pod's own identity.
func (c *control) certify(request fields) (answer message, status int) {
	csr, err := x509.ParseCertificateRequest(request.bytes(3))
	if err != nil || csr.CheckSignature() != nil {
		return nil, grpcInvalid
	}
	if request.text(1) != c.identity || !slices.Equal(csr.DNSNames, []string{c.identity}) {
		return nil, grpcDenied
	}
	der, until, err := c.ca.Sign(proxy.Issued{Common: "", DNS: csr.DNSNames}, csr.PublicKey)
	if err != nil {
		return nil, grpcInternal
	}
	return certificate(der, until), grpcOK
}

// profile says what an address is: a service's, a pod's, or nothing known.
func (c *control) profile(target string) message {
	addr, err := netip.ParseAddrPort(target)
	if err != nil {
		return profileOf("", nil, false)
	}
	if svc := c.at(addr); svc != nil {
		return profileOf(dnsName(*svc), nil, svc.opaque)
	}
	if svc := c.pod(addr); svc != nil {
		return profileOf("", endpoint(addr, svc.opaque), svc.opaque)
	}
	return profileOf("", nil, false)
}

// endpoints are a service's, by its name and port.
func (c *control) endpoints(target string) message {
	for _, svc := range c.services {
		if target == authority(svc) {
			var all []message
			for _, pod := range svc.Endpoints {
				all = append(all, endpoint(netip.AddrPortFrom(pod.Addr(), svc.TargetPort), svc.opaque))
			}
			return added(all)
		}
	}
	return noEndpoints()
}

// outbound is the policy of what a pod sends to an address.
func (c *control) outbound(request fields) (answer message, status int) {
	addr, ok := parseAddress(request.bytes(2))
	if !ok {
		addr, ok = c.named(request.text(3))
	}
	svc := c.at(addr)
	if !ok || svc == nil {
		return nil, grpcNotFound // the proxy then goes by the profile
	}
	return outboundPolicy(*svc), grpcOK
}

// named is the address of a service that is asked for by its name and port.
func (c *control) named(target string) (netip.AddrPort, bool) {
	for _, svc := range c.services {
		if target == authority(svc) {
			return netip.AddrPortFrom(svc.VIP, svc.Port), true
		}
	}
	return netip.AddrPort{}, false
}

// serverPolicy says who may come in by a port.
func (c *control) serverPolicy(port uint64) message {
	authenticated := c.policy == Authenticated && port != portAdmin
	opaque := slices.ContainsFunc(c.services, func(s service) bool { return s.opaque && uint64(s.TargetPort) == port })
	return serverPolicy(opaque, authenticated)
}

// at is the service with a virtual address.
func (c *control) at(addr netip.AddrPort) *service {
	i := slices.IndexFunc(c.services, func(s service) bool { return addr == netip.AddrPortFrom(s.VIP, s.Port) })
	if i < 0 {
		return nil
	}
	return &c.services[i]
}

// pod is the service of which an address is an endpoint.
func (c *control) pod(addr netip.AddrPort) *service {
	i := slices.IndexFunc(c.services, func(s service) bool {
		return s.TargetPort == addr.Port() && slices.ContainsFunc(s.Endpoints, func(p model.Pod) bool { return p.Addr() == addr.Addr() })
	})
	if i < 0 {
		return nil
	}
	return &c.services[i]
}

// dnsName is a service's in DNS, authority with its port.
func dnsName(s service) string { return s.Name + ".default.svc." + trustDomain }

func authority(s service) string { return dnsName(s) + ":" + strconv.Itoa(int(s.Port)) }

// maxRequest bounds a request; the largest is a certificate's.
const maxRequest = 64 << 10

// prefixBytes come before each message of gRPC: whether it is compressed, and
// its length.
const prefixBytes = 5

// readMessage reads a call's only message.
func readMessage(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxRequest+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > maxRequest:
		return nil, errors.New("the request is too large")
	case len(b) < prefixBytes || b[0] != 0 || int(binary.BigEndian.Uint32(b[1:])) != len(b)-prefixBytes:
		return nil, errors.New("the request is not one message that is not compressed")
	}
	return b[prefixBytes:], nil
}

// frame puts the prefix before a message.
func frame(m message) []byte {
	b := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(m))) //nolint:gosec // of so many endpoints at most
	return append(b, m...)
}

// fields are the values of a message's fields, the last of each number.
type fields map[protowire.Number]any

func parseFields(b []byte) (fields, error) {
	all := fields{}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		b = b[n:]
		switch kind {
		case protowire.VarintType:
			var v uint64
			if v, n = protowire.ConsumeVarint(b); n >= 0 {
				all[number] = v
			}
		case protowire.Fixed32Type:
			var v uint32
			if v, n = protowire.ConsumeFixed32(b); n >= 0 {
				all[number] = uint64(v)
			}
		case protowire.BytesType:
			var v []byte
			if v, n = protowire.ConsumeBytes(b); n >= 0 {
				all[number] = v
			}
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		b = b[n:]
	}
	return all, nil
}

// The values of a field; zero ones, if there is none of that kind.
func (f fields) bytes(n protowire.Number) []byte  { b, _ := f[n].([]byte); return b }
func (f fields) number(n protowire.Number) uint64 { v, _ := f[n].(uint64); return v }
func (f fields) text(n protowire.Number) string   { return strings.ToValidUTF8(string(f.bytes(n)), "") }

// parseAddress reads a TCP address of IPv4.
func parseAddress(b []byte) (addr netip.AddrPort, ok bool) {
	outer, err := parseFields(b)
	if err != nil {
		return addr, false
	}
	inner, err := parseFields(outer.bytes(1))
	v4, known := inner[1].(uint64)
	port := outer.number(2)
	const mostPort = 65535
	if err != nil || !known || port > mostPort {
		return addr, false
	}
	var raw [4]byte
	binary.BigEndian.PutUint32(raw[:], uint32(v4)) //nolint:gosec // it was fixed32, or it is cut
	return netip.AddrPortFrom(netip.AddrFrom4(raw), uint16(port)), true
}
