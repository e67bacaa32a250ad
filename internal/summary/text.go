package summary

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/model"
)

// columns is the width that texts keep to.
const columns = 100

// page is a text under way.
type page struct{ strings.Builder }

func (p *page) printf(format string, args ...any) { _, _ = fmt.Fprintf(p, format, args...) }

// WriteText writes the load for a terminal or a pull request, in at most 100
// columns; the first line answers.
func (l *Load) WriteText(w io.Writer) error {
	var p page
	p.printf("%s\n", l.Headline())
	p.wrap("", l.What())
	p.findings(l)
	switch r := l.Result; {
	case r.Stream != nil:
		p.stream(r)
	case r.Datagrams != nil:
		p.datagrams(r)
	default:
		p.latencies(l)
		p.histogram(r.Response)
		p.timeline(r)
	}
	p.counts(l)
	p.generator(l)
	if _, err := io.WriteString(w, p.String()); err != nil {
		return fmt.Errorf("writing the summary: %w", err)
	}
	return nil
}

// Headline answers in one line.
func (l *Load) Headline() string {
	r := l.Result
	if s := r.Stream; s != nil {
		streams := "1 stream"
		if s.Streams != 1 {
			streams = fmt.Sprintf("%d streams", s.Streams)
		}
		return fmt.Sprintf("%s, %s, %s retransmits", goodput(s, r.Elapsed), streams, number(s.Retransmits))
	}
	if d := r.Datagrams; d != nil {
		return fmt.Sprintf("%s received, %s of %s lost (%s), jitter %s", bits(perSecond((d.Received-d.Duplicated)*uint64(d.Size), r.Elapsed)*8), //nolint:gosec // G115: a size is not negative
			number(d.Lost), number(d.Sent), percent(share(d.Lost, d.Sent)), FormatTime(d.Jitter))
	}
	text := rateText(l.rate())
	if r.Arrival == model.ArrivalOpen {
		text += " of " + rateText(l.Load.Rate) + " asked"
	}
	text += fmt.Sprintf(", %s of %s succeeded", percent(l.success()), number(r.Due))
	if r.Succeeded == 0 {
		return text
	}
	kind, h := "response", r.Response
	if l.sameTimes() {
		kind, h = "service", r.Service
	}
	text += fmt.Sprintf(", %s p50 %s", kind, FormatTime(h.Quantile(0.5)))
	if Carries(h.Count(), 0.99) {
		return text + ", p99 " + FormatTime(h.Quantile(0.99))
	}
	return text + ", max " + FormatTime(h.Max())
}

// sameTimes says that response and service time are the same by definition.
func (l *Load) sameTimes() bool { return l.Load.Arrival == model.ArrivalClosed && l.Load.Pace == 0 }

// What says what was done to what.
func (l *Load) What() string {
	var to []string
	for _, a := range l.Addresses {
		if a.Port() == 0 { // ICMP has none
			to = append(to, a.Addr().String())
			continue
		}
		to = append(to, a.String())
	}
	if len(to) > 3 {
		to = append(to[:3], fmt.Sprintf("%d more", len(to)-3))
	}
	text := fmt.Sprintf("%s (%s), %s, ", l.URL, strings.Join(to, ", "), l.Load.Protocol)
	if l.Load.Connections == 1 {
		text += "1 connection, "
	} else {
		text += fmt.Sprintf("%d connections, ", l.Load.Connections)
	}
	if l.Result.Streams > 1 {
		text += fmt.Sprintf("%d requests at a time on each, ", l.Result.Streams)
	}
	if l.Result.Stream == nil && l.Result.Datagrams == nil {
		text += l.arrival() + ", "
	}
	text += l.Result.Elapsed.Round(time.Millisecond).String()
	if l.Stopped {
		text += " of " + l.Load.Duration.String()
	}
	if l.Warmup > 0 {
		text += " after " + l.Warmup.Round(time.Millisecond).String() + " of warm-up"
	}
	return text
}

// arrival names the load model.
func (l *Load) arrival() string {
	m := &l.Load
	if m.Arrival == model.ArrivalClosed {
		text := "closed loop"
		if m.Think > 0 {
			text += fmt.Sprintf(", thinking %s", m.Think)
		}
		if m.Pace > 0 {
			text += ", at most " + rateText(m.Pace)
		}
		return text
	}
	text := "open loop"
	switch s := m.Pattern.Segments; {
	case len(m.Pattern.Times) > 0:
		text += ", replayed"
	case len(s) == 1:
		text += fmt.Sprintf(", from %s to %s", rateText(s[0].From), rateText(s[0].To))
	case len(s) > 1:
		text += fmt.Sprintf(", %d steps", len(s))
	}
	if m.Pattern.Poisson {
		text += ", Poisson"
	}
	if m.Pattern.Burst > 1 {
		text += fmt.Sprintf(", bursts of %d", m.Pattern.Burst)
	}
	return text
}

// wrap prints text in lines of the page's width; all but the first are indented
// under the lead.
func (p *page) wrap(lead, text string) {
	indent := strings.Repeat(" ", utf8.RuneCountInString(lead))
	line := lead
	for i, word := range strings.Fields(text) {
		if i > 0 && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > columns {
			p.printf("%s\n", line)
			line = indent
		} else if i > 0 {
			line += " "
		}
		line += word
	}
	p.printf("%s\n", line)
}

// findings are what speaks against the numbers.
func (p *page) findings(l *Load) {
	for _, f := range l.Findings() {
		lead := "note     "
		if f.Severity != model.SeverityNote {
			lead = "WARNING  "
		}
		p.wrap(lead, f.Cause+": "+f.Evidence+". "+strings.ToUpper(f.Advice[:1])+f.Advice[1:]+".")
	}
	for _, f := range l.Failed {
		p.wrap("FAILED   ", f)
	}
}

func (p *page) latencies(l *Load) {
	r := l.Result
	n := count(r.Response)
	if n == 0 {
		return
	}
	p.printf("\n%-9s", "")
	var given []float64
	for _, q := range quantiles() {
		if Carries(n, q) {
			given = append(given, q)
			p.printf("%9s", quantileName(q))
		}
	}
	p.printf("%9s%9s\n", "max", "mean")
	p.times("response", r.Response, given)
	p.times("service", r.Service, given)
	p.note("response: from when a request was due to its complete answer; service: from when it was sent.")
	p.difference(l)
	if len(given) < len(quantiles()) {
		p.note(fmt.Sprintf("%s successes have none beyond %s: it is not given.", number(n), quantileName(quantiles()[len(given)])))
	}
	if last := len(given) - 1; last >= 0 && beyond(n, given[last]) < 10 {
		p.note(fmt.Sprintf("%s rests on the slowest %d of them: another run may well differ.", quantileName(given[last]), beyond(n, given[last])+1))
	}
}

func (p *page) times(name string, h *hist.Histogram, given []float64) {
	p.printf("%-9s", name)
	for _, q := range given {
		p.printf("%9s", FormatTime(h.Quantile(q)))
	}
	p.printf("%9s%9s\n", FormatTime(h.Max()), FormatTime(h.Mean()))
}

// difference says why the two latencies differ, if they do.
func (p *page) difference(l *Load) {
	r := l.Result
	switch late := r.Response.Mean() - r.Service.Mean(); {
	case l.sameTimes():
		p.note("In a closed loop the two are the same: a request is due when it is sent.")
	case r.Blocked > 0 && late > r.Response.Mean()/10:
		p.note(fmt.Sprintf("They differ because %s requests (%s) waited for a free connection: trust response.", number(r.Blocked), percent(share(r.Blocked, r.Due))))
	case late > r.Response.Mean()/10:
		p.note(fmt.Sprintf("They differ because the generator was late (p99 %s): the truth is between the two.", FormatTime(r.Lateness.Quantile(0.99))))
	}
}

func (p *page) note(text string) { p.wrap("  ", text) }

func (p *page) histogram(h *hist.Histogram) {
	all := rows(h)
	if len(all) == 0 {
		return
	}
	var most uint64
	for _, r := range all {
		most = max(most, r.Count)
	}
	n := h.Count()
	marks := quantiles()
	p.printf("\n%12s  response time of %s successes\n", "up to", number(n))
	var seen uint64
	for _, r := range all {
		seen += r.Count
		var names []string
		for len(marks) > 0 && float64(seen) >= marks[0]*float64(n)*(1-1e-12) {
			if Carries(n, marks[0]) {
				names = append(names, quantileName(marks[0]))
			}
			marks = marks[1:]
		}
		const width = 40
		b := bar(float64(r.Count)/float64(most), width)
		b += strings.Repeat(" ", width-utf8.RuneCountInString(b))
		line := fmt.Sprintf("%12s  %s %8s  %s", FormatTime(r.High), b, percentShort(r.Count, n), strings.Join(names, " "))
		p.printf("%s\n", strings.TrimRight(line, " "))
	}
}

// percentShort is a share with two decimals.
func percentShort(n, of uint64) string {
	switch s := share(n, of) * 100; {
	case n == 0:
		return ""
	case s < 0.005:
		return "<0.01 %"
	default:
		return strconv.FormatFloat(s, 'f', 2, 64) + " %"
	}
}

func (p *page) timeline(r *model.LoadResult) {
	const width = 50
	parts := moments(r.Timeline, r.Elapsed, width)
	if len(parts) < 2 {
		return
	}
	var rate, failed, p50, p99 []float64
	var broken uint64
	for _, m := range parts {
		seconds := m.length.Seconds()
		rate = append(rate, float64(m.succeeded)/seconds)
		failed = append(failed, float64(m.failed)/seconds)
		broken += m.failed
		p50, p99 = append(p50, known(m, m.p50)), append(p99, known(m, m.p99))
	}
	p.printf("\nover time (%s a column)\n", parts[0].length.Round(time.Millisecond))
	line := func(name string, values []float64, format func(float64) string) {
		least, most := math.Inf(1), 0.0
		for _, v := range values {
			if !math.IsNaN(v) {
				least, most = min(least, v), max(most, v)
			}
		}
		if math.IsInf(least, 1) {
			return
		}
		p.printf("%12s  %s  %s to %s\n", name, spark(values), format(least), format(most))
	}
	seconds := func(v float64) string { return FormatTime(time.Duration(v)) }
	line("successes", rate, rateText)
	if broken > 0 {
		line("failures", failed, rateText)
	}
	line("response p50", p50, seconds)
	line("response p99", p99, seconds)
}

// known is a latency for a picture: unknown where nothing succeeded.
func known(m moment, d time.Duration) float64 {
	if m.succeeded == 0 {
		return math.NaN()
	}
	return float64(d)
}

// line is one of the facts below the latencies.
func (p *page) line(name, text string) { p.wrap(fmt.Sprintf("%-12s", name), text) }

func (p *page) counts(l *Load) {
	r := l.Result
	p.printf("\n")
	causes := slices.SortedFunc(maps.Keys(r.Failed), func(a, b model.Cause) int {
		return cmp.Or(cmp.Compare(r.Failed[b], r.Failed[a]), cmp.Compare(a, b))
	})
	for _, c := range causes {
		text := fmt.Sprintf("%s %s (%s)", number(r.Failed[c]), c, percent(share(r.Failed[c], r.Due)))
		if why := r.Reasons[c]; why != "" {
			text += ": " + why
		}
		p.line("failed", text)
	}
	if r.Unsent > 0 {
		p.line("unsent", number(r.Unsent)+" were due and never sent, as no connection was free: failures of this test")
	}
	if len(r.Statuses) > 0 {
		p.line("statuses", tally(r.Statuses, strconv.Itoa))
	}
	if len(r.Responders) > 0 {
		text := tally(r.Responders, func(s string) string { return s })
		if r.Unidentified > 0 {
			text += ", unnamed " + number(r.Unidentified)
		}
		p.line("servers", text)
	}
	if r.Messages > r.Succeeded { // of unary calls each answer is one
		p.line("messages", number(r.Messages)+" in streamed answers, "+rateText(perSecond(r.Messages, r.Elapsed)))
	}
	text := fmt.Sprintf("%s sent, %s received (%s)", sizeText(r.BytesSent), sizeText(r.BytesReceived), bits(perSecond(r.BytesReceived, r.Elapsed)*8))
	if r.BodyBytesMax > 0 && r.BodyBytesMin == r.BodyBytesMax {
		text += fmt.Sprintf("; bodies of %s B", number(uint64(r.BodyBytesMax)))
	} else if r.BodyBytesMax > 0 {
		text += fmt.Sprintf("; bodies of %s to %s B", number(uint64(max(r.BodyBytesMin, 0))), number(uint64(r.BodyBytesMax)))
	}
	if r.Sockets > 0 {
		text += "; connections opened: " + number(r.Sockets)
	}
	if r.BytesSent+r.BytesReceived > 0 {
		p.line("traffic", text)
	}
}

// tally lists counts, the largest first, at most eight.
func tally[K cmp.Ordered](m map[K]uint64, name func(K) string) string {
	keys := slices.SortedFunc(maps.Keys(m), func(a, b K) int { return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b)) })
	var all []string
	for i, k := range keys {
		if i == 8 {
			all = append(all, fmt.Sprintf("%d more", len(keys)-i))
			break
		}
		all = append(all, name(k)+": "+number(m[k]))
	}
	return strings.Join(all, ", ")
}

// generator says how well the load was sent.
func (p *page) generator(l *Load) {
	r := l.Result
	var parts []string
	if n := count(r.Lateness); n > 0 {
		text := "late p50 " + FormatTime(r.Lateness.Quantile(0.5))
		if Carries(n, 0.99) {
			text += ", p99 " + FormatTime(r.Lateness.Quantile(0.99))
		}
		parts = append(parts, text)
	}
	if r.Turnaround > 0 && r.Sent > 0 {
		parts = append(parts, fmt.Sprintf("took %s from an answer to the next request", FormatTime(r.Turnaround/time.Duration(r.Sent)))) //nolint:gosec // G115: far below the largest
	}
	if r.Workers > 0 {
		threads := "1 thread"
		if r.Workers > 1 {
			threads = fmt.Sprintf("%d threads", r.Workers)
		}
		parts = append(parts, fmt.Sprintf("CPU %s of %s", percent(round(l.cpuShare(), 3)), threads))
	}
	if r.Arrival == model.ArrivalOpen {
		parts = append(parts, number(r.Blocked)+" blocked, "+number(r.Unsent)+" unsent")
	}
	p.line("generator", strings.Join(parts, "; "))
	if l.IdleCPUs != "" {
		p.line("idle CPUs", l.IdleCPUs)
	}
	if l.CPUs.Before > 0 {
		p.line("CPUs apart", FormatTime(l.CPUs.Before)+" before the load, "+FormatTime(l.CPUs.After)+" after it")
	}
	p.line("clock", r.Clock)
}
