package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/windtunnel/windtunnel/internal/report"
	"github.com/windtunnel/windtunnel/internal/store"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// studyText is one small study of the lab. Every server pod runs in every trial;
// variants differ in the one that clients talk to.
const studyText = `apiVersion: windtunnel/v1
kind: Study
metadata: {name: prove}
question: Is what was planted found, and nothing else?
topology: {preset: two-nodes}
app:
  kind: echo
  replicas: 5
  planted:
    - {pods: [server-2], delay: 200us}
    - {pods: [server-3], fail: 1%%}
    - {pods: [server-4], burn: 100us}
baseline: plain
variants:
  - {name: plain, stack: [{pick: {pod: server-0}}]}
  - {name: same, stack: [{pick: {pod: server-1}}]}
%sloads:
  - {name: steady, protocol: http1, model: open, rate: 500/s, connections: 16, duration: %s}
design: {blocks: %d, warmup: 100ms, control: true, seed: %d, primary: [response.p50, response.p90, cpu.total, success]}
`

const plantedVariants = `  - {name: delayed, stack: [{pick: {pod: server-2}}]}
  - {name: failing, stack: [{pick: {pod: server-3}}]}
  - {name: burning, stack: [{pick: {pod: server-4}}]}
`

// truth is a planted effect on one metric.
type truth struct {
	variant, metric string
	size            float64
	// slack is what the effect itself is not known to: of failures a request in a
	// window, of times the clock and the wake-ups.
	slack float64
}

func truths(requests float64) []truth {
	return []truth{
		{"delayed", "response.p50", 200e-6, 20e-6},
		{"failing", "success", -0.01, 1 / requests},
		{"burning", "response.p50", 100e-6, 20e-6},
		{"burning", "cpu.total", 0.1, 0.02}, // 100 us a request are 0.1 s per 1,000
	}
}

type labOptions struct {
	dir            string
	alike, planted int
	window         time.Duration
	blocks         int
}

// proveLab runs A/A studies and studies with planted effects in the lab.
func proveLab(args []string, out io.Writer) error {
	f := flag.NewFlagSet("prove lab", flag.ContinueOnError)
	var o labOptions
	f.StringVar(&o.dir, "dir", "prove-lab", "folder to make, for the runs")
	f.IntVar(&o.alike, "alike", 40, "A/A studies")
	f.IntVar(&o.planted, "planted", 5, "studies with planted effects")
	f.DurationVar(&o.window, "window", time.Second, "window of a trial")
	f.IntVar(&o.blocks, "blocks", 6, "blocks of a study")
	if err := f.Parse(args); err != nil {
		return err
	}
	if err := os.Mkdir(o.dir, 0o755); err != nil { //nolint:gosec // G301: results are for others to read
		return fmt.Errorf("making the folder of the runs: %w (choose another with -dir)", err)
	}
	return errors.Join(o.proveAlike(out), o.provePlanted(out))
}

// proveAlike counts A/A studies in which a difference is shown. At a rate of
// 5 % and 40 studies, more than 5 have a chance of 1.4 %.
func (o labOptions) proveAlike(out io.Writer) error {
	const rate, errors = 0.05, 3
	falsely := 0
	for i := range o.alike {
		m, err := o.run(fmt.Sprintf("alike-%02d", i+1), "", i+1)
		if err != nil {
			return err
		}
		for _, c := range m.Comparisons {
			if c.Variant == "same" && !c.Exploratory && c.Verdict == report.VerdictDifferent {
				falsely++
				_, _ = fmt.Fprintf(out, "A/A study %d: %s is called different: %+v\n", i+1, c.Metric, *c.Difference)
				break
			}
		}
	}
	_, _ = fmt.Fprintf(out, "A/A: %d of %d studies show a difference\n", falsely, o.alike)
	if float64(falsely) > max(rate*float64(o.alike)+errors, 1) {
		return errNotProved
	}
	return nil
}

// provePlanted looks for every planted effect in its interval.
func (o labOptions) provePlanted(out io.Writer) error {
	const most = 0.2 // of the intervals may miss: a few studies cannot tell 5 %
	missed, all := 0, 0
	for i := range o.planted {
		m, err := o.run(fmt.Sprintf("planted-%02d", i+1), plantedVariants, i+1)
		if err != nil {
			return err
		}
		for _, t := range truths(500 * o.window.Seconds()) {
			all++
			text, ok := t.found(m)
			if !ok {
				missed++
			}
			_, _ = fmt.Fprintf(out, "study %d, %s\n", i+1, text)
		}
	}
	_, _ = fmt.Fprintf(out, "planted: %d of %d intervals hold what was planted\n", all-missed, all)
	if float64(missed) > most*float64(all) {
		return errNotProved
	}
	return nil
}

// found says whether the interval, with the slack, holds the truth and the
// effect was called different.
func (t truth) found(m *report.Model) (string, bool) {
	c := m.Comparison(t.variant, "steady", t.metric)
	if c == nil || c.Difference == nil {
		return fmt.Sprintf("%s %s: not measured", t.variant, t.metric), false
	}
	d := c.Difference
	ok := d.Lo-t.slack <= t.size && t.size <= d.Hi+t.slack
	return fmt.Sprintf("%s %s: planted %g, found %g [%g, %g], %s, held: %v", t.variant, t.metric, t.size, d.Value, d.Lo, d.Hi, c.Verdict, ok), ok
}

func studyFile(variants string, o labOptions, seed int) []byte {
	return fmt.Appendf(nil, studyText, variants, o.window, o.blocks, seed)
}

// run makes one run with this very program, and reports on it.
func (o labOptions) run(name, variants string, seed int) (*report.Model, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	file, dir := filepath.Join(o.dir, name+".yaml"), filepath.Join(o.dir, name)
	if err = store.WriteFile(file, studyFile(variants, o, seed)); err != nil {
		return nil, err
	}
	var text bytes.Buffer
	env := []string{"PATH=" + os.Getenv("PATH"), "XDG_RUNTIME_DIR=" + os.Getenv("XDG_RUNTIME_DIR")} //nolint:forbidigo // a program of its own
	p, err := sys.Start(sys.Command{Argv: []string{self, "run", file, "--out", dir, "--quiet"}, Env: env, Output: &text})
	if err != nil {
		return nil, err
	}
	<-p.Done()
	if p.ExitCode() != 0 {
		return nil, fmt.Errorf("running %s ended with exit code %d:\n%s", file, p.ExitCode(), text.String())
	}
	run, err := store.Open(dir)
	if err != nil {
		return nil, err
	}
	return report.Build(run)
}
