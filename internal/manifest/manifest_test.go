package manifest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/plan"
	"github.com/windtunnel/windtunnel/internal/store"
)

func run(t *testing.T, change func(s *model.Study, h *model.Host), version string) Manifest {
	t.Helper()
	s := model.Study{
		Name: "small", Question: "What?", App: model.PluginRef{Kind: "echo"}, Baseline: "direct", Variants: []model.Variant{{Name: "direct"}, {Name: "envoy", Stack: []model.PluginRef{{Kind: "envoy", Config: json.RawMessage(`{"mtls":"strict"}`)}}}},
		Loads:  []model.Load{{Name: "steady", Protocol: "http1", Rate: 100, Duration: time.Second, Config: json.RawMessage(`{"path":"/"}`)}},
		Design: model.Design{Blocks: 6, MaxBlocks: 6, Seed: 1, Primary: []string{"response.p50"}},
	}
	h := model.Host{Kernel: "6.1", Cores: 2, MemoryBytes: 8 << 30}
	if change != nil {
		change(&s, &h)
	}
	p, err := plan.Expand(s)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(&store.Run{
		Plan: raw, Sessions: []store.Session{{Version: version, Host: h}},
		Outcomes: []model.Outcome{{Trial: model.Trial{Variant: "envoy"}, Ledger: model.Ledger{
			{Key: model.FactProgram, Value: "Envoy " + version},
			{Key: model.FactMTLS, Value: "TLSv1.3"},
			{Key: "anything", Value: version},
			{Key: model.FactDigest, Value: "sha256:" + version},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestDiff(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change  func(s *model.Study, h *model.Host)
		version string
		want    []Change
	}{
		"nothing": {nil, "v1", []Change{}},
		"versions": {nil, "v2", []Change{
			{FactorVersion, "observed.envoy.program", "Envoy v1", "Envoy v2"},
			{FactorVersion, "observed.envoy.program's digest", "sha256:v1", "sha256:v2"},
			{FactorVersion, "windtunnel", "v1", "v2"},
		}},
		"what changes nothing": {func(s *model.Study, _ *model.Host) {
			s.Design.Seed, s.Design.Blocks, s.Design.MaxBlocks, s.Question, s.Gates = 2, 8, 8, "Why?", []model.Gate{{Text: "x"}}
		}, "v1", []Change{}},
		"order": {func(s *model.Study, _ *model.Host) {
			s.Variants[0], s.Variants[1] = s.Variants[1], s.Variants[0]
		}, "v1", []Change{}},
		"a layer's configuration": {func(s *model.Study, _ *model.Host) {
			s.Variants[1].Stack[0].Config = json.RawMessage(`{"mtls":"off"}`)
		}, "v1", []Change{{FactorConfig, "study.variants.envoy.stack.1.config.mtls", "strict", "off"}}},
		"what a load sends": {func(s *model.Study, _ *model.Host) {
			s.Loads[0].Config = json.RawMessage(`{"path":"/size/9"}`)
		}, "v1", []Change{{FactorStudy, "study.loads.steady.config.path", "/", "/size/9"}}},
		"a rate": {func(s *model.Study, _ *model.Host) { s.Loads[0].Rate = 200 }, "v1", []Change{{FactorStudy, "study.loads.steady.rate", "100", "200"}}},
		"a kernel, and a little memory": {func(_ *model.Study, h *model.Host) {
			h.Kernel, h.MemoryBytes = "6.12", h.MemoryBytes+4096
		}, "v1", []Change{{FactorHost, "host.kernel", "6.1", "6.12"}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Diff(run(t, nil, "v1"), run(t, tt.change, tt.version))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUndeclared(t *testing.T) {
	t.Parallel()
	all := []Change{{Factor: FactorVersion, Name: "v"}, {Factor: FactorHost, Name: "h"}, {Factor: FactorObserved, Name: "o"}}
	if diff := cmp.Diff([]Change{all[1]}, Undeclared(all, FactorVersion)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Change{all[0]}, Undeclared(all, FactorHost)); diff != "" {
		t.Error(diff)
	}
}

func TestResumedElsewhere(t *testing.T) {
	t.Parallel()
	m := Manifest{}
	m.sessions([]store.Session{{Version: "v1", Host: model.Host{Kernel: "6.1"}}, {Version: "v2", Host: model.Host{Kernel: "6.1"}}})
	if m["windtunnel"].Value != "v1 and v2" || m["host.kernel"].Value != "6.1" {
		t.Errorf("got %v", m)
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	text := Text([]Change{{FactorHost, "host.kernel", "", strings.Repeat("é", 300)}}, 60)
	if !strings.Contains(text, "host      host.kernel") || !strings.Contains(text, "A: (not there)") {
		t.Error(text)
	}
	for line := range strings.Lines(text) {
		if utf8.RuneCountInString(line) > 61 {
			t.Errorf("too wide: %s", line)
		}
	}
}
