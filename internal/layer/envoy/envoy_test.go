package envoy

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/proxy"
)

var update = flag.Bool("update", false, "write the golden files")

func TestParse(t *testing.T) {
	t.Parallel()
	two := proxy.Options{Concurrency: 2}
	usual := Config{Profile: proxy.Istio, Mode: Sidecar, MTLS: Strict, LoadBalancing: LeastRequest, Telemetry: On, Start: NativeStart, Options: two}
	quick := Outlier{Errors: 1, Interval: "1s", BaseEjectionTime: "2s", MaxEjectionPercent: 10, Split: true, LocalErrors: 10}
	tests := map[string]struct {
		raw     string
		want    Config
		problem string
	}{
		"nothing": {"", usual, ""},
		"empty":   {"{}", usual, ""},
		"all": {
			`{"mtls": "permissive", "concurrency": 4, "path": "/e", "cpu": 0.5, "memory_bytes": 1, "tcp": ["redis"], "cluster_local": ["redis"]}`,
			Config{
				Profile: proxy.Istio, Mode: Sidecar, MTLS: Permissive, LoadBalancing: LeastRequest, TCP: []string{"redis"}, ClusterLocal: []string{"redis"},
				Telemetry: On, Start: NativeStart,
				Options: proxy.Options{Concurrency: 4, Path: "/e", CPU: 0.5, Memory: 1},
			},
			"",
		},
		"locality": {
			`{"load_balancing": "locality", "failover": {"a": "b"}}`,
			Config{
				Profile: proxy.Istio, Mode: Sidecar, MTLS: Strict, LoadBalancing: Locality, Failover: map[string]string{"a": "b"},
				Telemetry: On, Start: NativeStart, Options: two,
			},
			"",
		},
		"GEO's outlier detection": {
			`{"load_balancing": "round-robin", "outlier_detection": {"consecutive_5xx_errors": 1, "interval": "1s", "base_ejection_time": "2s",
			"split_external_local_origin_errors": true, "consecutive_local_origin_failures": 10}}`,
			Config{Profile: proxy.Istio, Mode: Sidecar, MTLS: Strict, LoadBalancing: RoundRobin, Outlier: &quick, Telemetry: On, Start: NativeStart, Options: two},
			"",
		},
		"Kuma": {
			`{"profile": "kuma", "protocol": "tcp"}`,
			Config{Profile: proxy.Kuma, Mode: Sidecar, MTLS: Strict, LoadBalancing: RoundRobin, Protocol: TCP, Telemetry: Off, Start: NativeStart, Options: two},
			"",
		},
		"ambient": {
			`{"mode": "ambient", "mtls": "permissive", "load_balancing": "locality"}`,
			Config{Profile: proxy.Istio, Mode: Ambient, MTLS: Permissive, LoadBalancing: Locality, Telemetry: Off, Start: NativeStart, Options: two},
			"",
		},
		"waypoint": {
			`{"mode": "ambient", "waypoint": true, "telemetry": "off"}`,
			Config{Profile: proxy.Istio, Mode: Ambient, Waypoint: true, MTLS: Strict, LoadBalancing: LeastRequest, Telemetry: Off, Start: NativeStart, Options: two},
			"",
		},
		"ambient connects":       {`{"mode": "ambient", "connect_timeout": "1s"}`, Config{}, "connect_timeout belongs to mode: sidecar"},
		"connects never":         {`{"connect_timeout": "0s"}`, Config{}, "connect_timeout is 0s"},
		"connects soon":          {`{"connect_timeout": "soon"}`, Config{}, `connect_timeout is "soon"`},
		"an ingress of Kuma":     {`{"profile": "kuma", "protocol": "http", "ingress": ["a"]}`, Config{}, "ingress belongs to the profile istio"},
		"an ambient ingress":     {`{"mode": "ambient", "ingress": ["a"]}`, Config{}, "in mode: sidecar"},
		"an ingress of a start":  {`{"start": "app-first", "ingress": ["a"]}`, Config{}, "no sidecar to wait for"},
		"an ingress twice":       {`{"ingress": ["a", "a"]}`, Config{}, "ingress names a twice"},
		"an ingress of TCP":      {`{"ingress": ["a"], "tcp": ["a"]}`, Config{}, "it lets in HTTP only"},
		"no such mode":           {`{"mode": "cni"}`, Config{}, `mode is "cni"; it can be sidecar or ambient`},
		"ambient Kuma":           {`{"profile": "kuma", "protocol": "tcp", "mode": "ambient"}`, Config{}, "the profile kuma does not have"},
		"ambient in plaintext":   {`{"mode": "ambient", "mtls": "disabled"}`, Config{}, "HBONE always is mutual TLS"},
		"ambient ejection":       {`{"mode": "ambient", "outlier_detection": {}}`, Config{}, "outlier_detection belongs to mode: sidecar"},
		"ambient start":          {`{"mode": "ambient", "start": "app-first"}`, Config{}, "no pod has a proxy to wait for"},
		"a sidecar's waypoint":   {`{"waypoint": true}`, Config{}, "waypoint needs mode: ambient"},
		"telemetry at L4":        {`{"mode": "ambient", "telemetry": "on"}`, Config{}, "telemetry needs a proxy"},
		"half telemetry":         {`{"telemetry": "half"}`, Config{}, `telemetry is "half"; it can be on or off`},
		"unknown start":          {`{"start": "late"}`, Config{}, `start is "late"; it can be native or app-first`},
		"locality for none":      {`{"locality_for": ["a"]}`, Config{}, "locality_for needs load_balancing: locality"},
		"Kuma's silent default":  {`{"profile": "kuma"}`, Config{}, "protocol is missing"},
		"another mesh":           {`{"profile": "linkerd"}`, Config{}, `profile is "linkerd"`},
		"a protocol for Istio":   {`{"protocol": "http"}`, Config{}, "protocol belongs to the profile kuma"},
		"unknown mode":           {`{"mtls": "on"}`, Config{}, `mtls is "on"; it can be strict, permissive or disabled`},
		"no threads":             {`{"concurrency": 0}`, Config{}, "concurrency is 0; it can be 1 to 64"},
		"many threads":           {`{"concurrency": 65}`, Config{}, "concurrency is 65"},
		"negative CPU":           {`{"cpu": -1}`, Config{}, "cpu is -1; it cannot be negative"},
		"unknown key":            {`{"tls": true}`, Config{}, `unknown field "tls"`},
		"unknown key, deeper":    {`{"outlier_detection": {"x": 1}}`, Config{}, `unknown field "x"`},
		"negative memory":        {`{"memory_bytes": -1}`, Config{}, "memory_bytes"},
		"not an object":          {`7`, Config{}, "reading the configuration"},
		"unknown balancing":      {`{"load_balancing": "random"}`, Config{}, `load_balancing is "random"`},
		"failover everywhere":    {`{"failover": {"a": "b"}}`, Config{}, "failover needs load_balancing: locality"},
		"no interval":            {`{"outlier_detection": {"interval": "soon"}}`, Config{}, `outlier_detection.interval is "soon"`},
		"never":                  {`{"outlier_detection": {"base_ejection_time": "0s"}}`, Config{}, "outlier_detection.base_ejection_time is 0s"},
		"no errors":              {`{"outlier_detection": {"consecutive_5xx_errors": 0, "consecutive_local_origin_failures": 0}}`, Config{}, "must be at least 1"},
		"more than all may fail": {`{"outlier_detection": {"max_ejection_percent": 101}}`, Config{}, "it can be 1 to 100"},
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
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Errorf("%v; (-want +got) %s", err, diff)
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

// pod has a name and an address, and nothing else.
type pod struct {
	name string
	addr netip.Addr
}

func (p pod) Name() string     { return p.name }
func (p pod) Addr() netip.Addr { return p.addr }
func (pod) Start(context.Context, model.Process) (model.Running, error) {
	return nil, model.ErrUnsupported
}
func (pod) InNetwork(func() error) error { return model.ErrUnsupported }

// blueprint is a site of which only the addresses are real: in each region a
// cluster with a client and a server, and a network of its own.
type blueprint struct{ topology model.Topology }

func regions(names ...string) blueprint {
	t := model.Topology{Services: []model.Service{{Name: "server", Port: 80, TargetPort: 8080, VIP: netip.MustParseAddr("10.96.0.1")}}}
	for i, name := range names {
		server := fmt.Sprintf("server-%d", i)
		t.Services[0].Pods = append(t.Services[0].Pods, server)
		t.Regions = append(t.Regions, model.Region{Name: name, Clusters: []model.Cluster{{Name: "cluster-" + name, Network: "network-" + name, Nodes: []model.Node{{
			Name: name + "-0", Pods: []model.PodSpec{{Name: fmt.Sprintf("client-%d", i), Role: "client"}, {Name: server, Role: "server"}},
		}}}}})
	}
	return blueprint{t}
}

func (b blueprint) Topology() model.Topology { return b.topology }
func (b blueprint) Pod(name string) (model.Pod, error) {
	for i, n := range b.topology.Nodes() {
		for k, p := range n.Pods {
			if p.Name == name {
				return pod{name, netip.AddrFrom4([4]byte{10, 128, byte(4 * i), byte(k + 2)})}, nil
			}
		}
	}
	return nil, errors.New("no pod " + name)
}
func (b blueprint) Service(string) (model.Service, error) { return b.topology.Services[0], nil }
func (blueprint) Close(context.Context) error             { return nil }
func (blueprint) Node(string) (model.Namespace, error)    { return nil, model.ErrUnsupported }
func (b blueprint) Wiring() []model.Wiring {
	var all []model.Wiring
	for i, n := range b.topology.Nodes() {
		all = append(all, model.Wiring{Node: n.Name, Addr: netip.AddrFrom4([4]byte{172, 18, 0, byte(i + 2)})})
	}
	return all
}

func example(tb testing.TB, site model.Site, raw string) *mesh {
	tb.Helper()
	c, err := parse(json.RawMessage(raw))
	if err != nil {
		tb.Fatal(err)
	}
	m, err := newMesh(site, c)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// The golden files are what a sidecar is started with; Envoy itself must find
// them valid.
func TestBootstrap(t *testing.T) {
	t.Parallel()
	one, three := regions("here"), regions("here", "near", "far")
	three.topology.Links = []model.Link{{A: "here", B: "near", Delay: 20e6}, {A: "here", B: "far", Delay: 50e6}, {A: "near", B: "far", Delay: 40e6}}
	locality := `{"load_balancing": "locality", "connect_timeout": "1s", "outlier_detection": {"consecutive_5xx_errors": 1, "interval": "500ms", "base_ejection_time": "2s", "split_external_local_origin_errors": true}}`
	for name, tt := range map[string]struct {
		site blueprint
		raw  string
		pod  int // the first cluster's client, its server, the second's client, ...
	}{
		"client.strict":     {one, "", 0},
		"client.disabled":   {one, `{"mtls": "disabled"}`, 0},
		"server.strict":     {one, "", 1},
		"server.permissive": {one, `{"mtls": "permissive"}`, 1},
		"server.disabled":   {one, `{"mtls": "disabled"}`, 1},
		"server.tcp":        {one, `{"tcp": ["server"]}`, 1},
		"client.locality":   {three, locality, 2},
		"client.quiet":      {one, `{"telemetry": "off"}`, 0},
		"client.local":      {three, `{"cluster_local": ["server"]}`, 2},
		"client.kuma":       {three, `{"profile": "kuma", "protocol": "http"}`, 2},
		"server.kuma.tcp":   {three, `{"profile": "kuma", "protocol": "tcp"}`, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := example(t, tt.site, tt.raw)
			files, err := m.files(m.sidecars[tt.pod])
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".json", files["envoy.json"])
			validate(t, files)
		})
	}
}

// Two services in front of the same pods are two addresses and one server.
func TestServicesThatSharePods(t *testing.T) {
	t.Parallel()
	site := regions("a")
	one := site.topology.Services[0]
	same, other := one, one
	same.Name, same.VIP = "same", netip.MustParseAddr("10.96.0.2")
	other.Name, other.VIP, other.TargetPort = "other", netip.MustParseAddr("10.96.0.3"), 9090
	m := example(t, site, "")
	m.services = append(m.services, service{same, []string{same.VIP.String()}, m.services[0].addrs, true}, service{other, []string{other.VIP.String()}, m.services[0].addrs, false})
	files, err := m.files(m.sidecars[1])
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "server.shared.json", files["envoy.json"])
	validate(t, files)
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
	m, foreign := example(t, regions("a"), ""), example(t, regions("a"), "")
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
		if !pool.AppendCertsFromPEM(m.ca.PEM()) {
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
		if cert.IsCA || cert.NotAfter.Sub(cert.NotBefore) > 2*proxy.CertLife {
			t.Errorf("%s may do too much: %v to %v", role, cert.NotBefore, cert.NotAfter)
		}
	}
}

func TestParseStats(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]stats{
		"client": {requests: 1, http1: 1, tlsVersions: []string{"TLSv1.3"}, ciphers: []string{"TLS_AES_128_GCM_SHA256"}},
		"server": {requests: 1, http1: 1, tlsVersions: []string{"TLSv1.3"}, ciphers: []string{"TLS_AES_128_GCM_SHA256"}},
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
	for _, tt := range []struct {
		name, raw string
		onWire    bool
		want      map[string]string
	}{
		{"strict", "", true, map[string]string{model.FactLevel: levelHTTP, model.FactMTLS: "TLSv1.3", model.FactWireProtocol: "TLSv1.3", model.FactPeer: "spiffe://windtunnel.local/ns/default/sa/client"}},
		{"same node", "", false, map[string]string{model.FactMTLS: "TLSv1.3", model.FactWireProtocol: ""}},
		{"disabled", `{"mtls": "disabled"}`, true, map[string]string{model.FactMTLS: "none", model.FactWireProtocol: "", model.FactPeer: ""}},
		{"Kuma at L4", `{"profile": "kuma", "protocol": "tcp"}`, true, map[string]string{model.FactLevel: levelTCP, model.FactPeer: "", "endpoints of server from cluster-b": "P0 a 1 by gateway, P0 b 1"}},
		{"Kuma at L7", `{"profile": "kuma", "protocol": "http"}`, true, map[string]string{model.FactLevel: levelHTTP, model.FactPeer: "spiffe://default/client"}},
		{"no HTTP", `{"tcp": ["server"]}`, true, map[string]string{model.FactLevel: levelTCP, model.FactPeer: ""}},
		{"locality", `{"load_balancing": "locality"}`, true, map[string]string{"endpoints of server from cluster-b": "P0 b 1, P1 a 1 by gateway"}},
		{"locality of others", `{"load_balancing": "locality", "locality_for": ["server"], "outlier_detection": {}}`, true, map[string]string{"endpoints of server from cluster-b": "P0 b 1, P1 a 1 by gateway"}},
		{"cluster-local", `{"cluster_local": ["server"]}`, true, map[string]string{"endpoints of server from cluster-b": "P0 b 1"}},
	} {
		m := example(t, regions("a", "b"), tt.raw)
		l := &Layer{config: m.config, mesh: m, onWire: tt.onWire}
		got := map[string]string{}
		for _, c := range l.Claims() {
			got[c.Key] = c.Value
		}
		for key, value := range tt.want {
			if got[key] != value {
				t.Errorf("%s: %s is %q, want %q", tt.name, key, got[key], value)
			}
		}
	}
}

// Names that the topology does not have are all told at once.
func TestUnknownNames(t *testing.T) {
	t.Parallel()
	c, err := parse(json.RawMessage(`{"load_balancing": "locality", "failover": {"a": "x"}, "cluster_local": ["redis"], "locality_for": ["web"], "tcp": ["server", "db"]}`))
	if err != nil {
		t.Fatal(err)
	}
	_, err = newMesh(regions("a"), c)
	for _, want := range []string{`failover names the region "x"`, `cluster_local names the service "redis"`, `locality_for names the service "web"`, `tcp names the service "db"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
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
		if got := proxy.Apart(topology); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
