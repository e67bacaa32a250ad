package audit

import (
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/model"
)

func TestWhatTheTargetDid(t *testing.T) {
	t.Parallel()
	study := model.Study{Skipped: []model.Skipped{{Variant: "envoy", Reason: "it runs on lab only; this run is on kube"}}}
	lost := model.Outcome{
		Trial: model.Trial{Index: 3, Variant: "direct", Load: "steady"},
		Lost:  []model.Failure{{Step: "running the load", Error: "the stream broke"}},
	}
	found := map[string]model.Finding{}
	for _, f := range Judge(Evidence{Study: study, Outcomes: []model.Outcome{lost}}, Rules()) {
		found[f.Rule] = f
	}
	if f := found["variant left out"]; f.Variant != "envoy" || f.Severity != model.SeverityNote || !strings.Contains(f.Evidence, "it runs on lab only") {
		t.Errorf("of the variant: %+v", f)
	}
	if f := found["target lost"]; f.Severity != model.SeverityNote || !strings.Contains(f.Evidence, "1 times; last while running the load: the stream broke") {
		t.Errorf("of the trial: %+v", f)
	}
	for _, f := range Judge(Evidence{Outcomes: []model.Outcome{{}}}, Rules()) {
		if f.Rule == "variant left out" || f.Rule == "target lost" {
			t.Errorf("for nothing: %+v", f)
		}
	}
}
