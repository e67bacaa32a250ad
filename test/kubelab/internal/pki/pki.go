// Package pki makes the keys and certificates of a cluster.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// life is longer than any lab's.
const life = 10 * 365 * 24 * time.Hour

// Authority signs a cluster's certificates.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
	now  time.Time
}

// Pair is a certificate and its key, as PEM.
type Pair struct{ Cert, Key []byte }

// New makes a certificate authority.
func New(name string, now time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of the authority %s: %w", name, err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(life),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing the certificate of the authority %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of the authority %s: %w", name, err)
	}
	return &Authority{cert: cert, key: key, pem: encode("CERTIFICATE", der), now: now}, nil
}

// Pair is the authority's own certificate and key.
func (a *Authority) Pair() (Pair, error) {
	key, err := encodeKey(a.key)
	return Pair{Cert: a.pem, Key: key}, err
}

// Client makes a client's certificate: Kubernetes reads the user's name from
// the common name and the groups from the organizations.
func (a *Authority) Client(user string, groups ...string) (Pair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// Server makes a server's certificate.
func (a *Authority) Server(name string, dns []string, addresses []net.IP) (Pair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    dns,
		IPAddresses: addresses,
	})
}

func (a *Authority) issue(template *x509.Certificate) (Pair, error) {
	name := template.Subject.CommonName
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("making the key of %s: %w", name, err)
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return Pair{}, fmt.Errorf("making the serial number of %s: %w", name, err)
	}
	template.NotBefore, template.NotAfter = a.now.Add(-time.Hour), a.now.Add(life)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("signing the certificate of %s: %w", name, err)
	}
	keyPEM, err := encodeKey(key)
	return Pair{Cert: encode("CERTIFICATE", der), Key: keyPEM}, err
}

// SigningKey makes a key pair without a certificate: Cert is the public key.
// Service accounts' tokens are signed with it.
func SigningKey() (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("making the key of the service accounts: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return Pair{}, fmt.Errorf("writing the public key of the service accounts: %w", err)
	}
	keyPEM, err := encodeKey(key)
	return Pair{Cert: encode("PUBLIC KEY", public), Key: keyPEM}, err
}

// Write writes NAME.crt and NAME.key into a folder.
func (p Pair) Write(dir, name string) error {
	for ext, data := range map[string][]byte{".crt": p.Cert, ".key": p.Key} {
		if err := os.WriteFile(filepath.Join(dir, name+ext), data, 0o600); err != nil {
			return fmt.Errorf("writing the certificate of %s: %w", name, err)
		}
	}
	return nil
}

// Read reads what Write wrote.
func Read(dir, name string) (p Pair, err error) {
	if p.Cert, err = os.ReadFile(filepath.Join(dir, name+".crt")); err == nil {
		p.Key, err = os.ReadFile(filepath.Join(dir, name+".key"))
	}
	if err != nil {
		return Pair{}, fmt.Errorf("reading the certificate of %s: %w", name, err)
	}
	return p, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("writing a private key: %w", err)
	}
	return encode("PRIVATE KEY", der), nil
}
