package proxy

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/url"
	"time"
)

// CertLife is longer than any trial, and short enough to be worthless later.
const CertLife = 24 * time.Hour

// CA is a certificate authority of one deployment alone. Its key is never
// written anywhere.
type CA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// NewCA makes one; name is its common name, dns is by which its certificate can
// be asked for.
func NewCA(name string, dns ...string) (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of %s: %w", name, err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: dns,
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(CertLife),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("making the certificate of %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of %s: %w", name, err)
	}
	return &CA{cert: cert, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: der})}, nil
}

const certificateBlock = "CERTIFICATE"

// PEM is its own certificate.
func (a *CA) PEM() []byte { return a.pem }

// Issued says who a certificate is of. The common name is cut by nobody: at most
// 64 bytes, as X.509 has it. A certificate with a URI alone has none.
type Issued struct {
	Common string
	DNS    []string
	URI    *url.URL
}

// name is what errors call it.
func (i Issued) name() string {
	if i.Common == "" && i.URI != nil {
		return i.URI.String()
	}
	return i.Common
}

// Sign makes a certificate for a public key, as DER, and says until when it is
// good.
func (a *CA) Sign(who Issued, public crypto.PublicKey) (der []byte, until time.Time, err error) {
	const positive = 0x7f
	serial := make([]byte, 16)
	if _, err = rand.Read(serial); err != nil {
		return nil, until, fmt.Errorf("making the certificate of %s: %w", who.name(), err)
	}
	serial[0] &= positive
	template := &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial), Subject: pkix.Name{CommonName: who.Common}, DNSNames: who.DNS,
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(CertLife).Truncate(time.Second),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	if who.URI != nil {
		template.URIs = []*url.URL{who.URI}
	}
	if der, err = x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key); err != nil {
		return nil, until, fmt.Errorf("making the certificate of %s: %w", who.name(), err)
	}
	return der, template.NotAfter, nil
}

// Leaf makes a key and its certificate, as PEM.
func (a *CA) Leaf(who Issued) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making the key of %s: %w", who.name(), err)
	}
	der, _, err := a.Sign(who, &private.PublicKey)
	if err != nil {
		return nil, nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the key of %s: %w", who.name(), err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), nil
}
