package pki

import (
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/test/kubelab/internal/plan"
)

func folder(t *testing.T, now time.Time) (string, plan.Cluster) {
	t.Helper()
	lab, err := plan.New("kubelab", []int{2})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "pki")
	if err := Ensure(dir, lab.Clusters[0], now); err != nil {
		t.Fatal(err)
	}
	return dir, lab.Clusters[0]
}

func leaf(t *testing.T, dir, name string) *x509.Certificate {
	t.Helper()
	pair, err := Read(dir, name)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return cert.Leaf
}

func TestCertificatesVerify(t *testing.T) {
	t.Parallel()
	now := time.Now()
	dir, c := folder(t, now)
	roots := x509.NewCertPool()
	roots.AddCert(leaf(t, dir, CA))
	for name, user := range map[string]string{
		Admin: "admin", Controllers: "system:kube-controller-manager", Scheduler: "system:kube-scheduler",
		Proxy: "system:kube-proxy", Kubelet + "a1": "system:node:a1", Kubelet + "a2": "system:node:a2",
	} {
		cert := leaf(t, dir, name)
		if _, err := cert.Verify(x509.VerifyOptions{
			Roots: roots, CurrentTime: now.Add(24 * time.Hour), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if cert.Subject.CommonName != user {
			t.Errorf("%s is of %s", name, cert.Subject)
		}
	}
	server := leaf(t, dir, APIServer)
	for _, host := range []string{"kubernetes.default.svc", c.API.String(), c.Router.Addr().String(), "127.0.0.1"} {
		if _, err := server.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
			t.Errorf("the API server as %s: %v", host, err)
		}
	}
	if groups := leaf(t, dir, Admin).Subject.Organization; len(groups) != 1 || groups[0] != "system:masters" {
		t.Errorf("groups of admin: %v", groups)
	}
	if leaf(t, dir, Proxy).Subject.Organization != nil {
		t.Error("the proxy has a group")
	}
}

func TestEnsureKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	dir, c := folder(t, time.Now())
	before := leaf(t, dir, Admin)
	if err := Ensure(dir, c, time.Now()); err != nil {
		t.Fatal(err)
	}
	if !leaf(t, dir, Admin).Equal(before) {
		t.Error("the certificates were made anew")
	}
}
