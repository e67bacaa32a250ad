package feature_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/feature"
	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/layer/envoy"
	"github.com/windtunnel/windtunnel/internal/layer/nftservice"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/proxy"
	"github.com/windtunnel/windtunnel/internal/sys"
)

func TestMain(m *testing.M) {
	labtest.Main(m, labtest.Commands{feature.Command: func([]string) int {
		stdio := sys.Stdio()
		if feature.Serve(context.Background(), stdio[0], stdio[1]) != nil {
			return 1
		}
		return 0
	}})
}

// proven does checks with a stack, all unless some are named, and sees that
// nothing is left of it.
func proven(t *testing.T, named []string, layers ...model.Layer) map[string]feature.Result {
	t.Helper()
	site := labtest.Site(t, feature.Topology())
	before := labtest.State(t, site)
	b, err := feature.Open(t.Context(), site, layers)
	results := map[string]feature.Result{}
	for _, c := range feature.Checks() {
		if len(named) > 0 && !slices.Contains(named, c.Name) {
			continue
		}
		began := time.Now()
		if err == nil {
			results[c.Name], err = b.Run(t.Context(), c)
		}
		t.Logf("%s: %s, in %s", c.Name, results[c.Name].Seen, time.Since(began).Round(time.Millisecond))
	}
	if err != nil {
		t.Error(err)
	}
	if err := b.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
	if after := labtest.State(t, site); fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("before: %v, after: %v", before, after)
	}
	return results
}

func layer(t *testing.T, p model.Plugin[model.Layer], config string) model.Layer {
	t.Helper()
	l, err := p.New(json.RawMessage(config))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// documented are the verdicts on a variant that docs/features.md prints.
func documented(t *testing.T, variant string) map[string]feature.Verdict {
	t.Helper()
	page, err := os.ReadFile("../../docs/features.md")
	if err != nil {
		t.Fatal(err)
	}
	verdicts, column := map[string]feature.Verdict{}, -1
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, " | ")
		switch {
		case column < 0 && strings.HasPrefix(line, "|  | feature |"):
			cells[len(cells)-1] = strings.TrimSuffix(strings.TrimSpace(cells[len(cells)-1]), " |")
			column = slices.Index(cells, variant)
		case column >= 0 && !strings.HasPrefix(line, "|"):
			return verdicts
		case column >= 0 && cells[1] != "---":
			verdicts[cells[1]] = feature.Verdict(strings.TrimSuffix(strings.TrimSpace(cells[column]), " |"))
		}
	}
	t.Fatalf("docs/features.md has no table of %s", variant)
	return nil
}

// compare holds what was seen against what is documented.
func compare(t *testing.T, variant string, results map[string]feature.Result) {
	t.Helper()
	want := documented(t, variant)
	if len(want) != len(feature.Checks()) {
		t.Errorf("%d features are documented, there are %d", len(want), len(feature.Checks()))
	}
	for name, r := range results {
		if r.Verdict != want[name] {
			t.Errorf("%s: %+v, documented as %q", name, r, want[name])
		}
	}
}

// A Service translates connections, and knows nothing of requests.
func TestService(t *testing.T) {
	t.Parallel()
	compare(t, "service", proven(t, nil, layer(t, nftservice.Plugin(), "{}")))
}

// Sidecars of Envoy have everything that the published table says Istio has.
func TestEnvoy(t *testing.T) {
	t.Parallel()
	path := program(t)
	find := func(string) (string, error) { return path, nil }
	compare(t, "envoy", proven(t, nil, layer(t, nftservice.Plugin(), "{}"), layer(t, envoy.Plugin(find), `{"concurrency": 1}`)))
}

// Without waypoints ambient mode follows rules about connections only.
func TestAmbient(t *testing.T) {
	t.Parallel()
	path := program(t)
	find := func(string) (string, error) { return path, nil }
	some := []string{"request routing by header", "circuit breaking", "egress control", "certificate rotation", "authorization: allow", "request metrics"}
	compare(t, "ambient", proven(t, some, layer(t, nftservice.Plugin(), "{}"), layer(t, envoy.Plugin(find), `{"mode": "ambient", "concurrency": 1}`)))
}

// Waypoints follow those about requests.
func TestWaypoint(t *testing.T) {
	t.Parallel()
	path := program(t)
	find := func(string) (string, error) { return path, nil }
	some := []string{"request routing by header", "mirroring", "authorization: deny", "request metrics", "access logs"}
	results := proven(t, some, layer(t, nftservice.Plugin(), "{}"), layer(t, envoy.Plugin(find), `{"mode": "ambient", "waypoint": true, "concurrency": 1}`))
	for name, r := range results {
		if r.Verdict != feature.Yes {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// program finds Envoy, or skips the test.
func program(t *testing.T) string {
	t.Helper()
	path, err := proxy.Find("")
	if err != nil {
		path, err = proxy.Find(filepath.Join("..", "..", proxy.Installed))
	}
	if err == nil {
		path, err = filepath.Abs(path)
	}
	switch {
	case err == nil:
		return path
	case sys.Required("envoy"):
		t.Fatalf("$WINDTUNNEL_REQUIRE says that there must be an Envoy: %v", err)
	default:
		t.Skip(err)
	}
	return ""
}

// A stack that cannot be deployed is an error, and leaves nothing behind.
func TestProveFails(t *testing.T) {
	t.Parallel()
	broken := feature.Stack{Name: "broken", Make: func() ([]model.Layer, error) {
		return []model.Layer{layer(t, envoy.Plugin(func(string) (string, error) { return "", model.ErrUnsupported }), "{}")}, nil
	}}
	_, err := feature.Prove(t.Context(), labtest.Need(t), []feature.Stack{broken}, feature.Checks(), func(string, string) {})
	if err == nil || !strings.Contains(err.Error(), "variant broken: deploying the stack: not supported here") {
		t.Errorf("%v", err)
	}
}

// The table is the same in all formats.
func TestTable(t *testing.T) {
	t.Parallel()
	table := feature.Table{
		Variants: []feature.Column{{Name: "service", Layers: []string{"nft-service"}}, {Name: "mesh", Layers: []string{"nft-service", "envoy"}, Programs: []string{"Envoy 1"}}},
		Lines: []feature.Line{
			{Group: "traffic management", Feature: "retry", Asks: "status 500 is retried", Results: []feature.Result{
				{Verdict: feature.No, Sent: "20 requests", Seen: "200 for 0 of 20", Rules: "no layer of the stack takes such rules"},
				{Verdict: feature.Yes, Sent: "20 requests", Seen: "200 for 20 of 20", Rules: "applied"},
			}},
			{Group: "security", Feature: "certificates", Asks: "a|b", Results: []feature.Result{{Verdict: feature.No, Sent: "1", Seen: "x"}, {Verdict: feature.Partly, Sent: "1", Seen: "y"}}},
		},
	}
	var text, md, raw bytes.Buffer
	for _, err := range []error{table.WriteText(&text), table.WriteMarkdown(&md), table.WriteJSON(&raw)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	const wantText = `              service  mesh

TRAFFIC MANAGEMENT
retry         no       yes
  asked: status 500 is retried
  service: 20 requests -> 200 for 0 of 20 [no layer of the stack takes such rules]
  mesh: 20 requests -> 200 for 20 of 20

SECURITY
certificates  no       partly
  asked: a|b
  service: 1 -> x
  mesh: 1 -> y

service: nft-service
mesh: nft-service, envoy (Envoy 1)
`
	if text.String() != wantText {
		t.Errorf("%s", text.String())
	}
	for _, want := range []string{
		"| traffic management | retry | no | yes |\n", "| security | certificates | no | partly |\n",
		"| retry | status 500 is retried | service | no | 20 requests | 200 for 0 of 20 [no layer of the stack takes such rules] |\n",
		"| certificates | a\\|b |", "- mesh: nft-service, envoy (Envoy 1)\n",
	} {
		if !strings.Contains(md.String(), want) {
			t.Errorf("no %q in\n%s", want, md.String())
		}
	}
	var back feature.Table
	if err := json.Unmarshal(raw.Bytes(), &back); err != nil || fmt.Sprint(back) != fmt.Sprint(table) {
		t.Errorf("%v: %+v", err, back)
	}
}
