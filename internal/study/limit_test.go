package study

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/model"
)

const limited = `apiVersion: windtunnel/v1
kind: Study
metadata: {name: limited}
question: How much do limits cost?
app: {kind: echo}
limits: {app: {cpu: 2}}
baseline: direct
variants:
  - {name: direct, stack: []}
  - name: cpu-<cpu>
    matrix: {cpu: [50m, 150m]}
    stack: []
    limits: {sidecar: {cpu: <cpu>, memory: 128MiB}}
loads:
  - {name: free, protocol: http1, model: closed, duration: 1s}
  - {name: tight, protocol: http1, model: closed, duration: 1s, limits: {app: {cpu: 0.5}, gateway: {memory: 64MiB}}}
`

func TestLimits(t *testing.T) {
	t.Parallel()
	s, err := Parse("limited.yaml", []byte(limited), catalog())
	if err != nil {
		t.Fatal(err)
	}
	const mebi = 1 << 20
	want := []model.ComponentLimits{
		{"app": {CPU: 2}},
		nil,
		{"sidecar": {CPU: 0.05, Memory: 128 * mebi}},
		{"sidecar": {CPU: 0.15, Memory: 128 * mebi}},
		nil,
		{"app": {CPU: 0.5}, "gateway": {Memory: 64 * mebi}},
	}
	got := []model.ComponentLimits{s.Limits, s.Variants[0].Limits, s.Variants[1].Limits, s.Variants[2].Limits, s.Loads[0].Limits, s.Loads[1].Limits}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if s.Loads[1].Duration != time.Second || s.Variants[1].Name != "cpu-50m" {
		t.Errorf("%+v", s)
	}
}

func TestLimitProblems(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ old, new, want string }{
		"no such component": {"limits: {app: {cpu: 2}}", "limits: {sidecars: {cpu: 2}}", `limited.yaml:6:10: limits.sidecars: unknown key "sidecars"; did you mean "sidecar"?`},
		"the generator":     {"limits: {app: {cpu: 2}}", "limits: {generator: {cpu: 2}}", `unknown key "generator"`},
		"nothing":           {"limits: {app: {cpu: 2}}", "limits: {app: {}}", "limited.yaml:6:15: limits.app: limits nothing: give it cpu, memory or both"},
		"too little CPU":    {"50m, 150m", "5m, 150m", `limited.yaml:11:20: variants[1].limits.sidecar.cpu: "5m" is out of range: 10m to 1024 cores`},
		"no CPU":            {"{cpu: 0.5}", "{cpu: much}", `loads[1].limits.app.cpu: "much" is not a CPU limit`},
		"too little memory": {"memory: 64MiB", "memory: 64KiB", "loads[1].limits.gateway.memory: 0.063MiB is too little to start anything: at least 1MiB"},
		"no unit":           {"memory: 64MiB", "memory: 64", "loads[1].limits.gateway.memory: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(limited, tt.old, tt.new, 1)
			if _, err := Parse("limited.yaml", []byte(text), catalog()); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
