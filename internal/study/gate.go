package study

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// regexGate takes a gate apart: what it is about, the operator, the value.
var regexGate = regexp.MustCompile(`^\s*([a-zA-Z0-9._-]+)\s*(<=|>=|<|>)\s*(\S+)\s*$`)

func (b *builder) gates(texts []string, s model.Study) []model.Gate {
	var gates []model.Gate
	for i, text := range texts {
		path := at("gates", i)
		if b.bad[path] {
			continue
		}
		m := regexGate.FindStringSubmatch(text)
		if m == nil {
			b.reject(path, fmt.Sprintf("%q is not a condition: write variant.load.metric, one of < <= > >=, and a value, such as envoy.steady.response.p99 < 20ms", text))
			continue
		}
		g := model.Gate{Text: strings.TrimSpace(text), Op: m[2]}
		if !b.subject(&g, m[1], s, path) {
			continue
		}
		var err error
		if g.Value, err = gateValue(g.Metric, m[3]); err != nil {
			b.reject(path, fmt.Sprintf("%s is compared with: %s", g.Metric, err))
			continue
		}
		gates = append(gates, g)
	}
	return gates
}

// subject reads "variant.metric" or "variant.load.metric". What can be read as
// a metric is one, so a load may have any name.
func (b *builder) subject(g *model.Gate, text string, s model.Study, path string) bool {
	var rest string
	g.Variant, rest, _ = strings.Cut(text, ".")
	all := variantNames(s)
	if !slices.Contains(all, g.Variant) {
		if b.wholeVariants {
			b.reject(path, unknown("variant", g.Variant, all))
		}
		return false
	}
	g.Metric = rest
	if slices.Contains(b.known.Metrics, rest) {
		return true
	}
	load, metric, found := strings.Cut(rest, ".")
	loads := make([]string, len(s.Loads))
	for i, l := range s.Loads {
		loads[i] = l.Name
	}
	if !found || !slices.Contains(loads, load) && b.looksLikeMetric(load) {
		b.reject(path, unknown("metric", rest, b.known.Metrics))
		return false
	}
	if !slices.Contains(loads, load) {
		if b.wholeLoads {
			b.reject(path, unknown("load", load, loads))
		}
		return false
	}
	g.Load, g.Metric = load, metric
	return b.oneOf(path, "metric", metric, b.known.Metrics)
}

// looksLikeMetric tells whether a word is the first part of some metric.
func (b *builder) looksLikeMetric(word string) bool {
	return slices.ContainsFunc(b.known.Metrics, func(m string) bool { return strings.HasPrefix(m, word+".") })
}

// gateValue reads the value in the unit of its metric: seconds, share, bytes,
// requests or bits per second, or for CPU seconds per 1,000 requests or Gbit.
func gateValue(metric, text string) (float64, error) {
	switch quantityOf(metric) {
	case "response", "service", "cpu", "rtt", "jitter":
		d, err := ParseDuration(text)
		return time.Duration(d).Seconds(), err
	case "success", "loss", "reordered", "duplicated", "efficiency":
		p, err := ParsePercent(text)
		return float64(p), err
	case "rate", "messages", "datagrams", "lost":
		r, err := ParseRate(text)
		return float64(r), err
	case "goodput":
		r, err := ParseBitRate(text)
		return float64(r), err
	case "memory":
		n, err := ParseBytes(text)
		return float64(n), err
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) { // neither can be compared with, or kept as JSON
		return 0, fmt.Errorf("%q is not a number", text)
	}
	return f, nil
}

// quantityOf is the group of metrics in whose unit a metric is given: that of
// its name or, where the group has several units, one with the same.
func quantityOf(metric string) string {
	group, part, _ := strings.Cut(metric, ".")
	if group != "failover" && group != "failback" {
		return group
	}
	switch part {
	case "failed", "slow", "flaps":
		return "" // a plain number
	case "wrong_region", "remote_before":
		return "success"
	}
	return "response"
}
