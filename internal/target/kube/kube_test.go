package kube

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/podside"
)

func topology(clusters ...[]model.Node) model.Topology {
	t := model.Topology{Regions: []model.Region{{Name: "r"}}}
	for i, nodes := range clusters {
		t.Regions[0].Clusters = append(t.Regions[0].Clusters, model.Cluster{Name: "c" + strconv.Itoa(i), Nodes: nodes})
	}
	return t
}

func node(name string, pods ...string) model.Node {
	n := model.Node{Name: name}
	for _, p := range pods {
		role := roleServer
		if strings.HasPrefix(p, "client") {
			role = model.RoleClient
		}
		n.Pods = append(n.Pods, model.PodSpec{Name: p, Role: role})
	}
	return n
}

func TestAssign(t *testing.T) {
	t.Parallel()
	a, b := &cluster{context: "a"}, &cluster{context: "b"}
	two := topology([]model.Node{node("n0")}, []model.Node{node("n1")})
	places, err := assign(two, []*cluster{a, b})
	if err != nil || places["n0"].cluster != a || places["n1"].cluster != b || places["n1"].zoned {
		t.Errorf("a context for each: %+v, %v", places, err)
	}
	places, err = assign(two, []*cluster{a})
	if err != nil || places["n1"].cluster != a || !places["n0"].zoned || places["n1"].name != "c1" {
		t.Errorf("one context for both: %+v, %v", places, err)
	}
	if places, err = assign(topology([]model.Node{node("n0")}), []*cluster{a}); err != nil || places["n0"].zoned {
		t.Errorf("one for one: %+v, %v", places, err)
	}
	if _, err = assign(topology([]model.Node{node("n0")}), []*cluster{a, b}); !errors.Is(err, model.ErrUnsupported) {
		t.Errorf("two contexts for one cluster: %v", err)
	}
}

func TestAffinity(t *testing.T) {
	t.Parallel()
	known := affinity(nil, "n0", "worker-3", place{})
	if f := known.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0]; f.Values[0] != "worker-3" || known.PodAffinity != nil {
		t.Errorf("on a node that is known: %+v", known)
	}
	site := map[string]string{"s": "1"}
	free := affinity(site, "n0", "", place{name: "c0", zoned: true})
	with, without := free.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, free.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if len(with) != 2 || len(without) != 2 || free.NodeAffinity != nil {
		t.Fatalf("%+v", free)
	}
	first := without[0].LabelSelector
	if first.MatchLabels["s"] != "1" || first.MatchExpressions[0].Key != labelNode || first.MatchExpressions[0].Operator != metav1.LabelSelectorOpNotIn || without[1].TopologyKey != keyZone {
		t.Errorf("%+v", without)
	}
	if plain := affinity(site, "n0", "", place{}); len(plain.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) != 1 {
		t.Errorf("without zones: %+v", plain)
	}
}

// made is a site whose pods are where on says, by pod.
func made(top model.Topology, c *cluster, zoned bool, on map[string]string) *site {
	s := &site{
		target: &Target{id: "1", placement: map[string]string{}, clusters: []*cluster{c}}, topology: top, trial: "7",
		places: map[string]place{}, pods: map[string]*pod{}, services: map[string]model.Service{},
	}
	for _, cl := range top.Regions[0].Clusters {
		for _, n := range cl.Nodes {
			s.places[n.Name] = place{cluster: c, name: cl.Name, zoned: zoned}
			for i, p := range n.Pods {
				at, zone, _ := strings.Cut(on[p.Name], "/")
				s.pods[p.Name] = &pod{
					site: s, name: p.Name, object: p.Name + "-7", role: p.Role, cluster: c, node: at, zone: zone,
					addr: netip.AddrFrom4([4]byte{10, 0, byte(len(s.pods)), byte(i)}), probe: &probe{},
				}
			}
		}
	}
	return s
}

func TestPlacementIsAsserted(t *testing.T) {
	t.Parallel()
	c := &cluster{context: "a", client: fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "bare"}})}
	one := topology([]model.Node{node("n0", "client"), node("n1", "s1", "s2"), node("n2")})
	zones := topology([]model.Node{node("n0", "client")}, []model.Node{node("n1", "s1", "s2")})
	tests := map[string]struct {
		top   model.Topology
		zoned bool
		real  map[string]string
		want  string
	}{
		"right":          {one, false, map[string]string{"client": "x", "s1": "y", "s2": "y"}, ""},
		"apart":          {one, false, map[string]string{"client": "x", "s1": "y", "s2": "z"}, "pods of node n1 are on the nodes y and z"},
		"together":       {one, false, map[string]string{"client": "x", "s1": "x", "s2": "x"}, "the nodes n0 and n1 of the topology are both on node x"},
		"zones":          {zones, true, map[string]string{"client": "x/z1", "s1": "y/z2", "s2": "y/z2"}, ""},
		"one zone":       {zones, true, map[string]string{"client": "x/z1", "s1": "y/z1", "s2": "y/z1"}, "are both in zone z1"},
		"no zone":        {zones, true, map[string]string{"client": "bare", "s1": "y/z1", "s2": "y/z1"}, "has no label " + keyZone},
		"hidden zone":    {zones, true, map[string]string{"client": "hidden", "s1": "y/z1", "s2": "y/z1"}, "to read the zone of node hidden"},
		"zones ignored":  {one, false, map[string]string{"client": "x/z1", "s1": "y/z1", "s2": "y/z1"}, ""},
		"not the client": {one, false, map[string]string{"client": "y", "s1": "y", "s2": "y"}, "are both on node y"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := made(tt.top, c, tt.zoned, tt.real)
			err := s.checkPlacement(t.Context())
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			if tt.want != "" {
				return
			}
			if got := PlacementOf(s.Facts()); !cmp.Equal(got, s.target.placement) || got["n1"] != "y" {
				t.Errorf("from the ledger %v, kept %v", got, s.target.placement)
			}
		})
	}
}

func TestStuck(t *testing.T) {
	t.Parallel()
	waiting := func(reason string) corev1.PodStatus {
		return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "m"}}}}}
	}
	unscheduled := corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "m"}}}
	tests := map[string]struct {
		status corev1.PodStatus
		after  time.Duration
		final  bool
		why    string
	}{
		"creating":       {waiting("ContainerCreating"), time.Hour, false, "ContainerCreating: m"},
		"pulled at once": {waiting("ImagePullBackOff"), time.Second, false, "ImagePullBackOff: m"},
		"not pulled":     {waiting("ImagePullBackOff"), time.Minute, true, "ImagePullBackOff: m"},
		"never":          {waiting("ErrImageNeverPull"), 0, true, "ErrImageNeverPull: m"},
		"not yet":        {unscheduled, time.Second, false, "Unschedulable: m"},
		"unschedulable":  {unscheduled, time.Minute, true, "Unschedulable: m"},
		"evicted":        {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "m"}, 0, true, "Evicted m"},
		"nothing":        {corev1.PodStatus{}, time.Hour, false, ""},
	}
	for name, tt := range tests {
		why, final := stuck(&corev1.Pod{Status: tt.status}, tt.after)
		if why != tt.why || final != tt.final {
			t.Errorf("%s: %q, %v", name, why, final)
		}
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	c := &cluster{context: "a", namespace: "n"}
	pods := schema.GroupResource{Resource: "pods"}
	for hint, err := range map[string]error{
		"raise the quota of namespace n":      apierrors.NewForbidden(pods, "p", errors.New("exceeded quota: few, requested: pods=1")),
		"deploy/rbac.yaml has the":            apierrors.NewForbidden(pods, "p", errors.New("no")),
		"give --namespace with one":           apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "p", errors.New("no")),
		"level restricted":                    apierrors.NewForbidden(pods, "p", errors.New(`violates PodSecurity "restricted:latest"`)),
		"log in again":                        apierrors.NewUnauthorized("no"),
		"an admission webhook of the cluster": errors.New(`admission webhook "x" denied the request`),
	} {
		got := c.explain("doing", err)
		if !errors.Is(got, model.ErrTarget) || !strings.Contains(got.Error(), hint) || !strings.Contains(got.Error(), "context a: doing: ") {
			t.Errorf("%v: no %q", got, hint)
		}
	}
}

func TestTryWaitsForTheServerOnly(t *testing.T) {
	t.Parallel()
	c := &cluster{context: "a"}
	calls := 0
	err := c.try(t.Context(), "doing", func(context.Context) error {
		if calls++; calls == 1 {
			return apierrors.NewServiceUnavailable("starting")
		}
		return nil
	})
	if err != nil || calls != 2 {
		t.Errorf("a server that comes back: %v after %d calls", err, calls)
	}
	calls = 0
	err = c.try(t.Context(), "doing", func(context.Context) error { calls++; return apierrors.NewUnauthorized("no") })
	if !errors.Is(err, model.ErrTarget) || calls != 1 {
		t.Errorf("a refusal: %v after %d calls", err, calls)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = c.try(ctx, "doing", func(context.Context) error { return apierrors.NewServiceUnavailable("starting") })
	if !errors.Is(err, model.ErrTarget) || !strings.Contains(err.Error(), "did not answer for") {
		t.Errorf("a server that stays away: %v", err)
	}
}

func TestLives(t *testing.T) {
	t.Parallel()
	now := time.Now()
	at := func(ago time.Duration) string { return now.Add(-ago).UTC().Format(time.RFC3339) }
	own := strings.TrimSuffix(holder(), strconv.Itoa(os.Getpid()))
	tests := map[string]struct {
		notes map[string]string
		asked bool
		want  bool
	}{
		"this process":        {map[string]string{noteHolder: holder()}, true, true},
		"a dead one":          {map[string]string{noteHolder: own + "999999999", noteRenewed: at(0)}, false, false},
		"of another host":     {map[string]string{noteHolder: "x/y/1", noteRenewed: at(time.Second)}, true, true},
		"abandoned":           {map[string]string{noteHolder: "x/y/1", noteRenewed: at(time.Hour)}, true, false},
		"abandoned, unasked":  {map[string]string{noteHolder: "x/y/1", noteRenewed: at(time.Hour)}, false, true},
		"without any, asked":  {nil, true, false},
		"without any, really": {nil, false, true},
	}
	for name, tt := range tests {
		if got := lives(tt.notes, tt.asked, now); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestClaimAndSweep(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: map[string]string{labelManaged: managed, labelRun: "1"}}})
	c := &cluster{context: "a", client: client}
	dead := New(model.Kube{}, Options{Run: "old"})
	dead.id, dead.clusters = "dead", []*cluster{c}
	if err := dead.claim(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	ns, err := client.CoreV1().Namespaces().Get(t.Context(), "windtunnel-dead", metav1.GetOptions{})
	if err != nil || ns.Labels["pod-security.kubernetes.io/enforce"] != "restricted" || ns.Labels[labelManaged] != managed {
		t.Fatalf("%+v, %v", ns, err)
	}
	sweeper := New(model.Kube{}, Options{})
	sweeper.clusters = []*cluster{{context: "a", client: client}}
	removed, err := sweeper.sweep(t.Context(), true)
	if err != nil || len(removed) != 0 {
		t.Errorf("a run that lives: %v, %v", removed, err)
	}
	owner, err := client.CoreV1().ConfigMaps(ns.Name).Get(t.Context(), ns.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owner.Annotations[noteHolder], owner.Annotations[noteRenewed] = "elsewhere/x/1", time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	if _, err = client.CoreV1().ConfigMaps(ns.Name).Update(t.Context(), owner, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	removed, err = sweeper.sweep(t.Context(), true)
	if err != nil || len(removed) != 1 || !strings.Contains(removed[0], "run dead of study old") {
		t.Errorf("a run that is dead: %v, %v", removed, err)
	}
	left, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) != 1 || left.Items[0].Name != "other" {
		t.Errorf("left: %+v, %v", left, err)
	}
}

func TestManifestIsRestricted(t *testing.T) {
	t.Parallel()
	top := topology([]model.Node{node("n0", "client"), node("n1", "s1")})
	top.Services = []model.Service{{Name: "server", Pods: []string{"s1"}}}
	s := made(top, &cluster{context: "a", namespace: "n", owner: "u"}, false, nil)
	p := s.manifest("n1", top.Nodes()[1].Pods[0])
	security := p.Spec.Containers[0].SecurityContext
	if !*security.RunAsNonRoot || *security.RunAsUser == 0 || *security.AllowPrivilegeEscalation || !*security.ReadOnlyRootFilesystem || security.Capabilities.Drop[0] != "ALL" ||
		p.Spec.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || *p.Spec.AutomountServiceAccountToken {
		t.Errorf("%+v", p.Spec)
	}
	if p.OwnerReferences[0].UID != "u" || p.Labels[serviceLabel("server")] != "yes" || p.Labels[labelRun] != "1" || p.Spec.Containers[0].Name != "app" || p.Name != "s1-7" {
		t.Errorf("%+v", p.ObjectMeta)
	}
	if client := s.manifest("n0", top.Nodes()[0].Pods[0]); client.Labels[serviceLabel("server")] != "" || client.Spec.Containers[0].Name != "generator" {
		t.Errorf("%+v", client.ObjectMeta)
	}
}

func TestSliceOfOtherClusters(t *testing.T) {
	t.Parallel()
	near, far := &cluster{context: "a", namespace: "n"}, &cluster{context: "b", namespace: "n"}
	s := made(topology([]model.Node{node("n0", "client", "s1"), node("n1", "s2")}), near, false, nil)
	s.pods["s2"].cluster = far
	e := exposed{service: model.Service{Name: "server", TargetPort: 8080, Pods: []string{"s1", "s2"}}, cluster: near, object: "server-7"}
	here, there := s.split(e)
	if len(here) != 1 || here[0].name != "s1" || len(there) != 1 || there[0].name != "s2" {
		t.Fatalf("here %v, there %v", here, there)
	}
	slice := s.slice(e, there)
	if slice.Labels[discoveryv1.LabelServiceName] != "server-7" || slice.Endpoints[0].Addresses[0] != s.pods["s2"].addr.String() || *slice.Ports[0].Port != 8080 {
		t.Errorf("%+v", slice)
	}
	s.pods["other"] = &pod{role: model.RoleClient, cluster: far}
	if _, err := s.Expose(t.Context()); err != nil {
		t.Errorf("without services there is nothing to refuse: %v", err)
	}
	s.topology.Services = []model.Service{e.service}
	if _, err := s.Expose(t.Context()); !errors.Is(err, model.ErrUnsupported) {
		t.Errorf("clients in two clusters: %v", err)
	}
}

func TestProxyMode(t *testing.T) {
	t.Parallel()
	for want, config := range map[string]string{
		"mode nftables": "kind: KubeProxyConfiguration\nmode: nftables\n", "mode iptables": "kind: KubeProxyConfiguration\nmode: \"\"\n", "does not say": "kind: x\n",
	} {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kube-proxy", Namespace: "kube-system"}, Data: map[string]string{"config.conf": config}}
		if got := (&cluster{client: fake.NewClientset(m)}).proxyMode(t.Context()); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := (&cluster{client: fake.NewClientset()}).proxyMode(t.Context()); !strings.Contains(got, "not known (no ConfigMap") {
		t.Errorf("got %q", got)
	}
}

const oneSummary = `{"node": {"nodeName": "a1"}, "pods": [
 {"podRef": {"name": "s1-7", "namespace": "n", "uid": "x"}, "containers": [
  {"name": "app", "startTime": "2026-11-21T16:59:00Z", "cpu": {"time": "2026-11-21T17:00:10Z", "usageNanoCores": 5, "usageCoreNanoSeconds": 2500000000}},
  {"name": "istio-proxy", "cpu": {"time": "2026-11-21T17:00:10Z", "usageCoreNanoSeconds": 1500000000}, "memory": {"time": "2026-11-21T17:00:11Z", "usageBytes": 4096, "workingSetBytes": 2048}},
  {"name": "quiet", "cpu": {"time": "2026-11-21T17:00:10Z"}}]},
 {"podRef": {"name": "s1-7", "namespace": "another"}, "containers": [{"name": "istio-proxy", "cpu": {"time": "2026-11-21T17:00:10Z", "usageCoreNanoSeconds": 1}}]}]}`

func TestReadingsOfOthersContainers(t *testing.T) {
	t.Parallel()
	sum, err := parseSummary([]byte(oneSummary))
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{namespace: "n"}
	s := made(topology([]model.Node{node("n0", "s1")}), c, false, nil)
	at := time.Date(2026, 11, 21, 17, 0, 10, 0, time.UTC)
	wall := at.Add(-time.Hour).UnixNano() // the reference's monotonic clock was 0 then
	hour := time.Hour.Nanoseconds()
	want := []model.Reading{
		{At: hour, Subject: "s1/sidecar", Metric: model.SampleCPU, Value: 1.5},
		{At: hour + time.Second.Nanoseconds(), Subject: "s1/sidecar", Metric: model.SampleMemory, Value: 4096},
	}
	if diff := cmp.Diff(want, s.readings(c, sum, wall)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s.pods["s1"].hello = podside.Hello{Missing: "no control group"}
	if got := s.readings(c, sum, wall); len(got) != 3 || got[0].Subject != "s1/app" || got[0].Value != 2.5 {
		t.Errorf("where nothing is read from within: %+v", got)
	}
}

func FuzzSummary(f *testing.F) {
	f.Add([]byte(oneSummary))
	f.Add([]byte(`{"pods": [{"containers": [{"cpu": {"usageCoreNanoSeconds": -1}}]}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		sum, err := parseSummary(raw)
		if err != nil {
			return
		}
		if _, err := json.Marshal(sum.Pods); err != nil && !strings.Contains(err.Error(), "year outside") {
			t.Error(err)
		}
		s := made(topology([]model.Node{node("n0", "s1")}), &cluster{namespace: "n"}, false, nil)
		_ = s.readings(s.target.clusters[0], sum, 0)
	})
}
