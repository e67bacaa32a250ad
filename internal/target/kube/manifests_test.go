package kube

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/windtunnel/windtunnel/internal/model"
)

const mcsAPI = "multicluster.x-k8s.io/v1alpha1"

// served is a cluster that serves the multi-cluster services API.
func served(name string, objects ...runtime.Object) (*cluster, *[]string) {
	client := fake.NewClientset()
	client.Resources = []*metav1.APIResourceList{{GroupVersion: mcsAPI, APIResources: []metav1.APIResource{
		{Name: "serviceimports", Kind: "ServiceImport", Namespaced: true},
		{Name: "serviceexports", Kind: "ServiceExport", Namespaced: true},
	}}}
	dyn := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), objects...)
	var did []string
	dyn.PrependReactor("patch", "*", func(a k8stesting.Action) (bool, runtime.Object, error) {
		patch, ok := a.(k8stesting.PatchAction)
		if !ok {
			return false, nil, nil
		}
		o := &unstructured.Unstructured{}
		err := json.Unmarshal(patch.GetPatch(), &o.Object)
		did = append(did, string(patch.GetPatchType())+" "+o.GetNamespace()+"/"+o.GetName()+" owned by "+o.GetOwnerReferences()[0].Name+" in trial "+o.GetLabels()[labelTrial])
		return true, o, err
	})
	dyn.PrependReactor("delete", "*", func(a k8stesting.Action) (bool, runtime.Object, error) {
		gone, ok := a.(k8stesting.DeleteAction)
		if ok {
			did = append(did, "deleted "+gone.GetName())
		}
		return true, nil, nil
	})
	return &cluster{context: name, namespace: "n", client: client, dynamic: dyn}, &did
}

func TestApply(t *testing.T) {
	t.Parallel()
	c, did := served("a")
	s := made(topology([]model.Node{node("n1", "s1")}), c, false, nil)
	undo, err := s.Apply(t.Context(), "c0", model.Object(mcsAPI, "ServiceExport", "server-7", nil).Marked(model.Marks{Labels: map[string]string{"x": "y"}}))
	if err != nil {
		t.Fatal(err)
	}
	if err = undo(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"application/apply-patch+yaml n/server-7 owned by windtunnel-1 in trial 7", "deleted server-7"}
	if diff := cmp.Diff(want, *did); diff != "" {
		t.Error(diff)
	}
	_, err = s.Apply(t.Context(), "c0", model.Object("kuma.io/v1alpha1", "Mesh", "m", nil))
	if !errors.Is(err, model.ErrUnsupported) || !strings.Contains(err.Error(), "context a") || !strings.Contains(err.Error(), "does not have the API kuma.io/v1alpha1 Mesh") {
		t.Errorf("an API that is not there: %v", err)
	}
	if _, err = s.Apply(t.Context(), "elsewhere", model.Object(mcsAPI, "ServiceExport", "x", nil)); err == nil {
		t.Error("a cluster that is not there")
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	there := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": mcsAPI, "kind": "ServiceImport",
		"metadata": map[string]any{"name": "server-7", "namespace": "n", "labels": map[string]any{"of": "server"}},
		"spec":     map[string]any{"type": "ClusterSetIP"},
	}}
	c, _ := served("a", there)
	s := made(topology([]model.Node{node("n1", "s1")}), c, false, nil)
	typed := func(m model.Manifest) bool {
		spec, _ := m["spec"].(map[string]any)
		return spec["type"] == "ClusterSetIP"
	}
	labelled := model.Manifest{"apiVersion": mcsAPI, "kind": "ServiceImport", "metadata": map[string]any{}}.Marked(model.Marks{Labels: map[string]string{"of": "server"}})
	for name, ref := range map[string]model.Manifest{"by name": model.Object(mcsAPI, "ServiceImport", "server-7", nil), "by labels": labelled} {
		if o, err := s.Read(t.Context(), "c0", ref, typed); err != nil || o["kind"] != "ServiceImport" {
			t.Errorf("%s: %v, %v", name, o, err)
		}
	}
	for why, ref := range map[string]model.Manifest{
		"it is there, but not ready: it has no address, or says so": model.Object(mcsAPI, "ServiceImport", "server-7", nil),
		"it is not there": model.Object(mcsAPI, "ServiceImport", "other", nil),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*poll)
		_, err := s.Read(ctx, "c0", ref, func(model.Manifest) bool { return false })
		cancel()
		if !errors.Is(err, model.ErrTarget) || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, want %q", err, why)
		}
	}
}

func TestScopes(t *testing.T) {
	t.Parallel()
	a, b := &cluster{context: "a", namespace: "n"}, &cluster{context: "b", namespace: "n"}
	top := topology([]model.Node{node("n0", "client")}, []model.Node{node("n1", "s1", "s2")}, []model.Node{node("n2", "other")})
	s := made(top, a, false, nil)
	s.places["n1"], s.places["n2"] = place{cluster: b, name: "c1"}, place{cluster: &cluster{context: "c"}, name: "c2"}
	s.services["server"] = model.Service{Name: "server", Pods: []string{"s2", "s1"}}
	s.around = model.Surroundings{Meshes: []model.Mesh{sidecars()}, Protocol: "http1"}
	all, err := s.Scopes("server")
	if err != nil || len(all) != 2 || !all[0].Clients || all[1].Clients || len(all[1].Pods) != 2 || all[1].Object != "server-7" || all[1].AppProtocol != "http" {
		t.Errorf("%+v, %v", all, err)
	}
	s.Address("server", "server-7", netip.MustParseAddr("10.0.0.8"))
	s.Address("server", "", netip.MustParseAddr("10.0.0.9"))
	if svc, err := s.Service("server"); err != nil || svc.VIP.String() != "10.0.0.9" || svc.Host != "server-7" {
		t.Errorf("%+v, %v", svc, err)
	}
	s.places["n1"] = place{cluster: a, name: "c1", zoned: true}
	if _, err := s.Scopes("server"); !errors.Is(err, model.ErrUnsupported) || !strings.Contains(err.Error(), "zones of context a") {
		t.Errorf("zones: %v", err)
	}
}
