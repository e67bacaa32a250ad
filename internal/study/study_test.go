package study

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windtunnel/windtunnel/internal/model"
)

// equal compares addresses, which have no exported fields.
var equal = cmpopts.EquateComparable(netip.Addr{})

var update = flag.Bool("update", false, "write the golden files")

type envoyConfig struct {
	MTLS    string `json:"mtls" jsonschema:"enum=off,enum=strict" jsonschema_description:"Mutual TLS between sidecars."`
	Retries int    `json:"retries" jsonschema:"minimum=0"`
}

type httpConfig struct {
	Method  string            `json:"method,omitempty"`
	Path    string            `json:"path,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`
	// BodyBase64 is for what is no text.
	BodyBase64 []byte `json:"body_base64,omitempty"`
}

type echoConfig struct {
	BodyBytes int `json:"body_bytes" jsonschema:"minimum=0"`
}

func strict(config json.RawMessage, into any) error {
	if len(config) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(config))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// catalog is a small catalog in the shape of the real one.
func catalog() Known {
	return Known{
		Layers: []model.Plugin[model.Layer]{
			{Name: "nft-service", Summary: "A virtual address, balanced by nftables.", New: func(c json.RawMessage) (model.Layer, error) {
				return nil, strict(c, &struct{}{})
			}},
			{Name: "envoy", Summary: "Envoy sidecars.", Config: envoyConfig{}, New: func(c json.RawMessage) (model.Layer, error) {
				var e envoyConfig
				if err := strict(c, &e); err != nil {
					return nil, fmt.Errorf("reading the configuration: %w", err)
				}
				if e.MTLS == "maybe" {
					return nil, errors.New("mtls is maybe: want off or strict")
				}
				return nil, nil
			}},
		},
		Apps: []model.Plugin[model.App]{
			{Name: "echo", Summary: "Answers with its own name.", Config: echoConfig{}, New: func(c json.RawMessage) (model.App, error) {
				return nil, strict(c, &echoConfig{})
			}},
			{Name: "nginx", Summary: "The web server.", New: func(c json.RawMessage) (model.App, error) {
				return nil, strict(c, &struct{}{})
			}},
		},
		Protocols: []Protocol{{Name: "http1", Summary: "HTTP/1.1.", Config: httpConfig{}, Check: func(c json.RawMessage) error {
			var http httpConfig
			err := strict(c, &http)
			if http.Path == "x" {
				err = errors.Join(&model.ConfigError{Key: "path", Text: "is no path"}, &model.ConfigError{Key: "headers.a", Text: "is no header"})
			}
			return err
		}, Numbers: func(c json.RawMessage) bool { return !strings.Contains(string(c), "X-Request-Id") }}},
		Targets: []string{"lab", "kube"},
		Metrics: []string{
			"response.p50", "response.p90", "response.p99", "response.p99.9", "response.mean", "service.p50", "service.p99", "rate", "rate.highest", "goodput", "loss", "cpu.gbit.total",
			"success", "cpu.total", "cpu.app", "cpu.sidecar", "cpu.generator", "memory.total", "memory.sidecar",
		},
	}
}

// small is the least that a study can say.
const small = `apiVersion: windtunnel/v1
kind: Study
metadata: {name: small}
question: How small can it be?
app: {kind: echo}
baseline: direct
variants: [{name: direct, stack: []}]
loads: [{name: peak, protocol: http1, model: closed}]
`

func TestDefaults(t *testing.T) {
	t.Parallel()
	got, err := Parse("small.yaml", []byte(small), catalog())
	if err != nil {
		t.Fatal(err)
	}
	want := model.Study{
		Name: "small", Question: "How small can it be?", Target: "lab",
		Topology: model.Topology{
			Regions: []model.Region{{Name: "region-0", Clusters: []model.Cluster{{Name: "cluster-0", Nodes: []model.Node{
				{Name: "node-0", Pods: []model.PodSpec{{Name: "client", Role: "client"}}},
				{Name: "node-1", Pods: []model.PodSpec{{Name: "server-0", Role: "server"}, {Name: "server-1", Role: "server"}}},
			}}}}},
			Services: []model.Service{{Name: "server", Port: 80, TargetPort: 8080, Pods: []string{"server-0", "server-1"}}},
		},
		App: model.PluginRef{Kind: "echo"}, Baseline: "direct",
		Variants: []model.Variant{
			{Name: "direct", Stack: []model.PluginRef{}},
			{Name: "control", Stack: []model.PluginRef{}, Control: true},
		},
		Loads: []model.Load{{
			Name: "peak", Protocol: "http1", Arrival: model.ArrivalClosed, Connections: 32, Duration: 10 * time.Second,
			Timeout: 5 * time.Second, From: "client", To: "server",
		}},
		Design: model.Design{
			Blocks: 10, MaxBlocks: 10, Warmup: 2 * time.Second, Control: true, Seed: 1,
			Primary: []string{"response.p50", "response.p99", "cpu.total", "success", "goodput", "loss", "cpu.gbit.total", "rate.highest"},
		},
	}
	if diff := cmp.Diff(want, got, equal); diff != "" {
		t.Error(diff)
	}
	raw, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var back model.Study
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, back, equal); diff != "" {
		t.Error("through JSON:", diff)
	}
}

// full says everything that the shorter studies leave to defaults.
const full = `apiVersion: windtunnel/v1
kind: Study
metadata: {name: full}
question: |
  Does it all arrive?
target: lab
topology:
  mtu: 1400
  regions:
    - name: eu
      clusters: [{name: eu-1, nodes: [{name: a, pods: [{name: c, role: client}]}]}]
    - name: us
      clusters: [{name: us-1, nodes: [{name: b, pods: [{name: s, role: server}]}]}]
  services: [{name: web, port: 443, target_port: 8443, pods: [s]}]
  links: [{a: a, b: b, delay: 40ms, jitter: 1ms, loss: 0.1%, rate: 1.5Gbit/s}]
app: {kind: echo, body_bytes: 100}
baseline: direct
variants:
  - {name: direct, stack: []}
  - {name: envoy, stack: [nft-service, {envoy: {retries: 2, mtls: strict}}]}
loads:
  - {name: steady, protocol: http1, model: open, rate: 2500, connections: 8, duration: 1m30s, timeout: 250ms, from: c, to: web,
     method: POST, path: "/a?b=c", headers: {X-Test: "1"}, body: hello}
design: {blocks: 8, warmup: 0s, control: false, stop: {interval: 2%}, equivalence: 2.5%, seed: 18446744073709551615, primary: [rate]}
gates:
  - envoy.steady.response.p99.9 < 20ms
  - envoy.success >= 99.9%
  - envoy.rate>1000/s
  - envoy.cpu.total <= 600ms
  - envoy.memory.sidecar < 64MiB
fleet: {pods: 2000, rps: 50000}
`

func TestEverything(t *testing.T) {
	t.Parallel()
	got, err := Parse("full.yaml", []byte(full), catalog())
	if err != nil {
		t.Fatal(err)
	}
	want := model.Study{
		Name: "full", Question: "Does it all arrive?", Target: "lab",
		Topology: model.Topology{
			MTU: 1400,
			Regions: []model.Region{
				{Name: "eu", Clusters: []model.Cluster{{Name: "eu-1", Nodes: []model.Node{{Name: "a", Pods: []model.PodSpec{{Name: "c", Role: "client"}}}}}}},
				{Name: "us", Clusters: []model.Cluster{{Name: "us-1", Nodes: []model.Node{{Name: "b", Pods: []model.PodSpec{{Name: "s", Role: "server"}}}}}}},
			},
			Services: []model.Service{{Name: "web", Port: 443, TargetPort: 8443, Pods: []string{"s"}}},
			Links:    []model.Link{{A: "a", B: "b", Delay: 40 * time.Millisecond, Jitter: time.Millisecond, Loss: 0.001, Rate: 1_500_000_000}},
		},
		App: model.PluginRef{Kind: "echo", Config: json.RawMessage(`{"body_bytes":100}`)}, Baseline: "direct",
		Variants: []model.Variant{
			{Name: "direct", Stack: []model.PluginRef{}},
			{Name: "envoy", Stack: []model.PluginRef{{Kind: "nft-service"}, {Kind: "envoy", Config: json.RawMessage(`{"mtls":"strict","retries":2}`)}}},
		},
		Loads: []model.Load{{
			Name: "steady", Protocol: "http1", Arrival: model.ArrivalOpen, Rate: 2500, Connections: 8, Duration: 90 * time.Second,
			Timeout: 250 * time.Millisecond, From: "c", To: "web",
			Config: json.RawMessage(`{"body":"hello","headers":{"X-Test":"1"},"method":"POST","path":"/a?b=c"}`),
		}},
		Design: model.Design{
			Blocks: 8, MaxBlocks: 24, StopInterval: 0.02, Equivalence: 0.025, Seed: 1<<64 - 1, Primary: []string{"rate"},
		},
		Gates: []model.Gate{
			{Text: "envoy.steady.response.p99.9 < 20ms", Variant: "envoy", Load: "steady", Metric: "response.p99.9", Op: "<", Value: 0.02},
			{Text: "envoy.success >= 99.9%", Variant: "envoy", Metric: "success", Op: ">=", Value: 0.999},
			{Text: "envoy.rate>1000/s", Variant: "envoy", Metric: "rate", Op: ">", Value: 1000},
			{Text: "envoy.cpu.total <= 600ms", Variant: "envoy", Metric: "cpu.total", Op: "<=", Value: 0.6},
			{Text: "envoy.memory.sidecar < 64MiB", Variant: "envoy", Metric: "memory.sidecar", Op: "<", Value: 64 << 20},
		},
		Fleet: &model.Fleet{Pods: 2000, Rate: 50000},
	}
	if diff := cmp.Diff(want, got, equal); diff != "" {
		t.Error(diff)
	}
}

// TestProblems compares what is said about each file of testdata/problems with
// the .txt beside it.
func TestProblems(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/problems/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse(filepath.Base(file), data, catalog())
			if _, ok := errors.AsType[Problems](err); !ok {
				t.Fatalf("got %v, want problems", err)
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", []byte(err.Error()+"\n"))
		})
	}
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (write it with -update): %s", file, diff)
	}
}

// TestOneProblem replaces one line of the small study at a time.
func TestOneProblem(t *testing.T) {
	t.Parallel()
	const app, variants, loads = "app: {kind: echo}", "variants: [{name: direct, stack: []}]", "loads: [{name: peak, protocol: http1, model: closed}]"
	load := func(keys string) string { return "loads: [{name: peak, protocol: http1, model: closed, " + keys + "}]" }
	open := func(keys string) string { return "loads: [{name: peak, protocol: http1, model: open, " + keys + "}]" }
	more := func(lines string) string { return loads + "\n" + lines }
	tests := map[string]struct{ old, new, want string }{
		"version":            {"windtunnel/v1", "windtunnel/v2", `1:13: apiVersion: is "windtunnel/v2"; this program reads windtunnel/v1`},
		"no version":         {"apiVersion: windtunnel/v1\n", "", `1:1: apiVersion: is required: windtunnel/v1`},
		"kind":               {"kind: Study", "kind: Trial", `2:7: kind: is "Trial"; this program reads Study`},
		"near key":           {"question:", "qestion:", `did you mean "question"?`},
		"twice":              {app, app + "\n" + app, "6:1: app: appears twice, first on line 5"},
		"empty":              {app, "app:", "app: has no value"},
		"name":               {"name: small", "name: Small", `"Small" is not a name`},
		"number as name":     {"name: small", "name: 7", "is the number 7; here goes a name; quote it"},
		"long name":          {"name: small", "name: " + strings.Repeat("a", 64), "too long"},
		"blank question":     {"How small can it be?", `" "`, "question: is empty"},
		"kube":               {app, app + "\ntarget: {kube: {contexts: [a, a]}}", `"a" is listed twice`},
		"target":             {app, app + "\ntarget: lba", `unknown target "lba"; did you mean "lab"?; known: lab`},
		"app kind":           {"kind: echo", "kind: ecoh", `app.kind: unknown app "ecoh"; did you mean "echo"?; known: echo, nginx`},
		"app key":            {"kind: echo", "kind: echo, bodybytes: 1", `5:6: app: json: unknown field "bodybytes"`},
		"no app kind":        {"{kind: echo}", "{replicas: 2}", "5:6: app.kind: is required. Which app."},
		"replicas":           {"kind: echo", "kind: echo, replicas: 0", "0 is out of range: 1 to 100"},
		"replicas fraction":  {"kind: echo", "kind: echo, replicas: 1.5", "is the number 1.5; here goes a whole number"},
		"replicas octal":     {"kind: echo", "kind: echo, replicas: 010", "not a plain decimal number"},
		"preset":             {app, app + "\ntopology: {preset: two-node}", `did you mean "two-nodes"?`},
		"baseline":           {"baseline: direct", "baseline: derict", `6:11: baseline: unknown variant "derict"; did you mean "direct"?; known: direct`},
		"no variants":        {variants, "variants: []", "7:11: variants: is an empty list"},
		"control":            {"{name: direct, stack: []}", "{name: direct, stack: []}, {name: control, stack: []}", "reserved for the A/A control"},
		"no stack":           {", stack: []", "", "7:12: variants[0].stack: is required"},
		"layer":              {"stack: []", "stack: [evnoy]", `7:35: variants[0].stack[0]: unknown layer "evnoy"; did you mean "envoy"?; known: nft-service, envoy`},
		"layer with config":  {"stack: []", "stack: [{evnoy: {}}]", `7:36: variants[0].stack[0].evnoy: unknown layer "evnoy"`},
		"layer config":       {"stack: []", "stack: [{envoy: {mtls: maybe}}]", "7:36: variants[0].stack[0].envoy: mtls is maybe: want off or strict"},
		"layer key":          {"stack: []", "stack: [{envoy: {mlts: strict}}]", `unknown field "mlts"`},
		"layer null":         {"stack: []", "stack: [{envoy: }]", "is empty; here goes the layer's configuration"},
		"layer pair":         {"stack: []", "stack: [{envoy: {}, nft-service: {}}]", "has 2 keys"},
		"layer list":         {"stack: []", "stack: [[envoy]]", "is a list; here goes the name of a layer"},
		"config number":      {"stack: []", "stack: [{envoy: {retries: 0x10}}]", "7:53: variants[0].stack[0].envoy.retries: 0x10 is not a plain decimal number"},
		"config twice":       {"stack: []", "stack: [{envoy: {retries: 1, retries: 2}}]", "appears twice"},
		"protocol":           {"http1", "http9", `unknown protocol "http9"; did you mean "http1"?; known: http1`},
		"model":              {"closed", "close", `unknown value "close"; did you mean "closed"?; known: open, closed`},
		"open without rate":  {"closed", "open", "8:9: loads[0].rate: is required in an open loop"},
		"closed with rate":   {loads, load("rate: 5/s"), "loads[0].rate: has no meaning in a closed loop"},
		"rate negative":      {loads, open("rate: -5/s"), `"-5/s" is negative`},
		"rate zero":          {loads, open("rate: 0"), `"0" is zero`},
		"rate of":            {loads, open("rate: {percent: 75, of: lowest peak}"), `loads[0].rate.of: load peak has a rate of its own`},
		"too few":            {loads, open("rate: 0.5/s, duration: 1s"), "less than one request in 1s"},
		"connections":        {loads, load("connections: 0"), "0 is out of range: 1 to 65536"},
		"duration zero":      {loads, load("duration: 0s"), "loads[0].duration: is zero"},
		"duration unit":      {loads, load("duration: 10"), `"10" has no unit: write 10s or 10ms`},
		"timeout":            {loads, load("timeout: soon"), `"soon" is not a duration`},
		"from":               {loads, load("from: cleint"), `unknown pod "cleint"; did you mean "client"?; known: client, server-0, server-1`},
		"to":                 {loads, load("to: web"), `unknown service "web"; known: server`},
		"protocol key":       {loads, load("path: x"), "loads[0].path: is no path"},
		"protocol key below": {loads, load("path: x, headers: {a: b}"), "loads[0].headers.a: is no header"},
		"protocol number":    {loads, load("headers: {X-A: 5}"), "cannot unmarshal number"},
		"blocks":             {loads, more("design: {blocks: 5}"), "9:18: design.blocks: 5 is out of range: 6 to 1000 (Wilcoxon's"},
		"warm-up":            {loads, more("design: {warmup: -1s}"), `"-1s" is negative`},
		"control word":       {loads, more("design: {control: yes}"), `is "yes"; here goes true or false`},
		"equivalence":        {loads, more("design: {equivalence: 0.05}"), `"0.05" is not a percentage`},
		"equivalence all":    {loads, more("design: {equivalence: 100%}"), "makes everything equivalent"},
		"seed":               {loads, more("design: {seed: -1}"), "-1 is out of range"},
		"primary":            {loads, more("design: {primary: [response.p95]}"), `design.primary[0]: unknown metric "response.p95"; did you mean`},
		"primary twice":      {loads, more("design: {primary: [rate, rate]}"), `"rate" is listed twice`},
		"primary none":       {loads, more("design: {primary: []}"), "at least one is needed"},
		"interval":           {loads, more("design: {stop: {interval: 0%}}"), "must be more than 0%"},
		"no interval":        {loads, more("design: {stop: {}}"), "9:16: design.stop.interval: is required"},
		"max under blocks":   {loads, more("design: {stop: {interval: 2%, max_blocks: 8}}"), "8 is less than blocks, which is 10"},
		"redeploy":           {loads, more("design: {redeploy: block}"), "every trial is deployed afresh"},
		"gate":               {loads, more("gates: [direct.rate = 5/s]"), "is not a condition"},
		"gate variant":       {loads, more("gates: [dirct.rate > 5/s]"), `9:9: gates[0]: unknown variant "dirct"; did you mean "direct"?`},
		"gate load":          {loads, more("gates: [direct.pek.rate > 5/s]"), `unknown load "pek"; did you mean "peak"?; known: peak`},
		"gate metric":        {loads, more("gates: [direct.peak.response.p98 > 5ms]"), `unknown metric "response.p98"`},
		"gate metric alone":  {loads, more("gates: [direct.response.p98 > 5ms]"), `unknown metric "response.p98"`},
		"gate unit":          {loads, more("gates: [direct.success > 99.9]"), `success is compared with: "99.9" is not a percentage`},
		"alias":              {app, "x: &a {kind: echo}\napp: *a", "aliases are not part of the study format"},
		"tag":                {"How small", "!!str How small", "tags are not part of the study format"},
		"key not text":       {app, app + "\n1: 2", "a key is the number 1; keys are text"},
		"second document":    {loads, more("---\na: b"), "a second document begins here"},
		"bad second":         {loads, more("---\n{"), "not YAML"},
		"list for mapping":   {"{name: small}", "[small]", "is a list; here goes a mapping"},
		"syntax":             {"{kind: echo}", "{kind: echo", "not YAML"},
		"syntax on line one": {"apiVersion: ", "apiVersion: a: ", "f.yaml:1:1: not YAML: mapping values"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(small, test.old) {
				t.Fatalf("the small study has no %q", test.old)
			}
			_, err := Parse("f.yaml", []byte(strings.Replace(small, test.old, test.new, 1)), catalog())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v\nwant %s", err, test.want)
			}
		})
	}
}

// TestOnlyOneProblem guards against follow-up problems.
func TestOnlyOneProblem(t *testing.T) {
	t.Parallel()
	for _, change := range [][2]string{
		{"name: direct, stack", "name: Direct, stack"},
		{"kind: echo", "kind: no"},
		{"kind: echo", "kind: echo, replicas: 0"},
		{"stack: []", "stack: {}"},
		{"model: closed", "model: open, rate: -1"},
		{"model: closed", "model: none, rate: 5/s"},
		{"model: closed", "model: closed, duration: 0"},
		{"[{name: peak, protocol: http1, model: closed}]", "5"},
		{"apiVersion: windtunnel/v1", "apiVersion: 1"},
	} {
		_, err := Parse("f.yaml", []byte(strings.Replace(small, change[0], change[1], 1)), catalog())
		var problems Problems
		if !errors.As(err, &problems) || len(problems) != 1 {
			t.Errorf("%s: got %v, want one problem", change[1], err)
		}
	}
}

func TestTopology(t *testing.T) {
	t.Parallel()
	const links = "links: [{a: a, b: b, delay: 40ms, jitter: 1ms, loss: 0.1%, rate: 1.5Gbit/s}]"
	tests := map[string]struct{ old, new, want string }{
		"both":           {"mtu: 1400", "preset: two-nodes", "a preset has regions of its own"},
		"replicas":       {"body_bytes: 100", "replicas: 3", "app.replicas: belongs to a preset"},
		"pod twice":      {"name: s, role", "name: c, role", `"c" is already the name of topology.regions[0].clusters[0].nodes[0].pods[0]`},
		"no server":      {"role: server", "role: client", "has no pod of role server"},
		"role":           {"role: server", "role: sever", `did you mean "server"?`},
		"service pod":    {"pods: [s]", "pods: [x]", `unknown pod "x"; known: c, s`},
		"service twice":  {"pods: [s]", "pods: [s, s]", `"s" is listed twice`},
		"port":           {"port: 443", "port: 70000", "70000 is out of range: 1 to 65535"},
		"link node":      {"b: b, delay", "b: z, delay", `topology.links[0].b: unknown node, cluster or region "z"; known: a, b, eu, eu-1, us, us-1`},
		"link to itself": {"b: b, delay", "b: a, delay", `"a" is both ends of the link`},
		"link twice":     {links, "links: [{a: a, b: b}, {a: b, b: a}]", "joins the same places as links[0]"},
		"jitter":         {"jitter: 1ms", "jitter: 41ms", "is more than the delay"},
		"loss":           {"0.1%", "101%", "more than 100%"},
		"link rate":      {"1.5Gbit/s", "1.5Gbps", "is not a link speed"},
		"mtu":            {"1400", "100", "100 is out of range: 576 to 65535"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(full, test.old) {
				t.Fatalf("the full study has no %q", test.old)
			}
			_, err := Parse("f.yaml", []byte(strings.Replace(full, test.old, test.new, 1)), catalog())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v\nwant %s", err, test.want)
			}
		})
	}
	_, err := Parse("f.yaml", []byte(strings.Replace(small, "app:", "topology: {preset: two-nodes, services: [{name: a, pods: [client]}]}\napp:", 1)), catalog())
	if err == nil || !strings.Contains(err.Error(), "a preset has services of its own") {
		t.Error("preset with services:", err)
	}
	s, err := Parse("f.yaml", []byte(strings.NewReplacer("  services: [{name: web, port: 443, target_port: 8443, pods: [s]}]\n", "", "to: web", "to: server").Replace(full)), catalog())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]model.Service{{Name: "server", Port: 80, TargetPort: 8080, Pods: []string{"s"}}}, s.Topology.Services, equal); diff != "" {
		t.Error("without services:", diff)
	}
}

func TestParseKeepsItsInput(t *testing.T) {
	t.Parallel()
	data := []byte(full)
	if _, err := Parse("full.yaml", data, catalog()); err != nil {
		t.Fatal(err)
	}
	if string(data) != full {
		t.Error("the input was changed")
	}
}

func TestFileLimits(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ data, want string }{
		"large":  {strings.Repeat("#", maxFile+1), "f.yaml:1:1: the file has 1048577 bytes"},
		"empty":  {"# nothing\n", "f.yaml:1:1: the file is empty"},
		"binary": {"a: ü\nb: ü\xff\n", "f.yaml:2:5: this is not UTF-8 text"},
		"scalar": {"Study", `f.yaml:1:1: this is "Study"; a study is a mapping`},
	} {
		_, err := Parse("f.yaml", []byte(test.data), catalog())
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte(full))
	f.Add([]byte("a: *b"))
	files, _ := filepath.Glob("testdata/problems/*.yaml")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	known := catalog()
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("f.yaml", data, known)
		if err == nil {
			if _, err = json.Marshal(s); err != nil {
				t.Errorf("a study that cannot be kept: %v", err)
			}
			return
		}
		var problems Problems
		if !errors.As(err, &problems) || len(problems) == 0 {
			t.Fatalf("no problems in %v", err)
		}
		lines := bytes.Count(data, []byte("\n")) + bytes.Count(data, []byte("\r")) + bytes.Count(data, []byte("\u2028")) + bytes.Count(data, []byte("\u2029")) + bytes.Count(data, []byte("\u0085")) + 2
		for _, p := range problems {
			if p.Line < 1 || p.Column < 1 || p.Line > lines || p.Text == "" {
				t.Errorf("bad problem %+v", p)
			}
		}
	})
}
