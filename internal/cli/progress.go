package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/agent"
	"github.com/windtunnel/windtunnel/internal/command"
	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/plan"
	"github.com/windtunnel/windtunnel/internal/report"
	"github.com/windtunnel/windtunnel/internal/runner"
)

// progress says what a run is doing: one line that is drawn over on a
// terminal, a line a trial elsewhere.
type progress struct {
	out      io.Writer
	terminal bool
	quiet    bool
	plan     plan.Plan
	blocks   int
	began    time.Time
	at       int // trials done when this session began
	now      func() time.Time
	last     string
	line     string
}

var _ runner.Progress = (*progress)(nil)

func newProgress(env command.Env, quiet bool, p plan.Plan) *progress {
	blocks := 0
	for _, t := range p.Trials {
		blocks = max(blocks, t.Block)
	}
	return &progress{out: env.Stdout, terminal: env.Terminal, quiet: quiet, plan: p, blocks: blocks, now: env.Now, at: -1}
}

// Started announces a trial.
func (p *progress) Started(t model.Trial, done, total int) {
	if p.at < 0 {
		p.at, p.began = done, p.now()
	}
	filled := done * 20 / max(total, 1)
	bar := strings.Repeat("█", filled) + strings.Repeat("░", 20-filled)
	p.line = fmt.Sprintf("%s %d/%d  %s  %s/%s  %s", bar, done, total, p.phase(t), t.Variant, t.Load, p.eta(done, total))
	p.draw("")
}

func (p *progress) phase(t model.Trial) string {
	if t.Calibration {
		return fmt.Sprintf("calibration %d", t.Block)
	}
	if t.Breakdown {
		return "breakdown"
	}
	return fmt.Sprintf("block %d of %d", t.Block, p.blocks)
}

// eta is from the trials of this session; before there is one, from the plan.
func (p *progress) eta(done, total int) string {
	left := expected(p.plan) * time.Duration(total-done) / time.Duration(max(total, 1))
	if n := done - p.at; n > 0 {
		left = p.now().Sub(p.began) / time.Duration(n) * time.Duration(total-done)
	}
	return "ETA " + left.Round(time.Second).String()
}

// Step names what the trial is doing.
func (p *progress) Step(_ model.Trial, step string) { p.draw(step) }

// Load shows the load's counts.
func (p *progress) Load(_ model.Trial, l agent.Progress) {
	text := fmt.Sprintf("%d requests", l.Succeeded)
	if l.Failed > 0 {
		text += fmt.Sprintf(", %d failed", l.Failed)
	}
	p.draw(text)
}

func (p *progress) printf(format string, args ...any) { _, _ = fmt.Fprintf(p.out, format, args...) }

func (p *progress) draw(detail string) {
	if p.quiet || !p.terminal {
		return
	}
	p.printf("\r\x1b[K%s  %s%s", p.line, detail, p.last)
}

// Finished says what the trial gave.
func (p *progress) Finished(o *model.Outcome, done, total int) {
	text := result(o)
	p.last = "  | last: " + text
	if p.quiet || p.terminal {
		if o.Failure != nil && !p.quiet {
			p.printf("\r\x1b[Ktrial %d, %s/%s: %s\n", o.Trial.Index, o.Trial.Variant, o.Trial.Load, text)
		}
		return
	}
	p.printf("%d/%d %s %s/%s: %s, %s\n", done, total, p.phase(o.Trial), o.Trial.Variant, o.Trial.Load, text, p.eta(done, total))
}

func result(o *model.Outcome) string {
	if o.Failure != nil {
		return "FAILED while " + o.Failure.Step + ": " + o.Failure.Error
	}
	if text := flowed(o); text != "" {
		return text
	}
	p50, err := metric.Of(o, "response.p50")
	if err != nil {
		return err.Error()
	}
	p99, err := metric.Of(o, "response.p99")
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("p50 %s, p99 %s", report.FormatValue(metric.UnitSeconds, p50), report.FormatValue(metric.UnitSeconds, p99))
}

// flowed says what a load that is not made of requests did; empty for others.
func flowed(o *model.Outcome) string {
	var parts []string
	for _, name := range []string{"goodput", "loss"} {
		if v, err := metric.Of(o, name); err == nil {
			def, _ := metric.Lookup(name)
			parts = append(parts, name+" "+report.FormatValue(def.Unit, v))
		}
	}
	return strings.Join(parts, ", ")
}

// close ends the line that was drawn over.
func (p *progress) close() {
	if p.terminal && !p.quiet {
		p.printf("\r\x1b[K")
	}
}
