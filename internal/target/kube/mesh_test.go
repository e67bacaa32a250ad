package kube

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	k8stesting "k8s.io/client-go/testing"

	"github.com/windtunnel/windtunnel/internal/model"
)

func sidecars() model.Mesh {
	return model.Mesh{
		Name: "istio", Mode: "sidecar", Namespace: "istio-system", PodSecurity: "privileged", Container: "istio-proxy",
		Switch:       model.Marks{Labels: map[string]string{"istio-injection": "enabled"}},
		Join:         model.Marks{Labels: map[string]string{"sidecar.istio.io/inject": "true"}},
		Avoid:        model.Marks{Labels: map[string]string{"sidecar.istio.io/inject": "false"}},
		Workloads:    []model.Workload{{Kind: "Deployment", Name: "istiod"}, {Kind: "DaemonSet", Name: "cni", Optional: true}},
		AppProtocols: map[string]string{"http1": "http"},
	}
}

func annotated() model.Mesh {
	return model.Mesh{
		Name: "linkerd", Mode: "sidecar", PodSecurity: "restricted", Token: true, Annotation: [2]string{"taken", "yes"},
		Switch: model.Marks{Annotations: map[string]string{"linkerd.io/inject": "enabled"}},
		Join:   model.Marks{Annotations: map[string]string{"linkerd.io/inject": "enabled"}},
		Avoid:  model.Marks{Annotations: map[string]string{"linkerd.io/inject": "disabled"}},
	}
}

// Pods say which meshes of the run they are in, and that they are in no other.
func TestPodsSayTheirMesh(t *testing.T) {
	t.Parallel()
	top := topology([]model.Node{node("n1", "s1")})
	s := made(top, &cluster{context: "a", namespace: "n", owner: "u"}, false, nil)
	s.target.Meshes = []model.Mesh{sidecars(), annotated()}
	pod := func(in ...model.Mesh) *corev1.Pod {
		s.around.Meshes = in
		return s.manifest("n1", top.Nodes()[0].Pods[0])
	}
	if p := pod(); p.Labels["sidecar.istio.io/inject"] != "false" || p.Annotations["linkerd.io/inject"] != "disabled" || *p.Spec.AutomountServiceAccountToken {
		t.Errorf("in none: %+v", p.ObjectMeta)
	}
	if p := pod(sidecars()); p.Labels["sidecar.istio.io/inject"] != "true" || p.Annotations["linkerd.io/inject"] != "disabled" {
		t.Errorf("in istio: %+v", p.ObjectMeta)
	}
	if p := pod(annotated()); p.Labels["sidecar.istio.io/inject"] != "false" || p.Annotations["linkerd.io/inject"] != "enabled" || !*p.Spec.AutomountServiceAccountToken {
		t.Errorf("in linkerd: %+v", p.ObjectMeta)
	}
	s.target.Meshes = nil
	if p := pod(); len(p.Annotations) != 0 || p.Labels["sidecar.istio.io/inject"] != "" {
		t.Errorf("in a run without meshes: %+v", p.ObjectMeta)
	}
}

// The run's own namespace is switched for each trial; one that is given is not
// touched.
func TestNamespaceIsSwitched(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	own := &cluster{context: "a", client: client}
	target := New(model.Kube{}, Options{Meshes: []model.Mesh{sidecars(), annotated()}})
	target.clusters = []*cluster{own, {context: "b", namespace: "given"}} // without a client: a call would be a panic
	if err := target.claim(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	marks := func(in ...model.Mesh) string {
		if err := target.turn(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		ns, err := client.CoreV1().Namespaces().Get(t.Context(), own.namespace, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return ns.Labels["pod-security.kubernetes.io/enforce"] + " " + ns.Labels["istio-injection"] + " " + ns.Annotations["linkerd.io/inject"]
	}
	for _, tt := range []struct {
		want string
		in   []model.Mesh
	}{
		{"privileged  ", nil},
		{"privileged enabled ", []model.Mesh{sidecars()}},
		{"privileged  enabled", []model.Mesh{annotated()}},
		{"privileged  ", nil},
	} {
		if got := marks(tt.in...); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
	if switches(nil, nil) != nil {
		t.Error("a run without meshes has nothing to say")
	}
}

func deployment(ready int32) *appsv1.Deployment {
	wants := int32(2)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "istiod", Namespace: "istio-system"},
		Spec:       appsv1.DeploymentSpec{Replicas: &wants, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "pilot:1.30.3"}}}}},
		Status:     appsv1.DeploymentStatus{AvailableReplicas: ready},
	}
}

// oneIn is a site with one pod, which a mesh may have taken.
func oneIn(t *testing.T, pod *corev1.Pod, others ...runtime.Object) (*site, *fake.Clientset) {
	t.Helper()
	pod.Name, pod.Namespace, pod.Labels = "s1-7", "n", map[string]string{labelRun: "1", labelTrial: "7"}
	client := fake.NewClientset(append(others, pod)...)
	return made(topology([]model.Node{node("n1", "s1")}), &cluster{context: "a", namespace: "n", client: client}, false, nil), client
}

func TestJoined(t *testing.T) {
	t.Parallel()
	with := func(name string) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: name, Image: "proxyv2:1.30.3"}}}}
	}
	s, _ := oneIn(t, with("istio-proxy"), deployment(2))
	l, err := s.Joined(t.Context(), sidecars())
	var values []string
	for _, f := range l {
		values = append(values, f.Value)
	}
	want := "sidecar, as found; 2 ready, pilot:1.30.3; none; istio-proxy in all pods, proxyv2:1.30.3"
	if got := strings.Join(values, "; "); err != nil || got != want {
		t.Errorf("%s, %v", got, err)
	}
	for name, tt := range map[string]struct {
		pod    *corev1.Pod
		others []runtime.Object
		mesh   model.Mesh
		is     error
		text   string
	}{
		"no control plane": {with("istio-proxy"), nil, sidecars(), model.ErrUnsupported, "there is no Deployment istiod in namespace istio-system"},
		"not ready":        {with("istio-proxy"), []runtime.Object{deployment(1)}, sidecars(), model.ErrTarget, "1 of 2 pods are ready"},
		"not injected":     {with("other"), []runtime.Object{deployment(2)}, sidecars(), model.ErrUnsupported, "the pod s1-7 got no container istio-proxy"},
		"not annotated":    {with("other"), nil, annotated(), model.ErrUnsupported, "did not get the annotation taken=yes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := oneIn(t, tt.pod, tt.others...)
			ctx, cancel := context.WithTimeout(t.Context(), 10*poll)
			defer cancel()
			if _, err := s.Joined(ctx, tt.mesh); !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%v, want %q", err, tt.text)
			}
		})
	}
}

// What may not be looked at costs a fact, not the run; a node's agent may take
// pods later.
func TestJoinedWaits(t *testing.T) {
	t.Parallel()
	s, client := oneIn(t, &corev1.Pod{})
	client.PrependReactor("get", "*", func(a k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: a.GetResource().Resource}, "x", errors.New("no"))
	})
	looked := 0
	client.PrependReactor("list", "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
		looked++
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "s1-7", Labels: map[string]string{labelRun: "1", labelTrial: "7"}}}
		if looked > 2 {
			p.Annotations = map[string]string{"taken": "yes"}
		}
		return true, &corev1.PodList{Items: []corev1.Pod{p}}, nil
	})
	m := annotated()
	m.Workloads = sidecars().Workloads
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := s.Joined(ctx, m)
	if err != nil || looked < 3 || !strings.Contains(l[1].Value, "not looked at: no permission to read the Deployment istiod") {
		t.Errorf("looked %d times: %+v, %v", looked, l, err)
	}
}

const exposition = `# TYPE istio_requests_total counter
istio_requests_total{reporter="source",connection_security_policy="unknown"} 3
istio_requests_total{reporter="destination",connection_security_policy="mutual_tls",source_principal="spiffe://c/ns/n/sa/default"} 40
istio_requests_total{reporter="destination",connection_security_policy="none",srv_port="4191"} 7
istio_requests_total{reporter="destination",connection_security_policy="none"} 0
istio_tcp_connections_opened_total{reporter="destination",connection_security_policy="mutual_tls"} 2
other{le="+Inf"} 1
`

func counters() model.Counters {
	return model.Counters{
		Metrics: []string{"istio_requests_total", "istio_tcp_connections_opened_total", "absent"},
		Client:  map[string]string{"reporter": "source"}, Server: map[string]string{"reporter": "destination"}, Except: map[string]string{"srv_port": "4191"},
		Secure: [2]string{"connection_security_policy", "mutual_tls"}, Peer: "source_principal",
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	sum := tally{peers: map[string]bool{}}
	for _, client := range []bool{true, false} {
		one, err := count([]byte(exposition), counters(), client)
		if err != nil {
			t.Fatal(err)
		}
		sum.add(one)
	}
	if sum.client != 3 || sum.server != 42 || sum.secure != 42 {
		t.Errorf("%+v", sum)
	}
	values := func(t tally) (all []string) {
		for _, f := range t.facts(model.Mesh{Name: "istio"}) {
			all = append(all, f.Key+": "+f.Value)
		}
		return all
	}
	want := []string{model.FactProxies + ": 2", model.FactMTLS + ": mutual TLS", "client as the server's proxy knows it: spiffe://c/ns/n/sa/default"}
	if diff := cmp.Diff(want, values(sum)); diff != "" {
		t.Error(diff)
	}
	for _, tt := range []struct {
		t    tally
		want string
	}{
		{tally{client: 1, server: 4, secure: 3}, "mutual TLS for 3 of 4"},
		{tally{server: 4}, "none"},
	} {
		if got := values(tt.t); got[1] != model.FactMTLS+": "+tt.want {
			t.Errorf("%v, want %s", got, tt.want)
		}
	}
	if got := values(tally{client: 1}); len(got) != 1 || got[0] != model.FactProxies+": 1" {
		t.Errorf("%v: nothing is known of TLS where the server's proxy saw nothing", got)
	}
}

// plain is of an Istio without its telemetry: connections and handshakes of Envoy.
const plain = `# TYPE envoy_cluster_upstream_cx_total counter
envoy_cluster_upstream_cx_total{cluster_name="xds-grpc"} 1
envoy_cluster_upstream_cx_total{cluster_name="outbound|80||server-7.n.svc.cluster.local"} 8
# TYPE envoy_listener_downstream_cx_total counter
envoy_listener_downstream_cx_total{listener_address="0.0.0.0_15006"} 4
envoy_listener_downstream_cx_total{listener_address="0.0.0.0_15021"} 9
# TYPE envoy_listener_ssl_handshake counter
envoy_listener_ssl_handshake{listener_address="0.0.0.0_15006"} 4
# TYPE envoy_listener_ssl_no_certificate counter
envoy_listener_ssl_no_certificate{listener_address="0.0.0.0_15006"} 1
`

func TestCountWithoutTelemetry(t *testing.T) {
	t.Parallel()
	c := counters()
	c.Else = &model.Counters{
		Metrics: []string{"envoy_cluster_upstream_cx_total", "envoy_listener_downstream_cx_total"},
		Client:  map[string]string{"cluster_name": "outbound|*"}, Server: map[string]string{"listener_address": "0.0.0.0_15006"},
		Handshakes: "envoy_listener_ssl_handshake", Anonymous: "envoy_listener_ssl_no_certificate",
	}
	client, err := count([]byte(plain), c, true)
	if err != nil || client.client != 8 || client.secure != 0 {
		t.Errorf("at the client: %+v, %v", client, err)
	}
	server, err := count([]byte(plain), c, false)
	if err != nil || server.server != 4 || server.secure != 3 {
		t.Errorf("at the server, where one of four handshakes was without a certificate: %+v, %v", server, err)
	}
	if both, err := count([]byte(exposition+plain), c, false); err != nil || both.server != 42 {
		t.Errorf("the mesh's own metrics come first: %+v, %v", both, err)
	}
}

func FuzzCount(f *testing.F) {
	f.Add([]byte(exposition))
	f.Add([]byte("a{b=\"\xff\"} NaN\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, client := range []bool{true, false} {
			one, err := count(raw, counters(), client)
			if err == nil && client && one.server+one.secure != 0 {
				t.Errorf("a client's proxy counted what a server's does: %+v", one)
			}
		}
	})
}

// charts keeps what it is asked for.
type charts struct {
	there map[string]bool
	did   []string
	fail  string
}

func (c *charts) Exists(_ context.Context, _ *rest.Config, release, namespace string) (bool, error) {
	return c.there[namespace+"/"+release], nil
}

func (c *charts) Install(_ context.Context, _ *rest.Config, chart model.Chart) error {
	if chart.Release == c.fail {
		return errors.New("no such chart")
	}
	c.there[chart.Namespace+"/"+chart.Release] = true
	c.did = append(c.did, "+"+chart.Release)
	return nil
}

func (c *charts) Uninstall(_ context.Context, _ *rest.Config, release, namespace string) error {
	delete(c.there, namespace+"/"+release)
	c.did = append(c.did, "-"+release)
	return nil
}

func installing() model.Mesh {
	m := sidecars()
	m.Charts = []model.Chart{{Release: "base", Namespace: "istio-system"}, {Release: "istiod", Namespace: "istio-system"}}
	return m
}

// A run installs once what several variants need, writes it down, and removes it
// last first, with the namespace that it made. So does whoever finds a dead run.
func TestInstall(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	helm := &charts{there: map[string]bool{}}
	begin := func() (*Target, *cluster) {
		c := &cluster{context: "a", client: client}
		target := New(model.Kube{}, Options{Meshes: []model.Mesh{installing(), installing()}, Charts: helm, Run: "s"})
		target.clusters = []*cluster{c}
		if err := target.claim(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		c.owner = "u" // the fake gives none
		if err := target.install(t.Context()); err != nil {
			t.Fatal(err)
		}
		return target, c
	}
	target, c := begin()
	if err := target.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"+base", "+istiod", "-istiod", "-base"}
	if diff := cmp.Diff(want, helm.did); diff != "" || len(c.installed) != 0 {
		t.Error(diff)
	}
	target, c = begin()
	var wrote []installed
	owner, err := client.CoreV1().ConfigMaps(c.namespace).Get(t.Context(), prefix+target.id, metav1.GetOptions{})
	if err == nil {
		err = json.Unmarshal([]byte(owner.Data[keyInstalled]), &wrote)
	}
	if err != nil || len(wrote) != 2 || !wrote[0].Made || wrote[1].Made {
		t.Errorf("written down: %+v, %v", wrote, err)
	}
	owner.Annotations[noteHolder], owner.Annotations[noteRenewed] = "elsewhere/x/1", time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	if _, err = client.CoreV1().ConfigMaps(c.namespace).Update(t.Context(), owner, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	sweeper := New(model.Kube{}, Options{Charts: helm})
	sweeper.clusters = []*cluster{{context: "a", client: client}}
	if removed, failure := sweeper.sweep(t.Context(), true); failure != nil || len(removed) != 1 || len(helm.there) != 0 {
		t.Errorf("%v, %v; still there: %v", removed, failure, helm.there)
	}
	left, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) != 0 {
		t.Errorf("left: %+v, %v", left.Items, err)
	}
}

func TestInstallRefuses(t *testing.T) {
	t.Parallel()
	for want, helm := range map[string]*charts{
		"it exists already":        {there: map[string]bool{"istio-system/istiod": true}},
		"installing istio needs a": {there: map[string]bool{}, fail: "istiod"},
	} {
		c := &cluster{context: "a", client: fake.NewClientset()}
		target := New(model.Kube{}, Options{Meshes: []model.Mesh{installing()}, Charts: helm})
		target.clusters = []*cluster{c}
		if err := target.claim(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		c.owner = "u" // the fake gives none
		if err := target.install(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if err := target.Close(t.Context()); err != nil || slices.Contains(helm.did, "+base") != slices.Contains(helm.did, "-base") {
			t.Errorf("did %v, %v", helm.did, err)
		}
	}
	none := New(model.Kube{}, Options{Meshes: []model.Mesh{installing()}})
	if err := none.install(t.Context()); err == nil {
		t.Error("nobody can install, and nobody said so")
	}
}
