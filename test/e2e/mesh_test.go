package e2e

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// across is the study of two clusters, by EndpointSlices of ours.
func across(layer string) string {
	one := strings.Replace(apart, "{name: nft-service, stack: [nft-service]}", "{name: over, stack: ["+layer+"]}", 1)
	return strings.Replace(one, "{name: c2, role: client}", "{name: s0, role: server}", 1)
}

func TestEndpointSlices(t *testing.T) { //nolint:paralleltest // the clusters share this host
	l := newLab(t)
	study := strings.Replace(across("endpointslices"), ", from: [c1, c2]", ", from: c1", 1)
	l.do(l.windtunnel, "run", l.study(study), "--quiet", "--out", run)
	l.good(12)
	l.has(l.records(), "Service of cluster near, over 3 pods in 2 clusters", "address of server")
}

// What clusters do not have is said before the first trial, or at the first.
func TestMeshesThatAreNotThere(t *testing.T) { //nolint:paralleltest // the clusters share this host
	l := newLab(t)
	for layer, missing := range map[string]string{"istio": "Deployment istiod in namespace istio-system", "linkerd": "Deployment linkerd-destination in namespace linkerd"} {
		study := strings.Replace(small, "[nft-service]}", "["+layer+"]}", 1)
		l.refused(study, 4, nil, "the mesh "+layer+" in context a", "there is no "+missing, "installed: helm")
	}
	out, err := l.try(l.windtunnel, "run", l.study(strings.Replace(across("mcs"), ", from: [c1, c2]", ", from: c1", 1)), "--quiet", "--out", run)
	if code(err) != 4 {
		t.Errorf("exit code %d:\n%s", code(err), out)
	}
	l.has(out, "does not have the API multicluster.x-k8s.io/v1alpha1 ServiceExport")
}

// installing is a study whose mesh is a chart of ours that stands for Cilium's.
func installing(t *testing.T) string {
	t.Helper()
	chart, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(small, "stack: [nft-service]}", "stack: [{cilium: {installed: helm, chart: "+chart+"}}]}", 1)
}

// chartLeft is what of the chart is in the cluster.
func (l lab) chartLeft() string {
	return l.kubectl("a", "-n", "kube-system", "get", "deployments,daemonsets,configmaps,secrets", "-o", "name")
}

func TestHelm(t *testing.T) { //nolint:paralleltest // the clusters share this host
	l := newLab(t)
	l.do(l.windtunnel, "run", l.study(installing(t)), "--quiet", "--out", run)
	l.good(12)
	l.has(l.records(), "node, installed by Helm for this run", "2 ready, localhost/windtunnel:latest", "Kubernetes' own ClusterIP over 2 endpoints")
	var files []string
	err := filepath.WalkDir(filepath.Join(l.in, run), func(path string, _ fs.DirEntry, err error) error {
		files = append(files, path)
		return err
	})
	if all := strings.Join(files, "\n"); err != nil || !strings.Contains(all, "cilium-config") {
		t.Errorf("no live configuration in the run folder: %v\n%s", err, all)
	}
	if left := l.chartLeft(); strings.Contains(left, "cilium") {
		t.Errorf("left:\n%s", left)
	}
}

// What a killed run has installed goes with `clean`.
func TestCleanUninstalls(t *testing.T) { //nolint:paralleltest // the clusters share this host
	l := newLab(t)
	cmd := exec.CommandContext(t.Context(), l.windtunnel, "run", l.study(installing(t)), "--quiet", "--out", run)
	cmd.Dir = l.in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	l.until(func() bool {
		raw, err := os.ReadFile(filepath.Join(l.in, run, "records.jsonl"))
		return err == nil && bytes.Contains(raw, []byte(`"outcome"`))
	})
	l.has(l.chartLeft(), "daemonset.apps/cilium", "secret/sh.helm.release.v1.cilium.v1")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	l.has(l.do(l.windtunnel, "clean", "--target", "kube", "--context", "a"), "removed context a: run")
	if left := l.chartLeft(); strings.Contains(left, "cilium") {
		t.Errorf("left:\n%s", left)
	}
}
