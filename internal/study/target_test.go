package study

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/model"
)

func TestTargetOfClusters(t *testing.T) {
	t.Parallel()
	text := strings.Replace(full, "target: lab", "target: {kube: {contexts: [a, b], namespace: wt, image: i, nodes: {}}}", 1)
	s, err := Parse("f.yaml", []byte(text), catalog())
	if err != nil {
		t.Fatal(err)
	}
	want := &model.Kube{Contexts: []string{"a", "b"}, Namespace: "wt", Image: "i", Nodes: map[string]string{}}
	if diff := cmp.Diff(want, s.Kube); s.Target != model.TargetKube || diff != "" {
		t.Errorf("target %s (-want +got):\n%s", s.Target, diff)
	}
	text = strings.Replace(text, "nodes: {}", "nodes: {moon: worker-1}", 1)
	if _, err := Parse("f.yaml", []byte(text), catalog()); err == nil || !strings.Contains(err.Error(), "target.kube.nodes.moon: is no node of the topology") {
		t.Errorf("an unknown node: %v", err)
	}
}

func TestVariantsOfOtherTargets(t *testing.T) {
	t.Parallel()
	s := model.Study{
		Target: model.TargetKube, Baseline: "direct",
		Variants: []model.Variant{{Name: "direct"}, {Name: "envoy", Targets: []string{"lab"}}, {Name: "both", Targets: []string{"lab", "kube"}}},
		Gates:    []model.Gate{{Variant: "envoy"}, {Variant: "both"}},
	}
	got, err := OnTarget(s)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Variants) != 2 || got.Variants[1].Name != "both" || len(got.Gates) != 1 || got.Gates[0].Variant != "both" {
		t.Errorf("got %+v", got)
	}
	want := []model.Skipped{{Variant: "envoy", Reason: "it runs on lab only; this run is on kube"}}
	if diff := cmp.Diff(want, got.Skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
	s.Baseline = "envoy"
	if _, err := OnTarget(s); err == nil || !strings.Contains(err.Error(), "the baseline envoy runs on lab only") {
		t.Errorf("a baseline of another target: %v", err)
	}
}
