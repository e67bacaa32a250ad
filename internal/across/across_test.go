package across

import (
	"bytes"
	"context"
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

// server is a service of pods in two clusters other than its clients', or in one.
func scopes(clusters int) []model.Scope {
	addr := netip.MustParseAddr
	at := func(cluster string, clients bool, pods ...netip.Addr) model.Scope {
		return model.Scope{
			Cluster: cluster, Namespace: "windtunnel-1", Clients: clients, Pods: pods, Object: "server-7", AppProtocol: "http",
			Selector: map[string]string{"windtunnel.dev/service.server": "yes", "windtunnel.dev/trial": "7"},
		}
	}
	all := []model.Scope{at("near", true), at("far", false, addr("10.20.0.5"), addr("10.20.0.6")), at("third", false, addr("fd00::5"))}
	return all[:1+clusters]
}

func service() model.Service { return model.Service{Name: "server", Port: 80, TargetPort: 8080} }

func ways() map[string]Way {
	return map[string]Way{
		"endpointslices": Slices(), "mcs": Exported(), "gke-mcs": ExportedGKE(), "gke-mcs-ingress": Ingress(),
		"istio":   Merged("istio", model.Marks{}),
		"ambient": Merged("istio", model.Marks{Labels: map[string]string{"istio.io/global": "true"}}),
		"cilium":  Merged("cilium", model.Marks{Annotations: map[string]string{"service.cilium.io/global": "true"}}),
		"linkerd": Mirrored(), "kuma": Zones(),
	}
}

// Every way's objects are those of the golden files, by cluster.
func TestObjects(t *testing.T) {
	t.Parallel()
	for name, way := range ways() {
		for clusters, suffix := range map[int]string{1: "", 2: "-two"} {
			var b bytes.Buffer
			all := scopes(clusters)
			for _, at := range all {
				b.WriteString("# cluster " + at.Cluster + "\n")
				for _, o := range way.Objects(service(), at, all) {
					write(t, &b, o)
				}
			}
			b.WriteString("# the address\n")
			ref, _ := way.Find(service(), all[0], all)
			write(t, &b, ref)
			golden(t, name+suffix+".json", b.Bytes())
		}
	}
}

func write(t *testing.T, b *bytes.Buffer, o model.Manifest) {
	t.Helper()
	raw, err := o.JSON()
	if err != nil {
		t.Fatal(err)
	}
	b.Write(append(raw, '\n'))
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

// fake keeps what is applied, and answers with what is given.
type fake struct {
	model.Site
	scopes  []model.Scope
	there   map[string]model.Manifest // by cluster/kind/name
	applied []string
	refuse  string
	vip     netip.Addr
	host    string
}

func (*fake) Topology() model.Topology { return model.Topology{Services: []model.Service{service()}} }

func (f *fake) Scopes(string) ([]model.Scope, error)    { return f.scopes, nil }
func (f *fake) Address(_, host string, addr netip.Addr) { f.host, f.vip = host, addr }
func key(cluster string, m model.Manifest) (key string) {
	return cluster + "/" + kind(m) + "/" + named(m)
}

func kind(m model.Manifest) string {
	k, _ := m["kind"].(string)
	return k
}

func (f *fake) Apply(_ context.Context, cluster string, m model.Manifest) (func(context.Context) error, error) {
	k := key(cluster, m)
	if k == f.refuse {
		return nil, errors.New("refused")
	}
	f.applied = append(f.applied, k)
	return func(context.Context) error {
		f.applied = slices.DeleteFunc(f.applied, func(a string) bool { return a == k })
		return nil
	}, nil
}

func (f *fake) Read(_ context.Context, cluster string, m model.Manifest, good func(model.Manifest) bool) (model.Manifest, error) {
	if o := f.there[key(cluster, m)]; o != nil && good(o) {
		return o, nil
	}
	return nil, errors.New("no " + key(cluster, m))
}

func TestDeploy(t *testing.T) {
	t.Parallel()
	imported := model.Object("multicluster.x-k8s.io/v1alpha1", "ServiceImport", "server-7", model.Manifest{"spec": map[string]any{"ips": []any{"10.96.0.9"}}})
	f := &fake{scopes: scopes(2), there: map[string]model.Manifest{"near/ServiceImport/server-7": imported}}
	remove, err := Exported().Deploy(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"far/Service/server-7", "far/ServiceExport/server-7", "third/Service/server-7", "third/ServiceExport/server-7"}
	if diff := cmp.Diff(want, f.applied); diff != "" || f.vip.String() != "10.96.0.9" {
		t.Errorf("address %s, applied (-want +got):\n%s", f.vip, diff)
	}
	facts, err := Exported().Observe(t.Context(), f)
	if err != nil || facts[0].Value != "ServiceImport of cluster near, over 3 pods in 2 clusters" {
		t.Errorf("%+v, %v", facts, err)
	}
	if err := remove(t.Context()); err != nil || len(f.applied) != 0 {
		t.Errorf("left: %v, %v", f.applied, err)
	}
}

// Clients ask for a Service by its own name: meshes route by it. What else gives
// an address has another name, or none.
func TestHost(t *testing.T) {
	t.Parallel()
	service := model.Object("v1", "Service", "server-7", model.Manifest{"spec": map[string]any{"clusterIP": "10.96.0.3"}})
	imported := model.Object("multicluster.x-k8s.io/v1alpha1", "ServiceImport", "server-7", model.Manifest{"spec": map[string]any{"ips": []any{"10.96.0.9"}}})
	for _, tt := range []struct {
		way  Way
		want string
	}{{Merged("istio", model.Marks{}), "server-7"}, {Exported(), ""}} {
		f := &fake{scopes: scopes(2), there: map[string]model.Manifest{"near/Service/server-7": service, "near/ServiceImport/server-7": imported}}
		if _, err := tt.way.Deploy(t.Context(), f); err != nil || f.host != tt.want {
			t.Errorf("%s: host %q, want %q; %v", tt.way.Name, f.host, tt.want, err)
		}
	}
}

// What breaks on the way is undone.
func TestDeployUndoes(t *testing.T) {
	t.Parallel()
	refused := &fake{scopes: scopes(1), refuse: "far/ServiceExport/server-7"}
	without := &fake{scopes: scopes(1)}
	for want, f := range map[string]*fake{"refused": refused, "no near/ServiceImport/server-7": without} {
		if _, err := Exported().Deploy(t.Context(), f); err == nil || !strings.Contains(err.Error(), want) || len(f.applied) != 0 {
			t.Errorf("error %v, want %q; left: %v", err, want, f.applied)
		}
	}
	both := scopes(1)
	both[1].Clients = true
	if _, err := Slices().Deploy(t.Context(), &fake{scopes: both}); !errors.Is(err, model.ErrUnsupported) {
		t.Errorf("clients in two clusters: %v", err)
	}
	if _, err := Slices().Deploy(t.Context(), struct{ model.Site }{}); !errors.Is(err, model.ErrUnsupported) || !strings.Contains(err.Error(), "--target kube") {
		t.Errorf("on the lab: %v", err)
	}
}

func TestNeeded(t *testing.T) {
	t.Parallel()
	own := scopes(0)
	own[0].Pods = []netip.Addr{netip.MustParseAddr("10.0.0.1")}
	if Needed(own) || !Needed(scopes(1)) {
		t.Error("a way across is needed where pods are in another cluster, and only there")
	}
}

func TestAddressOf(t *testing.T) {
	t.Parallel()
	path := []any{"status", "vips", 0, "ip"}
	for want, status := range map[string]any{
		"10.0.0.1":   map[string]any{"vips": []any{map[string]any{"ip": "10.0.0.1"}}},
		"invalid IP": map[string]any{"vips": []any{}},
	} {
		if got := addressOf(model.Manifest{"status": status}, path).String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for _, m := range []model.Manifest{nil, {"status": "x"}, {"status": map[string]any{"vips": []any{map[string]any{"ip": "None"}}}}} {
		if addressOf(m, path).IsValid() {
			t.Errorf("%v has no address", m)
		}
	}
}
