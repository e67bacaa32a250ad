package main

import (
	"encoding/csv"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// rate is what is sent in it, in requests/s.
const rate = 100

// regionLoss is the study geo-full with only one load, of 100 requests/s, under
// which the nearer region loses its power for two and a half seconds.
// With each variant it returns how many requests may fail after the heal without
// any other reason than the variant's own settings.
func regionLoss(t *testing.T) (study []byte, variants map[string]float64) {
	t.Helper()
	raw, err := os.ReadFile("../../studies/geo-full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var s map[string]any
	if err = yaml.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	var changed map[string]any
	err = yaml.Unmarshal([]byte(`
faults:
  - {name: dies, events: [{at: 1s, heal: 3500ms, kill: {regions: [singapore]}}]}
loads:
  - {name: lost, protocol: http1, path: /todos, model: open, rate: 100/s, connections: 200, duration: 7s, timeout: 1s, from: client, to: server, fault: dies}
design: {blocks: 6, warmup: 500ms, control: false, seed: 1, primary: [failover.failed]}
`), &changed)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(s, changed)
	delete(s, "published")
	variants = map[string]float64{}
	for _, v := range s["variants"].([]any) { //nolint:forcetypeassert,errcheck // a study that is tested elsewhere
		text, failure := yaml.Marshal(v)
		if failure != nil {
			t.Fatal(failure)
		}
		const (
			soon = rate / 4 // a quarter of a second
			late = rate * 3 // an endpoint is out for 2 s, and the proxy looks every second
		)
		one := v.(map[string]any)["name"].(string) //nolint:forcetypeassert,errcheck // as above
		if variants[one] = soon; strings.Contains(string(text), "outlier_detection") {
			variants[one] = late
		}
	}
	if study, err = yaml.Marshal(s); err != nil {
		t.Fatal(err)
	}
	return study, variants
}

// Whatever the variant, the loss of a region under 100 requests/s costs no more
// than what was due while it was gone, and what fails after it is back has a
// reason that the report gives.
func TestRegionLoss(t *testing.T) { //nolint:paralleltest // it measures
	if os.Getenv("WINDTUNNEL_HEAVY") == "" {
		t.Skip("takes about eight minutes: make test-regions")
	}
	bin := program(t)
	if !canLab(t, bin) {
		t.Skip("no lab here")
	}
	study, variants := regionLoss(t)
	file, out := filepath.Join(t.TempDir(), "loss.yaml"), filepath.Join(t.TempDir(), "run")
	if err := os.WriteFile(file, study, 0o600); err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), bin, "run", file, "--out", out)
	run.Dir = "../.." // where Envoy is
	if said, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	values, reasons := trialValues(t, bin, out), findings(t, out)
	const (
		outage = 2.5 // seconds
		slack  = 50  // requests: half a second of harm and heal under way
		blocks = 6
	)
	for v, few := range variants {
		lost, late := values[v]["failover.failed"], values[v]["failback.failed"]
		t.Logf("%s: failed under the fault %v, after the heal %v; %v", v, lost, late, reasons[v])
		if len(lost) != blocks || len(late) != blocks {
			t.Errorf("%s: %d and %d of %d trials tell what was lost", v, len(lost), len(late), blocks)
		}
		for i := range lost {
			if lost[i] > rate*outage+slack {
				t.Errorf("%s: %g requests failed of those that were due in %g s at %g/s", v, lost[i], outage, float64(rate))
			}
		}
		for i := range late {
			if late[i] > few && reasons[v] == nil {
				t.Errorf("%s: %g requests failed after the heal, not at most %g, and nothing says why", v, late[i], few)
			}
		}
	}
}

// trialValues are the trials' metrics that are valid, by variant and name.
func trialValues(t *testing.T, bin, run string) map[string]map[string][]float64 {
	t.Helper()
	raw, err := exec.CommandContext(t.Context(), bin, "report", run, "--format", "csv").Output()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(string(raw))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string][]float64{}
	for _, row := range rows[1:] {
		const variant, metric, value, valid = 3, 5, 7, 8
		v, err := strconv.ParseFloat(row[value], 64)
		if err != nil || row[valid] != "true" {
			continue
		}
		if all[row[variant]] == nil {
			all[row[variant]] = map[string][]float64{}
		}
		all[row[variant]][row[metric]] = append(all[row[variant]][row[metric]], v)
	}
	return all
}

// findings are those that say why requests fail for longer than a region is gone,
// by variant.
func findings(t *testing.T, run string) map[string][]string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(run, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	var results struct {
		Findings []struct{ Rule, Variant, Cause, Evidence string }
	}
	if err := json.Unmarshal(raw, &results); err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, f := range results.Findings {
		if strings.HasPrefix(f.Rule, "no CPU time") || strings.Contains(f.Evidence, "all given up by the client") {
			all[f.Variant] = append(all[f.Variant], f.Cause+": "+f.Evidence)
		}
	}
	return all
}
