package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// istio is the folder of the images and charts that test/istio builds.
func istio(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("WINDTUNNEL_E2E_ISTIO")
	if dir == "" {
		t.Skip("needs Istio's images: make e2e-istio builds them and runs this")
	}
	return dir
}

// Istio's own control plane takes pods by its own webhook, and what its proxies
// do is seen: see test/istio for what of it is not Istio's.
func TestIstio(t *testing.T) { //nolint:paralleltest // the clusters share this host
	dir := istio(t)
	l := newLab(t)
	for _, image := range []string{"pilot", "proxyv2"} {
		l.do(l.kubelab, "load", filepath.Join(dir, image+".tar"))
	}
	text, err := os.ReadFile("../istio/study.yaml")
	if err != nil {
		t.Fatal(err)
	}
	study := strings.Replace(string(text), "chart: bin/istio/charts", "chart: "+filepath.Join(dir, "charts"), 1)
	l.do(l.windtunnel, "run", l.study(study), "--quiet", "--out", run)
	l.good(16)
	l.has(
		l.records(), "sidecar, installed by Helm for this run", "1 ready, localhost/istio/pilot:windtunnel",
		"istio-proxy in all pods, localhost/istio/proxyv2:windtunnel", `"mutual TLS"`, "spiffe://cluster.local/ns/windtunnel-", "client/sidecar", "server-0/sidecar",
	)
	l.has(l.dump("istio"), `"require_client_certificate": true`, "spiffe://cluster.local/ns/windtunnel-")
	for _, kind := range []string{"namespaces", "mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
		if left := l.kubectl("a", "get", kind, "-o", "name"); strings.Contains(left, "istio") {
			t.Errorf("left:\n%s", left)
		}
	}
	report := filepath.Join(dir, "report.md")
	if err = os.WriteFile(report, []byte(l.do(l.windtunnel, "report", run, "--format", "md")), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Logf("the report is %s", report)
}

// dump is the live configuration that a run keeps of a variant.
func (l lab) dump(part string) string {
	l.t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(filepath.Join(l.in, run), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(path, part) || !strings.HasSuffix(path, "config.json") {
			return err
		}
		raw, err := os.ReadFile(path)
		all.Write(raw)
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return all.String()
}
