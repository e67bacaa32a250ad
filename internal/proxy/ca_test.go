package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
)

func TestCA(t *testing.T) {
	t.Parallel()
	ca, err := NewCA("ca.windtunnel.local", "ca.windtunnel.local")
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewCA("ca.windtunnel.local", "ca.windtunnel.local")
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := ca.Leaf(Issued{Common: "spiffe://windtunnel.local/ns/default/sa/server", DNS: []string{"server.windtunnel.local"}})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	verify := func(by *CA, name string) error {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(by.PEM())
		_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		return err
	}
	if err := verify(ca, "server.windtunnel.local"); err != nil {
		t.Error(err)
	}
	if verify(ca, "client.windtunnel.local") == nil || verify(other, "server.windtunnel.local") == nil {
		t.Error("a certificate holds for another name, or under another authority")
	}
}
