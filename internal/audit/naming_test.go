package audit

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sources []Source
		want    []string // variant, load, repetition
	}{
		{
			[]Source{{Path: "asm-sea-1/10rps.gob.gz"}, {Path: "asm-sea-2/10rps.gob"}, {Path: "mc-sea-1/100rps.report.json"}},
			[]string{"asm|10rps|1", "asm|10rps|2", "mc|100rps|1"},
		},
		{
			[]Source{{Path: "aws-imp/run-01.json", Fallback: "max-1c"}, {Path: "aws-kmz/run-01.json", Fallback: "max-1c"}},
			[]string{"imp|max-1c|1", "kmz|max-1c|1"},
		},
		{
			[]Source{
				{Path: "http-0qps-grpc-0qps-32c.log", Name: "2018-12-14-061944_http_istio_0qps_30s_echo_0_3", Protocol: "http"},
				{Path: "http-0qps-grpc-0qps-32c.log", Name: "2018-12-14-062145_grpc_linkerd_0qps_30s_echo_1_3", Protocol: "grpc"},
			},
			[]string{"istio|http|0", "linkerd|grpc|1"},
		},
		{
			[]Source{{Path: "scripts/2023-11-14-T17-12-aws/imp/test-2023-11-14-T17-12-imp-q6000-c1-d60s-02-01-8080.json"}, {Path: "x/kmz/test-q6000-c1-d60s-02-01-8080.json"}},
			[]string{"scripts-aws-imp||1", "x-kmz||1"},
		},
		{
			[]Source{{Path: "test-2023-11-14-T17-12-imp-c1-02.json"}, {Path: "test-2023-11-14-T18-10-kmz-c1-02.json"}, {Path: "20240102-030405_kmz_4c_03.json"}},
			[]string{"imp|c1|02", "kmz|c1|02", "kmz|4c|03"},
		},
		{[]Source{{Path: "one.json"}}, []string{"one||1"}},
	} {
		for i, n := range Names(c.sources) {
			if got := n.Variant + "|" + n.Load + "|" + n.Repetition; got != c.want[i] {
				t.Errorf("%s: %s, want %s", c.sources[i].Path, got, c.want[i])
			}
		}
	}
}

func TestPattern(t *testing.T) {
	t.Parallel()
	sources := []Source{{Path: "results/single-asm-sea-1/10rps.gob.gz"}, {Path: "results/mc-aus-2/50rps.gob"}, {Path: "README.md"}}
	p, err := ParsePattern("{variant}-{region}-{rep}/{load}.gob")
	if err != nil {
		t.Fatal(err)
	}
	names, fits, err := p.Apply(sources)
	if err != nil || !fits[0] || !fits[1] || fits[2] {
		t.Fatal(fits, err)
	}
	n := names[0]
	if n.Variant != "single-asm-sea" || n.Load != "10rps" || n.Repetition != "1" || n.Factors["region"] != "sea" || n.Factors["variant"] != "single-asm" {
		t.Errorf("%+v", n)
	}
	if _, _, err := p.Apply(sources[2:]); err == nil || !strings.Contains(err.Error(), "no file fits") {
		t.Error(err)
	}
	for _, bad := range []string{"results/*.gob", "{Variant}.gob", "{a", "{a}-{a}"} {
		if _, err := ParsePattern(bad); err == nil {
			t.Errorf("%q is no pattern", bad)
		}
	}
}

func TestQuantities(t *testing.T) {
	t.Parallel()
	for w, want := range map[string]kind{
		"10rps": kindLoad, "30s": kindLoad, "50mcpu": kindLoad, "grpc": kindLoad, "q6000": kindLoad, "istio": kindWord, "nsmvl3": kindWord,
		"3": kindNumber, "01": kindNumber, "rep2": kindNumber, "20181119": kindNoise, "json": kindNoise, "t17": kindNoise, "linkerd2": kindWord,
	} {
		if got := kindOf(w); got != want {
			t.Errorf("%s: %d, want %d", w, got, want)
		}
	}
}

func FuzzParsePattern(f *testing.F) {
	f.Add("{variant}-{rep}/{load}.json", "a-1/10rps.json")
	f.Fuzz(func(t *testing.T, pattern, path string) {
		p, err := ParsePattern(pattern)
		if err != nil {
			return
		}
		names, fits, err := p.Apply([]Source{{Path: path}})
		if err == nil && (len(names) != 1 || !fits[0]) {
			t.Errorf("%q fits %q and is not named", path, pattern)
		}
	})
}
