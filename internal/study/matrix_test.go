package study

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

const crossedStudy = `apiVersion: windtunnel/v1
kind: Study
metadata: {name: crossed}
question: What do tunnels cost?
app: {kind: echo}
baseline: plain
variants:
  - {name: plain, stack: []}
  - name: <net>-<mode>
    matrix: {net: {service: nft-service, proxy: envoy}, mode: {open: permissive, closed: strict}}
    except: [{net: service, mode: closed}]
    stack: [nft-service, {envoy: {mtls: <mode>}}]
  - name: only-<net>
    matrix: {net: [nft-service]}
    stack: [<net>]
loads:
  - name: <path>-<protocol>-<rate>
    matrix: {path: {near: client}, protocol: [http1], rate: [1000, 2000]}
    protocol: <protocol>
    model: open
    rate: <rate>
    from: <path>
    duration: 1s
`

func TestMatrix(t *testing.T) {
	t.Parallel()
	s, err := Parse("s.yaml", []byte(crossedStudy), catalog())
	if err != nil {
		t.Fatal(err)
	}
	got := variantNames(s)
	if want := []string{"plain", "service-open", "proxy-open", "proxy-closed", "only-nft-service", "control"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	var config struct{ MTLS string }
	if err := json.Unmarshal(s.Variants[3].Stack[1].Config, &config); err != nil || config.MTLS != "strict" {
		t.Errorf("proxy-closed has %s, %v", s.Variants[3].Stack[1].Config, err)
	}
	if kind := s.Variants[4].Stack[0].Kind; kind != "nft-service" {
		t.Errorf("only-nft-service has the layer %s", kind)
	}
	if got, want := loadNames(s), []string{"near-http1-1000", "near-http1-2000"}; !slices.Equal(got, want) || s.Loads[1].Rate != 2000 || s.Loads[1].From != "client" {
		t.Errorf("%+v, want %v", s.Loads, want)
	}
	if err := compiled(t).Validate(document(t, strings.Replace(crossedStudy, "protocol: <protocol>", "protocol: http1", 1))); err != nil && !strings.Contains(err.Error(), "rate") {
		t.Errorf("the schema does not take it: %v", err)
	}
}

func TestMatrixProblems(t *testing.T) {
	t.Parallel()
	many := make([]string, 15)
	for i := range many {
		many[i] = fmt.Sprint("l", i)
	}
	list := "[" + strings.Join(many, ", ") + "]"
	for name, test := range map[string]struct{ old, new, line, text string }{
		"no factor":                 {"{net: [nft-service]}", "{}", "14:", "has no factor"},
		"no level":                  {"[nft-service]}", "[]}", "14:", "is empty"},
		"a level twice":             {"[nft-service]}", "[nft-service, nft-service]}", "14:", "listed twice"},
		"a level that is not plain": {"[nft-service]}", "[{envoy: {}}]}", "14:", "one level, a plain value"},
		"not a mapping":             {"{net: [nft-service]}", "[net]", "14:", "factors, each with its levels"},
		"too many":                  {"{net: [nft-service]}", "{net: " + list + ", mode: " + list + "}", "14:", "225 combinations"},
		"unknown factor":            {"[{net: service, mode: closed}]", "[{nett: service}]", "11:", `unknown factor "nett"`},
		"unknown level":             {"[{net: service, mode: closed}]", "[{net: services}]", "11:", `unknown level "services"`},
		"an empty exception":        {"[{net: service, mode: closed}]", "[{}]", "11:", "leave out everything"},
		"all left out":              {"[{net: service, mode: closed}]", "[{net: service}, {net: proxy}]", "11:", "leaves out every combination"},
		"except alone":              {"- {name: plain, stack: []}", "- {name: plain, stack: [], except: [{a: b}]}", "8:", "there is none"},
		"names that are alike":      {"name: <net>-<mode>", "name: <net>", "9:", "already the name"},
		"a factor misspelt":         {"name: only-<net>", "name: only-<nett>", "13:", "<nett>"},
		"a level that fits nowhere": {"stack: [<net>]", "stack: []\n    targets: [<net>]", "14:", `unknown target "nft-service"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(crossedStudy, test.old) {
				t.Fatalf("the study has no %q", test.old)
			}
			_, err := Parse("s.yaml", []byte(strings.Replace(crossedStudy, test.old, test.new, 1)), catalog())
			if err == nil {
				t.Fatal("it is taken")
			}
			text := err.Error()
			if !strings.Contains(text, "s.yaml:"+test.line) || !strings.Contains(text, test.text) {
				t.Errorf("says:\n%s\nwithout %q in line %s", text, test.text, test.line)
			}
			if strings.Contains(text, "unknown variant") {
				t.Errorf("a second problem that is none: %s", text)
			}
		})
	}
}
