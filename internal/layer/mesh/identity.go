package mesh

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

// identity makes what Linkerd's chart cannot make by itself: a trust anchor and
// an issuer below it (ECDSA P-256), for as long as a run may last. The anchor's
// key is thrown away.
func identity() (map[string]any, error) {
	const life = 30 * 24 * time.Hour
	now := time.Now()
	template := func(serial int64, name string) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
			NotBefore: now.Add(-time.Hour), NotAfter: now.Add(life), // clocks differ
			IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		}
	}
	anchorKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of Linkerd's trust anchor: %w", err)
	}
	issuerKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of Linkerd's issuer: %w", err)
	}
	anchor := template(1, "root.linkerd.cluster.local")
	anchorDER, err := x509.CreateCertificate(rand.Reader, anchor, anchor, anchorKey.Public(), anchorKey)
	if err != nil {
		return nil, fmt.Errorf("making Linkerd's trust anchor: %w", err)
	}
	issuer := template(2, "identity.linkerd.cluster.local")
	issuer.MaxPathLenZero = true
	issuerDER, err := x509.CreateCertificate(rand.Reader, issuer, anchor, issuerKey.Public(), anchorKey)
	if err != nil {
		return nil, fmt.Errorf("making Linkerd's issuer: %w", err)
	}
	key, err := x509.MarshalECPrivateKey(issuerKey)
	if err != nil {
		return nil, fmt.Errorf("encoding the key of Linkerd's issuer: %w", err)
	}
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return map[string]any{
		"identityTrustAnchorsPEM": text("CERTIFICATE", anchorDER),
		"identity": map[string]any{"issuer": map[string]any{"tls": map[string]any{
			"crtPEM": text("CERTIFICATE", issuerDER), "keyPEM": text("EC PRIVATE KEY", key),
		}}},
	}, nil
}
