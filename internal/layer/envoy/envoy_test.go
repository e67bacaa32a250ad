package envoy

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"flag"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/model"
)

var update = flag.Bool("update", false, "write the golden files")

func TestParse(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		raw     string
		want    Config
		problem string
	}{
		"nothing":         {"", Config{MTLS: Strict, Concurrency: 2}, ""},
		"empty":           {"{}", Config{MTLS: Strict, Concurrency: 2}, ""},
		"all":             {`{"mtls": "permissive", "concurrency": 4, "path": "/e", "cpu": 0.5, "memory_bytes": 1}`, Config{Permissive, 4, "/e", 0.5, 1}, ""},
		"unknown mode":    {`{"mtls": "on"}`, Config{}, `mtls is "on"; it can be strict, permissive or disabled`},
		"no threads":      {`{"concurrency": 0}`, Config{}, "concurrency is 0; it can be 1 to 64"},
		"many threads":    {`{"concurrency": 65}`, Config{}, "concurrency is 65"},
		"negative CPU":    {`{"cpu": -1}`, Config{}, "cpu is -1; it cannot be negative"},
		"unknown key":     {`{"tls": true}`, Config{}, "known keys are mtls, concurrency, path, cpu, memory_bytes"},
		"negative memory": {`{"memory_bytes": -1}`, Config{}, "memory_bytes"},
		"not an object":   {`7`, Config{}, "envoy's configuration"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parse(json.RawMessage(tt.raw))
			if tt.problem != "" {
				if err == nil || !strings.Contains(err.Error(), tt.problem) {
					t.Errorf("error %v, want it to say %q", err, tt.problem)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("got %+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"mtls": "strict", "concurrency": 2}`)
	f.Fuzz(func(t *testing.T, raw string) {
		if c, err := parse(json.RawMessage(raw)); err == nil && (c.Concurrency < 1 || c.CPU < 0) {
			t.Errorf("%q was accepted: %+v", raw, c)
		}
	})
}

// pod has a name and nothing else.
type pod string

func (p pod) Name() string   { return string(p) }
func (pod) Addr() netip.Addr { return netip.Addr{} }
func (pod) Start(context.Context, model.Process) (model.Running, error) {
	return nil, model.ErrUnsupported
}

func example(tb testing.TB, mode MTLS) *mesh {
	tb.Helper()
	m := &mesh{config: Config{MTLS: mode, Concurrency: 2}, services: []service{{
		Service: model.Service{Name: "server", Port: 80, TargetPort: 8080, Pods: []string{"server-0", "server-1"}, VIP: netip.MustParseAddr("10.96.0.1")},
		addrs:   []string{"10.128.4.2", "10.128.4.3"},
	}}}
	if err := m.makeCA(); err != nil {
		tb.Fatal(err)
	}
	return m
}

// The golden files are what a sidecar is started with; Envoy itself must find
// them valid.
func TestBootstrap(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		mode MTLS
		sc   *sidecar
	}{
		"client.strict":     {Strict, &sidecar{pod: pod("client-0"), role: "client"}},
		"client.disabled":   {Disabled, &sidecar{pod: pod("client-0"), role: "client"}},
		"server.strict":     {Strict, &sidecar{pod: pod("server-0"), role: "server"}},
		"server.permissive": {Permissive, &sidecar{pod: pod("server-0"), role: "server"}},
		"server.disabled":   {Disabled, &sidecar{pod: pod("server-0"), role: "server"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files, err := example(t, tt.mode).files(tt.sc)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".json", files["envoy.json"])
			validate(t, files)
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, append(got, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
		t.Errorf("%s (write it with -update): %s", file, diff)
	}
}

func validate(t *testing.T, files map[string][]byte) {
	t.Helper()
	envoy, dir := program(t), t.TempDir()
	for name, data := range files {
		data = bytes.ReplaceAll(data, []byte("{dir}"), []byte(dir))
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), envoy, "--mode", "validate", "-c", filepath.Join(dir, "envoy.json"), "-l", "error").CombinedOutput()
	if err != nil {
		t.Errorf("Envoy finds the configuration wrong: %v\n%s", err, out)
	}
}

func TestLeavesAreOfTheCA(t *testing.T) {
	t.Parallel()
	m, foreign := example(t, Strict), example(t, Strict)
	leaf := func(role string) *x509.Certificate {
		certPEM, keyPEM, err := m.leaf(role)
		if err != nil {
			t.Fatal(err)
		}
		if block, _ := pem.Decode(keyPEM); block == nil || block.Type != "PRIVATE KEY" {
			t.Errorf("%s has no key", role)
		}
		block, _ := pem.Decode(certPEM)
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
	roots := func(m *mesh) *x509.CertPool {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(m.caPEM) {
			t.Fatal("the CA cannot be read")
		}
		return pool
	}
	for _, role := range []string{"client", "server"} {
		cert := leaf(role)
		usages := []x509.ExtKeyUsage{x509.ExtKeyUsageAny}
		if _, err := cert.Verify(x509.VerifyOptions{Roots: roots(m), KeyUsages: usages}); err != nil {
			t.Errorf("%s: %v", role, err)
		}
		if _, err := cert.Verify(x509.VerifyOptions{Roots: roots(foreign), KeyUsages: usages}); err == nil {
			t.Errorf("%s is trusted by another mesh", role)
		}
		if got := cert.URIs; len(got) != 1 || got[0].String() != "spiffe://windtunnel.local/ns/default/sa/"+role {
			t.Errorf("%s is %v", role, got)
		}
		if cert.IsCA || cert.NotAfter.Sub(cert.NotBefore) > 2*certLife {
			t.Errorf("%s may do too much: %v to %v", role, cert.NotBefore, cert.NotAfter)
		}
	}
}

func TestParseStats(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]stats{
		"client": {requests: 1, tlsVersions: []string{"TLSv1.3"}, ciphers: []string{"TLS_AES_128_GCM_SHA256"}},
		"server": {requests: 1, tlsVersions: []string{"TLSv1.3"}, ciphers: []string{"TLS_AES_128_GCM_SHA256"}},
	} {
		raw, err := os.ReadFile(filepath.Join("testdata", name+".stats.txt"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, parseStats(raw), cmp.AllowUnexported(stats{})); diff != "" {
			t.Errorf("%s (-want +got): %s", name, diff)
		}
	}
	retried := parseStats([]byte("cluster.outbound|80||server.upstream_rq_retry: 3\ncluster.xds.upstream_rq_retry: 9\nhttp.admin.downstream_rq_total: 7\nno number: x\nnone"))
	if diff := cmp.Diff(stats{retries: 3}, retried, cmp.AllowUnexported(stats{})); diff != "" {
		t.Errorf("retries (-want +got): %s", diff)
	}
}

func FuzzParseStats(f *testing.F) {
	f.Add([]byte("http.inbound_server.downstream_rq_total: 1\nlistener.0.0.0.0_15006.ssl.versions.TLSv1.3: 1\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		lines := bytes.Count(raw, []byte("\n")) + 1
		if s := parseStats(raw); len(s.tlsVersions) > lines || len(s.ciphers) > lines {
			t.Errorf("%d lines, and yet %+v", lines, s)
		}
	})
}

func TestClaims(t *testing.T) {
	t.Parallel()
	has := func(l *Layer, key, value string) bool {
		for _, c := range l.Claims() {
			if c.Key == key && c.Value == value && c.Layer == Name {
				return true
			}
		}
		return false
	}
	for _, tt := range []struct {
		name       string
		l          Layer
		mtls, wire bool
	}{
		{"strict", Layer{config: Config{MTLS: Strict}, onWire: true}, true, true},
		{"permissive", Layer{config: Config{MTLS: Permissive}, onWire: true}, true, true},
		{"same node", Layer{config: Config{MTLS: Strict}}, true, false},
		{"disabled", Layer{config: Config{MTLS: Disabled}, onWire: true}, false, false},
	} {
		if has(&tt.l, model.FactMTLS, "TLSv1.3") != tt.mtls || has(&tt.l, model.FactMTLS, "none") == tt.mtls || has(&tt.l, model.FactWireProtocol, "TLSv1.3") != tt.wire {
			t.Errorf("%s: %v", tt.name, tt.l.Claims())
		}
	}
}

func TestApart(t *testing.T) {
	t.Parallel()
	client, server := model.PodSpec{Name: "c", Role: "client"}, model.PodSpec{Name: "s", Role: "server"}
	for name, tt := range map[string]struct {
		nodes []model.Node
		want  bool
	}{
		"two nodes": {[]model.Node{{Pods: []model.PodSpec{client}}, {Pods: []model.PodSpec{server}}}, true},
		"one node":  {[]model.Node{{Pods: []model.PodSpec{client, server}}}, false},
		"both":      {[]model.Node{{Pods: []model.PodSpec{client, server}}, {Pods: []model.PodSpec{server}}}, false},
	} {
		topology := model.Topology{Regions: []model.Region{{Clusters: []model.Cluster{{Nodes: tt.nodes}}}}}
		if got := apart(topology); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	here := filepath.Join(t.TempDir(), "envoy")
	if err := os.WriteFile(here, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Find(here); err != nil || got != here {
		t.Errorf("got %s, %v", got, err)
	}
	_, err := Find(here + ".not")
	if err == nil || !strings.Contains(err.Error(), "make envoy") || !strings.Contains(err.Error(), here+".not") {
		t.Errorf("error %v must say where it looked and what to do", err)
	}
}
