package mesh

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/model"
)

var update = flag.Bool("update", false, "write the golden files anew")

func layer(t *testing.T, name, config string) (*Layer, error) {
	t.Helper()
	all := Plugins()
	i := slices.IndexFunc(all, func(p model.Plugin[model.Layer]) bool { return p.Name == name })
	if i < 0 {
		t.Fatalf("no layer %s", name)
	}
	l, err := all[i].New(json.RawMessage(config))
	if err != nil {
		return nil, err
	}
	made, ok := l.(*Layer)
	if !ok {
		t.Fatalf("%T", l)
	}
	return made, nil
}

// What each mesh is told of, in each of its modes, and what it is installed by.
func TestMeshes(t *testing.T) {
	t.Parallel()
	for file, of := range map[string][2]string{
		"istio":          {"istio", ""},
		"istio-strict":   {"istio", `{"mtls": "strict", "revision": "canary", "installed": "helm"}`},
		"istio-ambient":  {"istio", `{"mode": "ambient", "installed": "helm"}`},
		"istio-waypoint": {"istio", `{"mode": "waypoint"}`},
		"linkerd":        {"linkerd", `{"mtls": "strict", "installed": "helm"}`},
		"kuma":           {"kuma", `{"installed": "helm", "chart": "/charts", "values": {"kuma": {"controlPlane": {"mode": "zone", "zone": "near"}}}}`},
		"cilium":         {"cilium", `{"installed": "helm", "version": "1.19.4", "values": {"cilium": {"operator": {"prometheus": true}}}}`},
	} {
		l, err := layer(t, of[0], of[1])
		if err != nil {
			t.Fatal(err)
		}
		var policy []model.Manifest
		if l.kind.policy != nil {
			policy = l.kind.policy(l.config)
		}
		raw, err := json.MarshalIndent(map[string]any{"mesh": l.Mesh(), "policy": policy, "claims": l.Claims(), "across": l.kind.across(l.config).Marks}, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, file+".json", append(raw, '\n'))
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got); go test -update writes it anew:\n%s", name, diff)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{
		`{"mode": "ambient"}`:                              "",
		`{"mode": "node", "mtls": "x", "installed": "y"}`:  "mode is \"node\"; of istio it can be sidecar or ambient or waypoint",
		`{"version": "1"}`:                                 "they are for installed: helm",
		`{"installed": "helm", "values": {"z": {"a": 1}}}`: "values.z is no release; there are istio-base, istiod",
		`{"other": 1}`:                                     "unknown field",
	} {
		_, err := layer(t, "istio", config)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", config, err, want)
		}
	}
	for _, config := range []string{`{"mtls": "strict"}`, `{"revision": "r"}`, `{"mode": "ambient"}`} {
		if _, err := layer(t, "kuma", config); err == nil {
			t.Errorf("kuma took %s", config)
		}
	}
}

// Linkerd's issuer is signed by its anchor, and both are new each time.
func TestIdentity(t *testing.T) {
	t.Parallel()
	one, err := identity()
	if err != nil {
		t.Fatal(err)
	}
	parse := func(text any) *x509.Certificate {
		s, _ := text.(string)
		block, _ := pem.Decode([]byte(s))
		if block == nil {
			t.Fatalf("no PEM: %v", text)
		}
		cert, failure := x509.ParseCertificate(block.Bytes)
		if failure != nil {
			t.Fatal(failure)
		}
		return cert
	}
	raw, err := json.Marshal(one["identity"])
	if err != nil {
		t.Fatal(err)
	}
	var id struct {
		Issuer struct {
			TLS struct{ CrtPEM, KeyPEM string }
		}
	}
	if err = json.Unmarshal(raw, &id); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parse(one["identityTrustAnchorsPEM"]))
	if _, err = parse(id.Issuer.TLS.CrtPEM).Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		t.Error(err)
	}
	if !strings.Contains(id.Issuer.TLS.KeyPEM, "EC PRIVATE KEY") {
		t.Error("the issuer has no key")
	}
	other, err := identity()
	if err != nil || other["identityTrustAnchorsPEM"] == one["identityTrustAnchorsPEM"] {
		t.Errorf("the same anchor twice, %v", err)
	}
}

// fake is a site of real clusters that keeps what it is asked for.
type fake struct {
	model.Site
	scopes []model.Scope
	did    []string
	vip    netip.Addr
	// programmed is what gateways say of themselves.
	programmed string
}

func (f *fake) Topology() model.Topology {
	t := model.Topology{Services: []model.Service{{Name: "server", Port: 80, TargetPort: 8080}}, Regions: []model.Region{{}}}
	for _, s := range f.scopes {
		t.Regions[0].Clusters = append(t.Regions[0].Clusters, model.Cluster{Name: s.Cluster, Nodes: []model.Node{{Name: "n-" + s.Cluster}}})
	}
	return t
}

func (f *fake) Service(string) (model.Service, error) {
	return model.Service{Name: "server", Port: 80, VIP: f.vip}, nil
}

func (f *fake) step(text string) (func(context.Context) error, error) {
	f.did = append(f.did, text)
	return func(context.Context) error { f.did = append(f.did, "not "+text); return nil }, nil
}

func (f *fake) Expose(context.Context) (func(context.Context) error, error) {
	f.vip = netip.MustParseAddr("10.96.0.1")
	return f.step("expose")
}

func (*fake) Exposed(_ context.Context, of string) (model.Ledger, error) {
	return model.Ledger{{Layer: of, Key: model.FactBalancing, Value: "ClusterIP"}}, nil
}

func (f *fake) Scopes(string) ([]model.Scope, error) { return f.scopes, nil }
func (f *fake) Address(_, _ string, a netip.Addr)    { f.vip = a }

func (f *fake) Apply(_ context.Context, cluster string, m model.Manifest) (func(context.Context) error, error) {
	kind, _ := m["kind"].(string)
	return f.step(cluster + "/" + kind)
}

func (f *fake) Read(_ context.Context, _ string, m model.Manifest, good func(model.Manifest) bool) (model.Manifest, error) {
	m["spec"] = map[string]any{"clusterIP": "10.96.0.2"}
	m["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Accepted", "status": "True"}, map[string]any{"type": "Programmed", "status": f.programmed}}}
	if !good(m) {
		return nil, errors.New("no address")
	}
	return m, nil
}

func (*fake) Joined(_ context.Context, m model.Mesh) (model.Ledger, error) {
	return model.Ledger{{Layer: m.Name, Key: "mesh", Value: m.Mode}}, nil
}

func (*fake) Counted(_ context.Context, m model.Mesh) (model.Ledger, error) {
	return model.Ledger{{Layer: m.Name, Key: model.FactMTLS, Value: "mutual TLS"}}, nil
}

func (*fake) Dump(context.Context, model.Mesh) (map[string][]byte, error) {
	return map[string][]byte{"server-0.config.json": []byte("{}")}, nil
}

func TestDeploy(t *testing.T) {
	t.Parallel()
	near := model.Scope{Cluster: "near", Clients: true, Object: "server-1"}
	far := model.Scope{Cluster: "far", Pods: []netip.Addr{netip.MustParseAddr("10.1.0.1")}, Object: "server-1"}
	for name, tt := range map[string]struct {
		scopes []model.Scope
		vip    netip.Addr
		want   string
		front  string
		// balanced is by what, as the mesh's own facts say.
		balanced string
	}{
		"one cluster":          {[]model.Scope{near}, netip.Addr{}, "near/PeerAuthentication expose not expose not near/PeerAuthentication", "10.96.0.1:80", "under the mesh: ClusterIP"},
		"a Service is there":   {[]model.Scope{near}, netip.MustParseAddr("10.96.0.7"), "near/PeerAuthentication not near/PeerAuthentication", "10.96.0.7:80", ""},
		"across two, as Istio": {[]model.Scope{near, far}, netip.Addr{}, "near/PeerAuthentication far/PeerAuthentication near/Service far/Service not far/Service not near/Service not far/PeerAuthentication not near/PeerAuthentication", "10.96.0.2:80", "Service of cluster near, over 1 pods in 1 clusters"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := layer(t, "istio", `{"mtls": "strict"}`)
			if err != nil {
				t.Fatal(err)
			}
			f := &fake{scopes: tt.scopes, vip: tt.vip}
			remove, err := l.Deploy(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			svc, _ := f.Service("")
			if got := l.Front(svc)[0].String(); got != tt.front {
				t.Errorf("front %s, want %s", got, tt.front)
			}
			facts, err := l.Observe(t.Context(), f)
			if err != nil || facts[0].Value != "sidecar" || facts[1].Value != "mutual TLS" || balancing(facts) != tt.balanced {
				t.Errorf("%+v, %v", facts, err)
			}
			files, err := l.Artefacts(t.Context(), f)
			if err != nil || !bytes.Equal(files["server-0.config.json"], []byte("{}")) {
				t.Errorf("%v, %v", files, err)
			}
			if err := remove(t.Context()); err != nil {
				t.Error(err)
			}
			if got := strings.Join(f.did, " "); got != tt.want {
				t.Errorf("did %s\nwant %s", got, tt.want)
			}
		})
	}
}

// A waypoint is waited for; one that never comes is said, and removed.
func TestWaypoint(t *testing.T) {
	t.Parallel()
	for programmed, want := range map[string]string{
		"True": "near/Gateway expose not expose not near/Gateway", "False": "near/Gateway not near/Gateway",
	} {
		l, err := layer(t, "istio", `{"mode": "waypoint"}`)
		if err != nil {
			t.Fatal(err)
		}
		f := &fake{scopes: []model.Scope{{Cluster: "near", Clients: true}}, programmed: programmed}
		remove, err := l.Deploy(t.Context(), f)
		if err == nil {
			err = remove(t.Context())
		}
		if got := strings.Join(f.did, " "); got != want || (err == nil) != (programmed == "True") {
			t.Errorf("%s: did %s, %v; want %s", programmed, got, err, want)
		}
	}
}

func balancing(l model.Ledger) string {
	for _, f := range l {
		switch f.Key {
		case model.FactBalancing:
			return f.Value
		case keyService:
			return "under the mesh: " + f.Value
		}
	}
	return ""
}

func TestOnTheLab(t *testing.T) {
	t.Parallel()
	for _, p := range Plugins() {
		l, err := p.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		made, ok := l.(*Layer)
		if !ok {
			t.Fatalf("%T", l)
		}
		_, deployed := l.Deploy(t.Context(), struct{ model.Site }{})
		for _, err := range []error{deployed, made.Check(t.Context()), made.CheckTarget(model.TargetLab)} {
			if !errors.Is(err, model.ErrUnsupported) || !strings.Contains(err.Error(), "the layer "+p.Name+" on the target lab") {
				t.Errorf("%s: %v", p.Name, err)
			}
		}
		if err := made.CheckTarget(model.TargetKube); err != nil {
			t.Error(err)
		}
	}
}
