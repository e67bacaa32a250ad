package claims

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/audit"
	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
)

// metrics are the names that claims and tables may use.
func metrics() []string {
	return []string{"min", "mean", "p50", "p75", "p90", "p95", "p99", "p99.9", "max", "success", "rate", "goodput", "loss"}
}

// canonical is the name of a metric, however it is written.
func canonical(text string) (string, bool) {
	if _, ok := metric.Lookup(text); ok {
		return text, true
	}
	word := strings.ToLower(strings.TrimSpace(text))
	word = strings.TrimSuffix(strings.ReplaceAll(word, "_", "."), ".latency")
	same := map[string]string{
		"minimum": "min", "maximum": "max", "avg": "mean", "average": "mean", "median": "p50", "qps": "rate", "rps": "rate", "throughput": "rate",
		"success ratio": "success", "success rate": "success", "success.percent": "success", "percentile": "", "latency": "mean",
	}
	if to, ok := same[word]; ok {
		return to, to != ""
	}
	if slices.Contains(metrics(), word) {
		return word, true
	}
	if m := regexp.MustCompile(`^(?:p)?(\d\d?(?:\.\d+)?)(?:th)?$`).FindStringSubmatch(word); m != nil && word != m[1] {
		return "p" + m[1], true
	}
	return "", false
}

// subject is one trial or run, as claims see it.
type subject struct {
	audit.Name
	outcome *model.Outcome
	run     *audit.Run
}

func subjects(e audit.Evidence) []subject {
	var all []subject
	for i := range e.Outcomes {
		o := &e.Outcomes[i]
		s := subject{outcome: o}
		if o.Trial.Index < len(e.Runs) {
			s.run = &e.Runs[o.Trial.Index]
			s.Name = s.run.Name
		} else {
			rep := strconv.Itoa(o.Trial.Block)
			s.Name = audit.Name{
				Variant: o.Trial.Variant, Load: o.Trial.Load, Repetition: rep, Words: audit.Words(o.Trial.Variant + " " + o.Trial.Load),
				Factors: map[string]string{"variant": o.Trial.Variant, "load": o.Trial.Load, "rep": rep},
			}
		}
		if o.Load != nil {
			all = append(all, s)
		}
	}
	return all
}

// value is a metric of one trial: seconds, a share, or per second. Latencies
// are those of successes: of single requests where they are known, else of the
// distribution, else as the tool printed them.
func (s subject) value(name string) (float64, bool) {
	if s.run == nil {
		if v, err := metric.Of(s.outcome, name); err == nil {
			return v, true
		}
	}
	name = strings.TrimPrefix(strings.TrimPrefix(name, "response."), "service.")
	if v, ok := s.count(name); ok {
		return v, true
	}
	if s.run != nil {
		if l := s.run.Latencies(); len(l) > 0 {
			return exact(l, name)
		}
	}
	l := s.outcome.Load
	for _, h := range []*hist.Histogram{l.Response, l.Service} {
		if h == nil || h.Count() == 0 {
			continue
		}
		if v, ok := distributed(h, name); ok {
			return v, true
		}
	}
	return s.printed(name)
}

func distributed(h *hist.Histogram, name string) (float64, bool) {
	switch name {
	case "min":
		return h.Min().Seconds(), true
	case "max":
		return h.Max().Seconds(), true
	case "mean":
		return h.Mean().Seconds(), true
	}
	q, ok := share(name)
	return h.Quantile(q).Seconds(), ok
}

// printed is a metric as the tool itself printed it, failures included.
func (s subject) printed(name string) (float64, bool) {
	if t := s.outcome.Load.Tool; t != nil {
		if d, ok := t.Figures[name]; ok {
			return d.Seconds(), true
		}
	}
	return s.count(name)
}

// count is a metric that is no latency.
func (s subject) count(name string) (float64, bool) {
	l := s.outcome.Load
	all := l.Succeeded + l.FailedTotal() + l.Unsent
	switch {
	case name == "success" && all > 0:
		return float64(l.Succeeded) / float64(all), true
	case name == "rate" && s.run != nil:
		return s.run.Achieved(), s.run.Achieved() > 0
	case name == "rate":
		return l.Achieved(), l.Achieved() > 0
	case name == "goodput" && l.Stream != nil && l.Elapsed > 0:
		return float64(l.Stream.Up+l.Stream.Down) * 8 / l.Elapsed.Seconds(), true
	case name == "loss" && l.Datagrams != nil && l.Datagrams.Sent > 0:
		return float64(l.Datagrams.Lost) / float64(l.Datagrams.Sent), true
	}
	return 0, false
}

func exact(latencies []time.Duration, name string) (float64, bool) {
	sorted := slices.Clone(latencies)
	slices.Sort(sorted)
	switch name {
	case "min":
		return sorted[0].Seconds(), true
	case "max":
		return sorted[len(sorted)-1].Seconds(), true
	case "mean":
		var sum float64
		for _, l := range sorted {
			sum += l.Seconds()
		}
		return sum / float64(len(sorted)), true
	}
	q, ok := share(name)
	if !ok {
		return 0, false
	}
	return audit.Exact(sorted, q).Seconds(), true
}

// share is the quantile that p95 names.
func share(name string) (float64, bool) {
	v, err := strconv.ParseFloat(strings.TrimPrefix(name, "p"), 64)
	if err != nil || !strings.HasPrefix(name, "p") || v <= 0 || v >= 100 || math.IsNaN(v) {
		return 0, false
	}
	return v / 100, true
}

// selection chooses subjects by a factor's value or by words.
type selection struct {
	text  string
	words []string
	exact bool // some subject has a factor of that very value
}

func newSelection(text string, all []subject) selection {
	s := selection{text: text, words: audit.Words(text)}
	for _, sub := range all {
		s.exact = s.exact || s.factor(sub)
	}
	return s
}

func (s selection) factor(sub subject) bool {
	key, value, named := strings.Cut(s.text, "=")
	for k, v := range sub.Factors {
		if strings.EqualFold(v, s.text) || named && k == strings.TrimSpace(key) && strings.EqualFold(v, strings.TrimSpace(value)) {
			return true
		}
	}
	return false
}

func (s selection) holds(sub subject) bool {
	if s.exact {
		return s.factor(sub)
	}
	for _, w := range s.words {
		if !slices.Contains(sub.Words, w) {
			return false
		}
	}
	return len(s.words) > 0
}

// rest is what names a subject beside the selection: subjects of two selections
// with the same rest are a pair.
func (s selection) rest(sub subject) string {
	var parts []string
	if s.exact {
		for _, k := range sortedKeys(sub.Factors) {
			v := sub.Factors[k]
			if !strings.EqualFold(v, s.text) && !strings.HasPrefix(s.text, k+"=") && (k != "variant" || v != sub.Variant) {
				parts = append(parts, k+"="+v)
			}
		}
		return strings.Join(parts, " ")
	}
	for _, w := range audit.Words(sub.Variant) {
		if !slices.Contains(s.words, w) {
			parts = append(parts, w)
		}
	}
	return strings.Join(parts, "-") + " " + sub.Load + " " + sub.Repetition
}

func sortedKeys(m map[string]string) []string {
	var all []string
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}
