package generator

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/study"
	"github.com/windtunnel/windtunnel/internal/summary"
)

// condition is one of --fail-if: the load fails if it holds.
type condition struct {
	model.Objective

	share bool // of counts: the value is a share of all that was due
}

// conditions reads all of --fail-if.
func (f *loadFlags) conditions(p *problems) []condition {
	var all []condition
	for _, text := range f.failIf {
		c, err := parseCondition(text)
		if err != nil {
			p.add("--fail-if: %w", err)
			continue
		}
		all = append(all, c)
	}
	return all
}

// counts are the metrics that are no metrics of studies: these have success.
func counts() []string { return []string{"errors", "unsent", "blocked"} }

func parseCondition(text string) (c condition, err error) {
	written, op, value, err := study.SplitCondition(text)
	if err != nil {
		return c, err
	}
	c.Text, c.Op, c.Metric = strings.TrimSpace(text), op, written
	if written == "mean" || quantile("response."+written) {
		c.Metric = "response." + written
	}
	switch {
	case slices.Contains(counts(), c.Metric):
		if c.share = strings.HasSuffix(value, "%"); c.share {
			part, wrong := study.ParsePercent(value)
			c.Value = float64(part)
			return c, wrong
		}
		n, wrong := strconv.ParseUint(value, 10, 53)
		if wrong != nil {
			return c, fmt.Errorf("%s: %q is neither a number nor a share such as 0.1%%", c.Metric, value)
		}
		c.Value = float64(n)
		return c, nil
	case !quantile(c.Metric) && !slices.Contains(known(), c.Metric):
		return c, fmt.Errorf("%s: no metric %q; there are p50, p99.9 and any other percentile, mean, both also with response. or service. before them, %s",
			c.Text, written, strings.Join(append(counts(), known()...), ", "))
	}
	if c.Value, err = study.ParseMetric(c.Metric, value); err != nil {
		return c, fmt.Errorf("%s: %w", c.Metric, err)
	}
	return c, nil
}

// quantile says whether a name is response.pN or service.pN, N from 0 to 100.
func quantile(name string) bool {
	kind, _, _ := strings.Cut(name, ".")
	q, ok := metric.Quantile(name)
	return (kind == "response" || kind == "service") && ok && q > 0 && q < 1
}

// known are the other metrics of one load: what resources cost is not sampled.
func known() []string {
	return slices.DeleteFunc(metric.Names(), func(name string) bool {
		return strings.HasPrefix(name, "cpu.") || strings.HasPrefix(name, "memory.") || name == "rate.highest" || quantile(name)
	})
}

// failed says in words why a load fails a condition; empty: it does not. What
// cannot be told fails, too.
func (c condition) failed(s *summary.Load) string {
	got, text, err := c.measure(s)
	switch {
	case err != nil:
		return fmt.Sprintf("%s cannot be told: %v", c.Text, err)
	case c.Op == "<" && got < c.Value, c.Op == "<=" && got <= c.Value, c.Op == ">" && got > c.Value, c.Op == ">=" && got >= c.Value:
		return fmt.Sprintf("%s: %s is %s", c.Text, c.Metric, text)
	}
	return ""
}

func (c condition) measure(s *summary.Load) (value float64, text string, err error) {
	r := s.Result
	if i := slices.Index(counts(), c.Metric); i >= 0 {
		n := []uint64{r.FailedTotal(), r.Unsent, r.Blocked}[i]
		if !c.share {
			return float64(n), strconv.FormatUint(n, 10), nil
		}
		share := float64(n) / float64(max(r.Due, 1))
		return share, strconv.FormatFloat(share*100, 'g', 5, 64) + " %", nil
	}
	o := s.Outcome()
	if value, err = metric.Of(&o, c.Metric); err != nil {
		return 0, "", err
	}
	if q, ok := metric.Quantile(c.Metric); ok && !summary.Carries(r.Succeeded, q) {
		return 0, "", fmt.Errorf("%d successes are too few for %s", r.Succeeded, c.Metric)
	}
	return value, summary.FormatMetric(c.Metric, value), nil
}
