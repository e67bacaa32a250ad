package report_test

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	regexMeta   = regexp.MustCompile(`^# (TYPE|UNIT|HELP) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.*)$`)
	regexSample = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)*\})? (\S+)(?: ([0-9]+\.[0-9]+))?$`)
	regexLe     = regexp.MustCompile(`,le="([^"]*)"`)
)

// omFamily is a metric family of the text under check.
type omFamily struct {
	name, kind, unit string
	begun            bool
	buckets          map[string][]omBucket // by the other labels
	counts           map[string]float64
}

type omBucket struct{ le, count float64 }

// omParser checks what OpenMetrics 1.0 demands: families in one piece, their
// descriptions first, units as endings, suffixes by type, no sample twice,
// buckets ascending to +Inf, and # EOF at the very end.
type omParser struct {
	families map[string]bool
	now      *omFamily
	seen     map[string]bool
	samples  int
}

func parseOpenMetrics(text string) (samples int, err error) {
	body, found := strings.CutSuffix(text, "# EOF\n")
	if !found || strings.Contains(body, "# EOF") {
		return 0, errors.New("no # EOF at the end, or one before it")
	}
	p := &omParser{families: map[string]bool{}, seen: map[string]bool{}, now: &omFamily{}}
	number := 0
	for line := range strings.Lines(body) {
		number++
		if err = p.line(strings.TrimSuffix(line, "\n")); err != nil {
			return p.samples, fmt.Errorf("line %d, %q: %w", number, line, err)
		}
	}
	return p.samples, p.now.close()
}

func (p *omParser) line(text string) error {
	if m := regexMeta.FindStringSubmatch(text); m != nil {
		return p.meta(m[1], m[2], m[3])
	}
	m := regexSample.FindStringSubmatch(text)
	if m == nil {
		return errors.New("neither a description nor a sample")
	}
	value, err := strconv.ParseFloat(m[3], 64)
	if err != nil {
		return err
	}
	if p.seen[m[1]+m[2]] {
		return errors.New("twice")
	}
	p.seen[m[1]+m[2]], p.samples, p.now.begun = true, p.samples+1, true
	return p.now.sample(m[1], m[2], value)
}

func (p *omParser) meta(what, name, rest string) error {
	if name != p.now.name {
		if err := p.now.close(); err != nil {
			return err
		}
		if p.families[name] {
			return errors.New("a family in two pieces")
		}
		p.families[name] = true
		p.now = &omFamily{name: name, buckets: map[string][]omBucket{}, counts: map[string]float64{}}
	}
	if p.now.begun {
		return errors.New("a description after samples")
	}
	switch what {
	case "TYPE":
		p.now.kind = rest
	case "UNIT":
		p.now.unit = rest
		if !strings.HasSuffix(name, "_"+rest) {
			return errors.New("a name that does not end in its unit")
		}
	default:
		if strings.Contains(strings.NewReplacer(`\\`, "", `\n`, "", `\"`, "").Replace(rest), `\`) {
			return errors.New("help that is not escaped")
		}
	}
	return nil
}

func (f *omFamily) sample(name, labels string, value float64) error {
	suffixes := map[string][]string{"gauge": {""}, "counter": {"_total", "_created"}, "info": {"_info"}, "histogram": {"_bucket", "_count", "_sum"}}
	suffix, of := strings.CutPrefix(name, f.name)
	if !of || !slices.Contains(suffixes[f.kind], suffix) {
		return fmt.Errorf("no sample of %s, a %s", f.name, f.kind)
	}
	if f.kind != "gauge" && (value < 0 || math.IsNaN(value)) {
		return fmt.Errorf("a %s that is %g", f.kind, value)
	}
	switch suffix {
	case "_bucket":
		le := regexLe.FindStringSubmatch(labels)
		if le == nil {
			return errors.New("a bucket without le")
		}
		limit, err := strconv.ParseFloat(le[1], 64)
		if err != nil || le[1] != "+Inf" && !strings.ContainsAny(le[1], ".e") {
			return fmt.Errorf("le is %q", le[1])
		}
		key := regexLe.ReplaceAllString(labels, "")
		f.buckets[key] = append(f.buckets[key], omBucket{limit, value})
	case "_count":
		f.counts[labels] = value
	}
	return nil
}

// close checks the family's histograms.
func (f *omFamily) close() error {
	for labels, buckets := range f.buckets {
		for i := 1; i < len(buckets); i++ {
			if buckets[i].le <= buckets[i-1].le || buckets[i].count < buckets[i-1].count {
				return fmt.Errorf("%s%s: buckets do not rise at %g", f.name, labels, buckets[i].le)
			}
		}
		if last := buckets[len(buckets)-1]; !math.IsInf(last.le, 1) || last.count != f.counts[labels] {
			return fmt.Errorf("%s%s: the last bucket is %g at %g, the count is %g", f.name, labels, last.count, last.le, f.counts[labels])
		}
	}
	return nil
}

// The parser itself finds what is wrong.
func TestOpenMetricsParser(t *testing.T) {
	t.Parallel()
	const good = "# TYPE a_seconds histogram\n# UNIT a_seconds seconds\na_seconds_bucket{x=\"1\",le=\"1.0\"} 1\na_seconds_bucket{x=\"1\",le=\"+Inf\"} 2\na_seconds_count{x=\"1\"} 2\na_seconds_sum{x=\"1\"} 3\n# TYPE b counter\nb_total{y=\"\\\"\"} 1 1.5\n# EOF\n"
	if n, err := parseOpenMetrics(good); err != nil || n != 5 {
		t.Errorf("%d samples, %v", n, err)
	}
	for _, change := range [][2]string{
		{"# EOF\n", ""},
		{"+Inf\"} 2", "+Inf\"} 1"},
		{"+Inf", "2"},
		{"b_total", "b"},
		{"seconds\na", "s\na"},
		{"\\\"\"", "\"\""},
		{"1 1.5", "one"},
		{"a_seconds_sum{x=\"1\"} 3\n", "a_seconds_sum{x=\"1\"} 3\na_seconds_sum{x=\"1\"} 3\n"},
		{"# EOF\n", "# TYPE a_seconds gauge\n# EOF\n"},
		{"le=\"1.0\"} 1", "le=\"1.0\"} 9"},
	} {
		if _, err := parseOpenMetrics(strings.Replace(good, change[0], change[1], 1)); err == nil {
			t.Errorf("%q instead of %q is accepted", change[1], change[0])
		}
	}
}
