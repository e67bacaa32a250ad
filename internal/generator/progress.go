package generator

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/summary"
)

// loadProgress says how a load is doing: one line that is drawn over on a
// terminal, a line every 10 s elsewhere.
type loadProgress struct {
	out      io.Writer
	terminal bool
	now      func() time.Time
	load     model.Load
	warmup   time.Duration

	began, last time.Time // last is when a line was written
	before      load.Progress
	rate        float64 // achieved, smoothed
	at          time.Time
}

// quietEvery is between two lines where there is no terminal.
const quietEvery = 10 * time.Second

func (p *loadProgress) window(model.Window) {
	p.began = p.now()
	p.last, p.at = p.began, p.began
}

func (p *loadProgress) show(s load.Progress) {
	now := p.now()
	if seconds := now.Sub(p.at).Seconds(); seconds > 0 {
		rate := float64(s.Succeeded-p.before.Succeeded) / seconds
		const weight = 0.3 // of the newest fifth of a second
		if p.before.Succeeded > 0 {
			rate = weight*rate + (1-weight)*p.rate
		}
		p.rate, p.before, p.at = rate, s, now
	}
	line := p.line(s, now.Sub(p.began))
	switch {
	case p.terminal:
		_, _ = fmt.Fprintf(p.out, "\r\x1b[K%s", line)
	case now.Sub(p.last) >= quietEvery:
		p.last = now
		_, _ = fmt.Fprintln(p.out, line)
	}
}

// line fits a terminal of 80 columns.
func (p *loadProgress) line(s load.Progress, elapsed time.Duration) string {
	total := p.warmup + p.load.Duration
	const width = 6
	filled := int(min(width*elapsed/total, width))
	bar := strings.Repeat("█", filled) + strings.Repeat("░", width-filled)
	left := "finishing"
	switch {
	case elapsed < p.warmup:
		left = "warming up"
	case elapsed < total:
		left = (total - elapsed).Round(time.Second).String() + " left"
	}
	text := fmt.Sprintf("%s %s %s/s", bar, left, summary.Short(p.rate))
	if p.load.Arrival == model.ArrivalOpen && len(p.load.Pattern.Segments) == 0 {
		text += " of " + summary.Short(p.load.Rate)
	}
	text += fmt.Sprintf(", %d in flight, %s failed", s.Due-min(s.Succeeded+s.Failed, s.Due), summary.Short(float64(s.Failed)))
	if s.Succeeded > 0 {
		text += fmt.Sprintf(", p50 %s p99 %s", summary.FormatTime(s.P50), summary.FormatTime(s.P99))
	}
	if all := []rune(text); len(all) > terminalColumns {
		text = string(all[:terminalColumns]) // a longer line could not be drawn over
	}
	return text
}

// terminalColumns is what every terminal has, but for the last.
const terminalColumns = 79

// close takes the line away.
func (p *loadProgress) close() {
	if p.terminal {
		_, _ = fmt.Fprint(p.out, "\r\x1b[K")
	}
}
