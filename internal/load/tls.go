package load

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/windtunnel/windtunnel/internal/model"
)

// PeerOf is the peer of a load: with TLS if the load asks for it.
func PeerOf(l model.Load, p Protocol, authority string, targets []netip.AddrPort) (Peer, error) {
	peer := Peer{Authority: authority, Targets: targets, Timeout: l.Timeout}
	if len(targets) == 0 {
		return peer, errors.New("no target")
	}
	if l.TLS == nil {
		return peer, nil
	}
	c := &tls.Config{ServerName: l.TLS.ServerName, InsecureSkipVerify: l.TLS.Insecure} //nolint:gosec // G402: where the study asks for it
	if c.ServerName == "" {
		c.ServerName = authority
		if host, _, err := net.SplitHostPort(authority); err == nil {
			c.ServerName = host
		}
	}
	if l.TLS.CA != "" {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM([]byte(l.TLS.CA)) {
			return peer, fmt.Errorf("the CA of load %s holds no certificate in PEM", l.Name)
		}
	}
	if s, ok := p.(Secure); ok {
		c.NextProtos = s.ALPN()
	}
	peer.TLS = c
	return peer, nil
}
