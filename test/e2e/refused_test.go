package e2e

import (
	"os"
	"strings"
	"testing"
)

// namespace makes one for a test.
func (l lab) namespace(name string) {
	l.t.Helper()
	l.apply("a", "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+name+", labels: {pod-security.kubernetes.io/enforce: restricted}}\n")
	l.t.Cleanup(func() { l.kubectl("a", "delete", "namespace", name) })
}

// refused runs a study that cannot work, and checks how that is said.
func (l lab) refused(study string, wanted int, args []string, says ...string) {
	l.t.Helper()
	out, err := l.try(l.windtunnel, append([]string{"run", l.study(study), "--quiet", "--out", "refused"}, args...)...)
	if code(err) != wanted {
		l.t.Errorf("exit code %d, want %d:\n%s", code(err), wanted, out)
	}
	l.has(out, says...)
	if _, err := os.Stat(l.in + "/refused"); err == nil {
		l.t.Error("a run folder was made before the first trial could work")
	}
	l.nothingLeft()
}

func TestBadImage(t *testing.T) { //nolint:paralleltest // the clusters share this host
	l := newLab(t)
	l.refused(small, 1, []string{"--image", "localhost/nowhere:1"}, "starting pod", "localhost/nowhere:1", "events: ", "Failed", "make image")
}

func TestQuota(t *testing.T) { //nolint:paralleltest // the clusters share this host
	l := newLab(t)
	l.namespace("wt-quota")
	l.apply("a", "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: few, namespace: wt-quota}\nspec: {hard: {pods: \"1\"}}\n")
	l.refused(small, 1, []string{"--namespace", "wt-quota"}, "exceeded quota: few", "raise the quota of namespace wt-quota")
}

func TestUnschedulable(t *testing.T) { //nolint:paralleltest // the clusters share this host
	l := newLab(t)
	three := strings.Replace(small, "app: {kind: echo, replicas: 2}", `topology:
  regions: [{name: r, clusters: [{name: c, nodes: [
    {name: n0, pods: [{name: client, role: client}]}, {name: n1, pods: [{name: s1, role: server}]}, {name: n2, pods: [{name: s2, role: server}]}]}]}]
app: {kind: echo}`, 1)
	l.refused(three, 1, nil, "Unschedulable", "nodes are available", "events: FailedScheduling", "the topology wants its nodes to be different ones")
}

func TestAdmission(t *testing.T) { //nolint:paralleltest // the clusters share this host
	l := newLab(t)
	l.namespace("wt-limits")
	l.apply("a", "apiVersion: v1\nkind: LimitRange\nmetadata: {name: most, namespace: wt-limits}\nspec: {limits: [{type: Pod, max: {cpu: 10m}}]}\n")
	l.refused(small, 1, []string{"--namespace", "wt-limits"}, "maximum cpu usage per Pod", "limits")
}

func TestWhatKubernetesCannotDo(t *testing.T) { //nolint:paralleltest // the clusters share this host
	l := newLab(t)
	envoy := strings.Replace(small, "[nft-service]}", "[nft-service, envoy]}", 1)
	l.refused(envoy, 4, nil, "the layer envoy of variant nft-service on the target kube is not supported", "targets: [lab]")
	l.refused(strings.Replace(small, "contexts: [a]", "contexts: [a, b]", 1), 4, nil, "a topology of 1 clusters on 2 contexts")
	l.refused(strings.Replace(apart, "contexts: [a, b]", "contexts: [a]", 1), 1, nil, "Unschedulable", "topology")
}

// TestNamespacedPermissions runs as a service account that may do what
// deploy/rbac.yaml says, in one namespace, and nothing else.
func TestNamespacedPermissions(t *testing.T) { //nolint:paralleltest // the clusters share this host
	root := need(t)
	l := newLab(t)
	l.namespace("wt-few-rights")
	l.kubectl("a", "-n", "wt-few-rights", "apply", "-f", root+"/deploy/rbac.yaml")
	token := strings.TrimSpace(l.kubectl("a", "-n", "wt-few-rights", "create", "token", "windtunnel"))
	config := l.do(l.kubelab, "kubectl", "config", "view", "--raw", "--minify", "--context", "a", "-o", "jsonpath={.clusters[0].cluster.server} {.clusters[0].cluster.certificate-authority-data}")
	server, ca, _ := strings.Cut(strings.TrimSpace(config), " ")
	file := l.file("few.kubeconfig", `apiVersion: v1
kind: Config
current-context: a
clusters: [{name: a, cluster: {server: "`+server+`", certificate-authority-data: "`+ca+`"}}]
users: [{name: few, user: {token: "`+token+`"}}]
contexts: [{name: a, context: {cluster: a, user: few}}]
`)
	l.refused(small, 1, []string{"--kubeconfig", file}, "cannot create resource", "give --namespace")
	l.do(l.windtunnel, "run", l.study(small), "--kubeconfig", file, "--namespace", "wt-few-rights", "--quiet", "--out", run)
	l.good(12)
	l.has(l.records(), "cpu_seconds", "the kubelets' summary cannot be read", "deploy/rbac-nodes.yaml", "node a1", "node a2")
}
