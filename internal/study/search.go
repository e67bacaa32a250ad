package study

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// successFloor is asked of every search that says nothing of success or loss: a system
// that refuses most requests may well answer the others fast.
const successFloor = "success >= 99.9%"

func (b *builder) search(l *model.Load, f SearchConfig, path string) {
	s := &model.Search{
		From: float64(f.From), To: float64(f.To), Precision: float64(f.Precision), Probe: time.Duration(f.Probe), Confirmations: f.Confirm,
	}
	l.Search = s
	const finest, coarsest = 0.005, 0.5
	check := func(key string, ok bool, text string) {
		if !ok && !b.bad[join(path, key)] {
			b.reject(join(path, key), text)
		}
	}
	check("precision", s.Precision >= finest && s.Precision <= coarsest, "is out of range: 0.5% to 50%")
	check("probe", s.Probe > 0, "is zero: must be more")
	check("to", s.To > s.From || b.bad[path+".from"], fmt.Sprintf("%g/s is not above from, which is %g/s", s.To, s.From))
	check("from", s.From*s.Probe.Seconds() >= 1 || s.Probe == 0, fmt.Sprintf("comes to less than one request in a probe of %s", s.Probe))
	texts := slices.Clone(f.Highest)
	if !slices.ContainsFunc(texts, func(t string) bool {
		t = strings.TrimSpace(t)
		return strings.HasPrefix(t, "success") || strings.HasPrefix(t, "loss")
	}) {
		texts = append(texts, successFloor)
	}
	for i, text := range texts {
		at := at(path+".highest", i)
		if b.given[at] == nil {
			at = path + ".highest"
		}
		if o, ok := b.objective(text, at); ok {
			s.Objectives = append(s.Objectives, o)
		}
	}
}

// objective reads a condition on one load's result. What resources cost is not
// known of a probe, which is too short for it.
func (b *builder) objective(text, path string) (o model.Objective, ok bool) {
	if b.bad[path] {
		return o, false
	}
	m := regexGate.FindStringSubmatch(text)
	if m == nil {
		b.reject(path, fmt.Sprintf("%q is not a condition: write a metric, one of < <= > >=, and a value, such as response.p99 < 20ms", text))
		return o, false
	}
	o = model.Objective{Text: strings.TrimSpace(text), Metric: m[1], Op: m[2]}
	known := slices.DeleteFunc(slices.Clone(b.known.Metrics), func(name string) bool {
		return strings.HasPrefix(name, "cpu.") || strings.HasPrefix(name, "memory.") || strings.HasPrefix(name, "throttled.") ||
			slices.Contains([]string{"rate.highest", "efficiency", "fragments"}, name)
	})
	if !b.oneOf(path, "metric of a probe", o.Metric, known) {
		return o, false
	}
	var err error
	if o.Value, err = gateValue(o.Metric, m[3]); err != nil {
		b.reject(path, fmt.Sprintf("%s is compared with: %s", o.Metric, err))
		return o, false
	}
	return o, true
}
