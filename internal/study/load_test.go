package study

import (
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/model"
)

// withFolder is the catalog, with a study's folder and outside tools.
func withFolder() Known {
	known := catalog()
	known.Drivers = []string{"fortio", "vegeta"}
	files := map[string]string{
		"body.txt": "line\n\"quoted\"", "body.bin": "\xff\x00", "ca.pem": "-----BEGIN CERTIFICATE-----\n", "empty.txt": "# nothing\n",
		"times.txt": "# seconds or units\n0\n0.001\n\n3ms\n", "falls.txt": "2s\n1s\n", "late.txt": "11s\n", "words.txt": "0s\nsoon\n",
		"large.txt": strings.Repeat("x", maxContent+1),
	}
	known.ReadFile = func(name string) ([]byte, error) {
		if data, ok := files[name]; ok {
			return []byte(data), nil
		}
		return nil, fs.ErrNotExist
	}
	return known
}

func parseLoads(t *testing.T, loads string, known Known) ([]model.Load, error) {
	t.Helper()
	text := strings.Replace(small, "loads: [{name: peak, protocol: http1, model: closed}]", "loads:\n"+loads, 1)
	s, err := Parse("f.yaml", []byte(text), known)
	return s.Loads, err
}

func TestLoadModels(t *testing.T) {
	t.Parallel()
	open := model.Load{
		Name: "a", Protocol: "http1", Arrival: model.ArrivalOpen, Rate: 1000, Connections: 32, Duration: 10 * time.Second, Timeout: 5 * time.Second,
		From: "client", To: "server",
	}
	closed := open
	closed.Arrival, closed.Rate = model.ArrivalClosed, 0
	with := func(l model.Load, change func(*model.Load)) []model.Load {
		change(&l)
		return []model.Load{l}
	}
	steps := []model.Segment{{From: 100, To: 100, Duration: 333333333}, {From: 200, To: 200, Duration: 333333333}, {From: 600, To: 600, Duration: 333333334}}
	tests := map[string]struct {
		text string
		want []model.Load
	}{
		"constant":  {"model: open, rate: 1000/s", []model.Load{open}},
		"breakdown": {"model: open, rate: 1000/s, breakdown: 5s", with(open, func(l *model.Load) { l.Breakdown = 5 * time.Second })},
		"poisson":   {"model: open, rate: 1000, arrivals: poisson", with(open, func(l *model.Load) { l.Pattern.Poisson = true })},
		"bursts":    {"model: open, rate: 1000/s, burst: 50", with(open, func(l *model.Load) { l.Pattern.Burst = 50 })},
		"ramp": {"model: open, rate: {from: 100/s, to: 2000/s}", with(open, func(l *model.Load) {
			l.Rate, l.Pattern.Segments = 1050, []model.Segment{{From: 100, To: 2000, Duration: 10 * time.Second}}
		})},
		"steps": {"model: open, duration: 1s, rate: {steps: [100/s, 200/s, 600/s]}", with(open, func(l *model.Load) {
			l.Duration, l.Rate = time.Second, mean(steps)
			l.Pattern.Segments = steps
		})},
		"replay": {"model: open, rate: {replay: [0s, 1ms, 1ms, 3s]}", with(open, func(l *model.Load) {
			l.Rate, l.Pattern.Times = 0.4, []time.Duration{0, time.Millisecond, time.Millisecond, 3 * time.Second}
		})},
		"replay of a file": {"model: open, rate: {replay: {file: times.txt}}", with(open, func(l *model.Load) {
			l.Rate, l.Pattern.Times = 0.3, []time.Duration{0, time.Millisecond, 3 * time.Millisecond}
		})},
		"ladder": {"model: open, rate: {ladder: [500/s, 1000/s]}", append(
			with(open, func(l *model.Load) { l.Name, l.Rate = "a-500", 500 }), with(open, func(l *model.Load) { l.Name = "a-1000" })...)},
		"search": {"model: open, rate: {highest: response.p99 < 20ms}", with(open, func(l *model.Load) {
			l.Rate, l.Search = 0, &model.Search{
				Objectives: []model.Objective{
					{Text: "response.p99 < 20ms", Metric: "response.p99", Op: "<", Value: 0.02}, {Text: "success >= 99.9%", Metric: "success", Op: ">=", Value: 0.999},
				},
				From: 100, To: 100_000, Precision: 0.05, Probe: time.Second, Confirmations: 2,
			}
		})},
		"search, all of it": {"model: open, rate: {highest: [success >= 99%, response.p50 < 1ms], from: 50/s, to: 500/s, precision: 1%, probe: 500ms, confirm: 1}", with(open, func(l *model.Load) {
			l.Rate, l.Search = 0, &model.Search{
				Objectives: []model.Objective{
					{Text: "success >= 99%", Metric: "success", Op: ">=", Value: 0.99}, {Text: "response.p50 < 1ms", Metric: "response.p50", Op: "<", Value: 0.001},
				},
				From: 50, To: 500, Precision: 0.01, Probe: 500 * time.Millisecond, Confirmations: 1,
			}
		})},
		"users": {"model: closed, think: 100ms, arrivals: poisson", with(closed, func(l *model.Load) { l.Think, l.Pattern.Poisson = 100*time.Millisecond, true })},
		"paced": {"model: closed, pace: 1000/s", with(closed, func(l *model.Load) { l.Pace = 1000 })},
		"settings": {"model: open, rate: 1000/s, when_blocked: drop, coalesce: 1ms, spin: 60us, driver: fortio", with(open, func(l *model.Load) {
			l.Drop, l.Coalesce, l.Spin, l.Driver = true, time.Millisecond, 60*time.Microsecond, "fortio"
		})},
		"TLS": {"model: closed, tls: {server_name: a.b, ca: {file: ca.pem}}", with(closed, func(l *model.Load) {
			l.TLS = &model.TLS{ServerName: "a.b", CA: "-----BEGIN CERTIFICATE-----\n"}
		})},
		"insecure":      {"model: closed, tls: {insecure: true}", with(closed, func(l *model.Load) { l.TLS = &model.TLS{Insecure: true} })},
		"generators":    {"model: closed, from: [client, server-0]", with(closed, func(l *model.Load) { l.Generators = []string{"server-0"} })},
		"one in a list": {"model: closed, from: [client]", []model.Load{closed}},
		"text file": {"model: closed, body: {file: body.txt}, headers: {file: x, A: {file: body.txt}}", with(closed, func(l *model.Load) {
			l.Config = json.RawMessage(`{"body":"line\n\"quoted\"","headers":{"A":"line\n\"quoted\"","file":"x"}}`)
		})},
		"binary file": {"model: closed, body: {file: body.bin}", with(closed, func(l *model.Load) { l.Config = json.RawMessage(`{"body_base64":"/wA="}`) })},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parseLoads(t, "  - {name: a, protocol: http1, "+test.text+"}\n", withFolder())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRelativeLoads(t *testing.T) {
	t.Parallel()
	const peak = "  - {name: peak, protocol: http1, model: closed}\n"
	got, err := parseLoads(t, "  - {name: at75, protocol: http1, model: open, rate: {percent: 75, of: lowest peak}}\n"+peak, catalog())
	if err != nil {
		t.Fatal(err)
	}
	want := model.Load{
		Name: "at75", Protocol: "http1", Arrival: model.ArrivalOpen, Relative: &model.Relative{Share: 0.75, Of: "peak", Among: model.AmongLowest},
		Connections: 32, Duration: 10 * time.Second, Timeout: 5 * time.Second, From: "client", To: "server",
	}
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Error(diff)
	}
	for name, test := range map[string]struct{ rate, want string }{
		"unknown":  {"{percent: 75, of: lowest peek}", `8:63: loads[0].rate.of: unknown load "peek"; did you mean "peak"?`},
		"itself":   {"{percent: 75, of: own a}", "loads[0].rate.of: load a has a rate of its own"},
		"whose":    {"{percent: 75, of: peak}", `"peak" is not one of lowest, highest, own`},
		"no share": {"{of: lowest peak}", "loads[0].rate.percent: is required"},
		"zero":     {"{percent: 0, of: lowest peak}", "0 is out of range: 1 to 1000"},
	} {
		_, err := parseLoads(t, "  - {name: a, protocol: http1, model: open, rate: "+test.rate+"}\n"+peak, catalog())
		if err == nil || !strings.Contains(err.Error(), strings.Replace(test.want, "8:63", "9:69", 1)) {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
}

func TestLoadProblems(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ text, want string }{
		"no form":         {"model: open, rate: {at: 5/s}", "9:51: loads[0].rate: has none of the keys"},
		"list":            {"model: open, rate: [5/s]", "is a list; here goes requests per second, such as 2000/s, or a mapping with"},
		"ramp key":        {"model: open, rate: {from: 5/s, to: 6/s, too: 6/s}", `unknown key "too"; did you mean "to"?`},
		"ramp half":       {"model: open, rate: {from: 5/s}", "loads[0].rate.to: is required"},
		"one step":        {"model: open, rate: {steps: [5/s]}", "has 1 entries: at least 2 are needed"},
		"steps":           {"model: open, rate: {steps: [5/s, x]}", "loads[0].rate.steps[1]: \"x\" is not a rate"},
		"times fall":      {"model: open, rate: {replay: [2s, 1s]}", "1s comes after 2s"},
		"times":           {"model: open, rate: {replay: {file: words.txt}}", `file words.txt, line 2: "soon" is not a duration`},
		"times fall too":  {"model: open, rate: {replay: {file: falls.txt}}", "file falls.txt, line 2: 1s comes after 2s"},
		"no times":        {"model: open, rate: {replay: {file: empty.txt}}", "there are no times"},
		"late":            {"model: open, rate: {replay: {file: late.txt}}", "goes on to 11s, and the window ends after 10s"},
		"replay poisson":  {"model: open, arrivals: poisson, rate: {replay: [0s]}", "loads[0].arrivals: has no meaning with a replay"},
		"rung":            {"model: open, rate: {ladder: [1.5/s]}", `loads[0].rate.ladder[0]: makes a load's name: "a-1.5" is not a name`},
		"rung twice":      {"model: open, rate: {ladder: [5/s, 5]}", "loads[0].rate.ladder[1]: is there twice"},
		"objective":       {"model: open, rate: {highest: p99}", `"p99" is not a condition`},
		"objective cost":  {"model: open, rate: {highest: cpu.total < 1s}", `unknown metric of a probe "cpu.total"`},
		"objective unit":  {"model: open, rate: {highest: response.p99 < 20}", "has no unit"},
		"no objective":    {"model: open, rate: {highest: []}", "at least one is needed"},
		"range":           {"model: open, rate: {highest: success > 99%, from: 5/s, to: 5/s}", "loads[0].rate.to: 5/s is not above from"},
		"precision":       {"model: open, rate: {highest: success > 99%, precision: 0.1%}", "out of range: 0.5% to 50%"},
		"probe":           {"model: open, rate: {highest: success > 99%, from: 1/s, probe: 100ms}", "less than one request in a probe"},
		"confirm":         {"model: open, rate: {highest: success > 99%, confirm: 0}", "out of range: 1 to 10"},
		"think":           {"model: open, rate: 5/s, think: 1s", "loads[0].think: has no meaning in an open loop"},
		"pace":            {"model: open, rate: 5/s, pace: 1/s", "loads[0].pace: has no meaning in an open loop"},
		"burst":           {"model: closed, burst: 5", "loads[0].burst: has no meaning in a closed loop"},
		"blocked":         {"model: closed, when_blocked: drop", "loads[0].when_blocked: has no meaning in a closed loop"},
		"poisson":         {"model: closed, arrivals: poisson", "needs a think time"},
		"arrivals":        {"model: closed, arrivals: poison", `did you mean "poisson"?`},
		"driver":          {"model: closed, driver: fortoi", `unknown driver "fortoi"; did you mean "fortio"?`},
		"from":            {"model: closed, from: [client, cleint]", `loads[0].from[1]: unknown pod "cleint"`},
		"from twice":      {"model: closed, from: [client, client]", `loads[0].from[1]: "client" is listed twice`},
		"driver's pods":   {"model: closed, driver: fortio, from: [client, server-0]", "loads[0].from: has several pods"},
		"from none":       {"model: closed, from: []", "is an empty list"},
		"few connections": {"model: closed, connections: 1, from: [client, server-0]", "1 are too few for 2 pods that send"},
		"CA and insecure": {"model: closed, tls: {ca: x, insecure: true}", "loads[0].tls.insecure: accepts any certificate"},
		"CA number":       {"model: closed, tls: {ca: 5}", "is the number 5; here goes text, or {file: NAME}"},
		"no file":         {"model: closed, body: {file: none.txt}", "9:60: loads[0].body: file none.txt cannot be read: file does not exist"},
		"outside":         {"model: closed, body: {file: ../x}", `file "../x" is not below the study's folder`},
		"absolute":        {"model: closed, tls: {ca: {file: /etc/passwd}}", "is not below the study's folder"},
		"large":           {"model: closed, body: {file: large.txt}", "has more than 1048576 bytes"},
		"binary header":   {"model: closed, headers: {A: {file: body.bin}}", "loads[0].headers.A: file body.bin is not UTF-8 text"},
		"breakdown":       {"model: closed, breakdown: 0s", "loads[0].breakdown: is zero"},
		"broken ramp":     {"model: open, rate: {from: 1/s, to: 5/s}, breakdown: 1s", "loads[0].breakdown: needs a rate that does not change"},
		"broken search":   {"model: open, rate: {highest: success > 99%}, breakdown: 1s", "loads[0].breakdown: needs a rate: break down another load"},
		"broken driver":   {"model: closed, driver: fortio, breakdown: 1s", "loads[0].breakdown: needs our own engine"},
		"broken header":   {"model: closed, headers: {X-Request-Id: mine}, breakdown: 1s", "loads[0].breakdown: needs a protocol whose requests can be numbered"},
		"binary CA":       {"model: closed, tls: {ca: {file: body.bin}}", "loads[0].tls.ca: file body.bin is not UTF-8 text"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parseLoads(t, "  - {name: a, protocol: http1, "+test.text+"}\n", withFolder())
			var problems Problems
			if !errors.As(err, &problems) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v\nwant %s", err, test.want)
			}
			if len(problems) > 1 {
				t.Errorf("%d problems: %v", len(problems), err)
			}
		})
	}
	_, err := parseLoads(t, "  - {name: a, protocol: http1, model: closed, body: {file: body.txt}}\n", catalog())
	if err == nil || !strings.Contains(err.Error(), "files cannot be named here") {
		t.Errorf("without a folder: %v", err)
	}
	_, err = parseLoads(t, "  - {name: a, protocol: http1, model: open, rate: {ladder: [5]}}\n  - {name: a-5, protocol: http1, model: closed}\n", catalog())
	if err == nil || !strings.Contains(err.Error(), `loads[1].name: "a-5" is already the name of loads[0]`) {
		t.Errorf("a rung's name twice: %v", err)
	}
}
