package monitor

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/s2"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	prom "github.com/prometheus/common/model"
	"google.golang.org/protobuf/encoding/protowire"
)

// label is a name and its value.
type label struct{ name, value string }

// point is one series' value at the moment of the scrape.
type point struct {
	labels []label // in the order of their names
	value  float64
}

// points reads metrics in Prometheus' text format.
func points(r io.Reader) ([]point, error) {
	parser := expfmt.NewTextParser(prom.UTF8Validation)
	families, err := parser.TextToMetricFamilies(r)
	if err != nil {
		return nil, fmt.Errorf("reading the metrics: %w", err)
	}
	var all []point
	for name, family := range families {
		for _, m := range family.GetMetric() {
			all = append(all, of(name, m)...)
		}
	}
	slices.SortFunc(all, func(a, b point) int { return slices.CompareFunc(a.labels, b.labels, compare) })
	return all, nil
}

func compare(a, b label) int {
	if c := strings.Compare(a.name, b.name); c != 0 {
		return c
	}
	return strings.Compare(a.value, b.value)
}

// of are the series of one metric, by the names that Prometheus gives them.
func of(name string, m *dto.Metric) []point {
	one := func(name string, v float64, more ...label) point {
		labels := append([]label{{"__name__", name}, {"job", "windtunnel"}}, more...)
		for _, l := range m.GetLabel() {
			labels = append(labels, label{l.GetName(), l.GetValue()})
		}
		slices.SortFunc(labels, compare)
		return point{labels, v}
	}
	switch {
	case m.GetCounter() != nil:
		return []point{one(name, m.GetCounter().GetValue())}
	case m.GetGauge() != nil:
		return []point{one(name, m.GetGauge().GetValue())}
	case m.GetUntyped() != nil:
		return []point{one(name, m.GetUntyped().GetValue())}
	case m.GetHistogram() == nil:
		return nil // we have no summaries
	}
	h := m.GetHistogram()
	all := []point{one(name+"_sum", h.GetSampleSum()), one(name+"_count", float64(h.GetSampleCount()))}
	for _, b := range h.GetBucket() {
		all = append(all, one(name+"_bucket", float64(b.GetCumulativeCount()), label{"le", bound(b.GetUpperBound())}))
	}
	return all
}

// bound is a bucket's as Prometheus writes it.
func bound(v float64) string {
	if math.IsInf(v, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// writeRequest is a prometheus.WriteRequest of the remote write protocol 1.0,
// compressed as that says (snappy's block format).
//
//	message WriteRequest { repeated TimeSeries timeseries = 1; }
//	message TimeSeries   { repeated Label labels = 1; repeated Sample samples = 2; }
//	message Label        { string name = 1; string value = 2; }
//	message Sample       { double value = 1; int64 timestamp = 2; } // milliseconds
func writeRequest(points []point, at time.Time) []byte {
	var request []byte
	for _, p := range points {
		var series []byte
		for _, l := range p.labels {
			var b []byte
			b = protowire.AppendString(protowire.AppendTag(b, 1, protowire.BytesType), l.name)
			b = protowire.AppendString(protowire.AppendTag(b, 2, protowire.BytesType), l.value) //nolint:mnd // as above
			series = protowire.AppendBytes(protowire.AppendTag(series, 1, protowire.BytesType), b)
		}
		var sample []byte
		sample = protowire.AppendFixed64(protowire.AppendTag(sample, 1, protowire.Fixed64Type), math.Float64bits(p.value))
		sample = protowire.AppendVarint(protowire.AppendTag(sample, 2, protowire.VarintType), uint64(at.UnixMilli())) //nolint:mnd // as above
		series = protowire.AppendBytes(protowire.AppendTag(series, 2, protowire.BytesType), sample)                   //nolint:mnd // as above
		request = protowire.AppendBytes(protowire.AppendTag(request, 1, protowire.BytesType), series)
	}
	return s2.EncodeSnappy(nil, request)
}
