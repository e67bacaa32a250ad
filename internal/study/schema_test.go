package study

import (
	"bytes"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

func TestSchemaGolden(t *testing.T) {
	t.Parallel()
	got, err := Schema(catalog())
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/study.schema.json", got)
}

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	raw, err := Schema(catalog())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err = c.AddResource("study.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("study.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func document(t *testing.T, text string) any {
	t.Helper()
	var doc any
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestSchemaAgrees holds the schema against Parse where one key alone decides.
func TestSchemaAgrees(t *testing.T) {
	t.Parallel()
	schema := compiled(t)
	tests := map[string]struct {
		old, new string
		good     bool
	}{
		"as it is":       {"", "", true},
		"unknown key":    {"question:", "qestion:", false},
		"layer":          {"nft-service, {envoy: {retries: 2", "{envoy: {retries: 2", true},
		"unknown layer":  {"{envoy:", "{evnoy:", false},
		"layer key":      {"mtls: strict", "mlts: strict", false},
		"bare layer":     {"{envoy: {retries: 2, mtls: strict}}", "envoy", true},
		"app":            {"kind: echo, body_bytes: 100", "kind: nginx", true},
		"app key":        {"kind: echo", "kind: nginx", false},
		"rate text":      {"rate: 2500", "rate: 2500/s", true},
		"rate negative":  {"rate: 2500", "rate: -2500", false},
		"ramp":           {"rate: 2500", "rate: {from: 5/s, to: 6/s}", true},
		"ramp key":       {"rate: 2500", "rate: {from: 5/s, too: 6/s}", false},
		"steps":          {"rate: 2500", "rate: {steps: [5/s, 6]}", true},
		"one step":       {"rate: 2500", "rate: {steps: [5/s]}", false},
		"replay":         {"rate: 2500", "rate: {replay: [0s, 1ms]}", true},
		"search":         {"rate: 2500", "rate: {highest: [response.p99 < 5ms, success > 99%], confirm: 3}", true},
		"search text":    {"rate: 2500", "rate: {highest: response.p99 < 5ms}", true},
		"confirm":        {"rate: 2500", "rate: {highest: response.p99 < 5ms, confirm: 11}", false},
		"no form":        {"rate: 2500", "rate: {}", false},
		"arrivals":       {"rate: 2500", "rate: 2500, arrivals: poisson, burst: 5, when_blocked: drop, spin: 1us", true},
		"arrivals name":  {"rate: 2500", "rate: 2500, arrivals: random", false},
		"TLS":            {"rate: 2500", "rate: 2500, tls: {server_name: a, ca: pem}", true},
		"TLS key":        {"rate: 2500", "rate: 2500, tls: {sni: a}", false},
		"pods":           {"from: c", "from: [c, s]", true},
		"duration unit":  {"1m30s", "90", false},
		"percent":        {"2.5%", "2.5", false},
		"blocks":         {"blocks: 8", "blocks: 5", false},
		"role":           {"role: server", "role: sever", false},
		"name":           {"name: full", "name: Full", false},
		"metric":         {"primary: [rate]", "primary: [speed]", false},
		"protocol":       {"http1", "http9", false},
		"missing app":    {"app: {kind: echo, body_bytes: 100}\n", "", false},
		"version":        {"windtunnel/v1", "windtunnel/v2", false},
		"header number":  {`X-Test: "1"`, "X-Test: 1", false},
		"max blocks":     {"interval: 2%", "interval: 2%, max_blocks: 9", true},
		"kube":           {"target: lab", "target: {kube: {contexts: [a, b], nodes: {}}}", true},
		"bare kube":      {"target: lab", "target: kube", true},
		"kube key":       {"target: lab", "target: {kube: {context: [a]}}", false},
		"other mapping":  {"target: lab", "target: {lab: {}}", false},
		"unknown target": {"target: lab", "target: moon", false},
		"empty variants": {"loads:\n", "loads: []\nx:\n", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(full, test.old) {
				t.Fatalf("the full study has no %q", test.old)
			}
			text := strings.Replace(full, test.old, test.new, 1)
			if _, err := Parse("f.yaml", []byte(text), catalog()); (err == nil) != test.good {
				t.Errorf("parser: %v", err)
			}
			if err := schema.Validate(document(t, text)); (err == nil) != test.good {
				t.Errorf("schema: %v", err)
			}
		})
	}
}

// TestSchemaTakesFiles: what Parse reads from files, the schema lets them name.
func TestSchemaTakesFiles(t *testing.T) {
	t.Parallel()
	schema := compiled(t)
	for text, good := range map[string]bool{
		"body: {file: body.txt}": true, "body: {file: body.txt, x: y}": false, "tls: {ca: {file: ca.pem}}": true,
		"headers: {A: {file: body.txt}}": true, "method: {fiel: body.txt}": false,
	} {
		text = strings.Replace(full, `method: POST, path: "/a?b=c", headers: {X-Test: "1"}, body: hello`, text, 1)
		_, err := Parse("f.yaml", []byte(text), withFolder())
		if (err == nil) != good {
			t.Errorf("parser: %v", err)
		}
		if err := schema.Validate(document(t, text)); (err == nil) != good {
			t.Errorf("schema: %v", err)
		}
	}
}
