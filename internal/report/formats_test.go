package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/hist"
	fortioreader "github.com/windtunnel/windtunnel/internal/ingest/fortio"

	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/report"
	"github.com/windtunnel/windtunnel/internal/report/fortio"
	"github.com/windtunnel/windtunnel/internal/report/hdr"
	"github.com/windtunnel/windtunnel/internal/report/junit"
	"github.com/windtunnel/windtunnel/internal/report/latex"
	"github.com/windtunnel/windtunnel/internal/report/openmetrics"
	"github.com/windtunnel/windtunnel/internal/report/svg"
)

// troubled spoils a few outcomes: one fails, one has failures, all of envoy
// have a slot with them.
func troubled(o *model.Outcome) {
	o.Load.Statuses, o.Load.Sockets = map[int]uint64{200: 2000}, 32
	o.Load.Timeline = model.Timeline{SlotWidth: 100 * time.Millisecond}
	for i := range 20 {
		mean := o.Load.Response.Mean()
		s := model.Slot{Succeeded: 100, Mean: mean + time.Duration(i%5)*mean/50, Max: 2*mean + time.Duration(i%7)*mean/3, Cells: [][2]uint32{{hist.Cell(mean), 100}}}
		if o.Trial.Variant == "envoy" && i > 8 && i < 12 {
			s.Failed = 3
		}
		o.Load.Timeline.Slots = append(o.Load.Timeline.Slots, s)
	}
	if o.Trial.Variant == "envoy" {
		o.Load.FailedResponse.RecordN(int64(3*time.Millisecond), 9)
		o.Load.Failed, o.Load.Due, o.Load.Sent = map[model.Cause]uint64{model.CauseReset: 7, model.CauseStatus: 2}, 2009, 2009
		o.Load.Statuses[503] = 2
	}
	if o.Trial.Index == 3 {
		o.Failure, o.Load = &model.Failure{Step: "ready gate", Error: `0 of 20 right answers: <html> & "x"`}, nil
	}
}

func rich(t *testing.T) *report.Model {
	t.Helper()
	s := testStudy(10)
	s.Published, s.Question = sources(), "What do 2 sidecars add & is it >5 % of $100_000?"
	s.Gates = append(s.Gates, model.Gate{Text: "envoy.response.p50 < 100us", Variant: "envoy", Metric: "response.p50", Op: "<", Value: 1e-4})
	return buildStudy(t, s, troubled)
}

func TestPaperFormatsGolden(t *testing.T) {
	t.Parallel()
	golden(t, rich(t), map[string]report.Format{"rich.tex": latex.Format{}, "rich.svg": svg.Format{}, "rich.xml": junit.Format{}})
	golden(t, buildFlows(t), map[string]report.Format{"flows.tex": latex.Format{}, "flows.svg": svg.Format{}})
}

func written(t *testing.T, f report.Format, m *report.Model) string {
	t.Helper()
	var b bytes.Buffer
	if err := f.Write(t.Context(), &b, m); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Names that are hostile to every format; a model with nothing in it.
func hostile(t *testing.T) map[string]*report.Model {
	t.Helper()
	const nasty = "\"</title><script>x</script>\\end{document}%$#_^~{}&\n\x00\xff日"
	m := rich(t)
	m.Name, m.Question, m.Run.ID = nasty, nasty, nasty
	for i := range m.Findings {
		m.Findings[i].Cause, m.Findings[i].Evidence = nasty, nasty
	}
	for i := range m.Gates {
		m.Gates[i].Text, m.Gates[i].Detail = nasty, nasty
	}
	m.Published[0].Source, m.Published[0].Claims[0].Text = nasty, nasty
	m.Loads[0].Text = nasty
	return map[string]*report.Model{"hostile": m, "empty": {}, "rich": rich(t), "flows": buildFlows(t)}
}

func wellFormed(t *testing.T, name, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "script" {
			t.Errorf("%s has a script", name)
		}
	}
}

// Whatever a study says, every format takes it.
func TestHostileText(t *testing.T) {
	t.Parallel()
	models := hostile(t)
	for name, test := range map[string]func(*testing.T, map[string]*report.Model){"XML": xmlIsWellFormed, "LaTeX": latexCompiles, "OpenMetrics": openMetricsIsStrict} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, models)
		})
	}
}

func xmlIsWellFormed(t *testing.T, models map[string]*report.Model) {
	t.Helper()
	for name, m := range models {
		for kind, f := range map[string]report.Format{"svg": svg.Format{}, "junit": junit.Format{}} {
			text := written(t, f, m)
			wellFormed(t, name+" "+kind, text)
			for _, bad := range []string{"NaN", "Inf\"", "-Inf"} {
				if kind == "svg" && strings.Contains(text, bad) {
					t.Errorf("%s svg draws %s", name, bad)
				}
			}
		}
		files, err := svg.Format{}.Files(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			wellFormed(t, name+" "+file.Name, string(file.Data))
		}
	}
}

func TestJUnitCounts(t *testing.T) {
	t.Parallel()
	var got struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
		Suites   []struct {
			Name     string `xml:"name,attr"`
			Tests    int    `xml:"tests,attr"`
			Failures int    `xml:"failures,attr"`
		} `xml:"testsuite"`
	}
	m := rich(t)
	if err := xml.Unmarshal([]byte(written(t, junit.Format{}, m)), &got); err != nil {
		t.Fatal(err)
	}
	invalid := 0
	for _, f := range m.Findings {
		if f.Severity == model.SeverityInvalid {
			invalid++
		}
	}
	if got.Tests != 2+len(m.Findings)+len(m.Trials) || got.Failures != 2+invalid || got.Errors != 1 {
		t.Errorf("%+v of %d findings, %d invalid, and %d trials", got, len(m.Findings), invalid, len(m.Trials))
	}
	if got.Suites[0].Tests != 2 || got.Suites[0].Failures != 2 {
		t.Errorf("gates: %+v", got.Suites[0])
	}
}

// pdflatex takes whatever a study says, where it is installed.
func latexCompiles(t *testing.T, models map[string]*report.Model) {
	t.Helper()
	if _, err := exec.LookPath("pdflatex"); err != nil {
		t.Skip("pdflatex is not installed (Debian: texlive-latex-recommended)")
	}
	for name, m := range models {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "r.tex"), []byte(written(t, latex.Format{}, m)), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "r.tex")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out[max(0, len(out)-1500):])
		}
	}
}

// What Fortio's page is given, our reader of Fortio's results reads back.
func TestFortioReadsBack(t *testing.T) {
	t.Parallel()
	m := rich(t)
	files, err := fortio.Format{}.Files(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 2*len(m.Variants) {
		t.Fatalf("%d files of %d variants", len(files), len(m.Variants))
	}
	for _, file := range files {
		got, failure := fortioreader.Read(bytes.NewReader(file.Data), ingest.About{})
		if failure != nil {
			t.Fatalf("%s: %v", file.Name, failure)
		}
		variant := strings.Split(file.Name, "-")[1]
		want := &hist.Histogram{}
		var failed uint64
		for _, r := range m.Results {
			if r.Variant == variant && r.State == "done" {
				want.Merge(r.Load.Response)
				failed += r.Load.FailedTotal()
			}
		}
		if got.Succeeded != want.Count() || got.FailedTotal() != failed || got.Connections != 32 {
			t.Errorf("%s: %d successes and %d failures, want %d and %d", file.Name, got.Succeeded, got.FailedTotal(), want.Count(), failed)
		}
		for _, q := range []float64{0, 0.5, 0.9, 0.99, 1} {
			if is, should := got.Service.Quantile(q).Seconds(), want.Quantile(q).Seconds(); math.Abs(is/should-1) > 0.015 {
				t.Errorf("%s: quantile %g is %g, want %g", file.Name, q, is, should)
			}
		}
		var raw struct {
			Percentiles []struct{ Percentile, Value float64 }
		}
		var whole struct{ DurationHistogram *json.RawMessage }
		if err = errors.Join(json.Unmarshal(file.Data, &whole), json.Unmarshal(*whole.DurationHistogram, &raw)); err != nil || len(raw.Percentiles) != 5 {
			t.Errorf("%s: %d percentiles, %v", file.Name, len(raw.Percentiles), err)
		}
	}
	if lines := strings.Count(written(t, fortio.Format{}, m), "\n"); lines != len(files) {
		t.Errorf("%d lines, want a result each", lines)
	}
	if files, err = (fortio.Format{}).Files(t.Context(), buildFlows(t)); err != nil || len(files) != 0 {
		t.Errorf("flows make %d results, %v", len(files), err)
	}
}

func TestHdrReadsBack(t *testing.T) {
	t.Parallel()
	m := rich(t)
	got := map[string]uint64{}
	for e, err := range hist.ReadLog(strings.NewReader(written(t, hdr.Format{}, m))) {
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(e.Tag, "/")
		got[strings.Join(parts[:3], "/")] += e.Count()
	}
	trials := uint64(0)
	for _, r := range m.Results {
		if r.Variant == "envoy" {
			trials++
		}
	}
	if got["envoy/steady/response"] != 2000*trials || got["envoy/steady/service"] != 2000*trials || got["envoy/steady/failed"] != 9*trials || got["direct/steady/failed"] != 0 {
		t.Errorf("%v of %d trials", got, trials)
	}
}

func openMetricsIsStrict(t *testing.T, models map[string]*report.Model) {
	t.Helper()
	for name, m := range models {
		text := written(t, openmetrics.Format{}, m)
		samples, err := parseOpenMetrics(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if name == "rich" && (samples < 1000 || !strings.Contains(text, `windtunnel_requests_total{variant="envoy"`)) {
			t.Errorf("%d samples", samples)
		}
	}
}
