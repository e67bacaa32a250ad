package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/metric"
)

// scale is a unit as people read it.
type scale struct {
	factor float64
	suffix string
}

func scales(unit metric.Unit) []scale {
	switch unit {
	case metric.UnitSeconds:
		return []scale{{1e-9, "ns"}, {1e-6, "µs"}, {1e-3, "ms"}, {1, "s"}}
	case metric.UnitCPUPer1k, metric.UnitCPUPerGb, metric.UnitCPUPerPk:
		return []scale{{1e-6, "µs"}, {1e-3, "ms"}, {1, "s"}}
	case metric.UnitBytes:
		return []scale{{1, "B"}, {1 << 10, "KiB"}, {1 << 20, "MiB"}, {1 << 30, "GiB"}}
	case metric.UnitBits:
		return []scale{{1, "bit/s"}, {1e3, "kbit/s"}, {1e6, "Mbit/s"}, {1e9, "Gbit/s"}}
	case metric.UnitRate, metric.UnitPerGB:
		return []scale{{1, string(unit)}}
	case metric.UnitShare:
		return []scale{{0.01, "%"}}
	case metric.UnitCount:
	}
	return []scale{{1, string(unit)}}
}

// pick is the largest scale in which the value is at least 1.
func pick(unit metric.Unit, v float64) scale {
	all := scales(unit)
	best := all[0]
	for _, s := range all {
		if math.Abs(v) >= s.factor*0.9995 {
			best = s
		}
	}
	return best
}

// digits writes a number with three significant digits and no exponent.
func digits(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a >= 999.5:
		return thousands(strconv.FormatFloat(v, 'f', 0, 64))
	case a >= 99.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 0.01:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 1-int(math.Floor(math.Log10(math.Abs(v)))), 64)
}

// thousands puts a comma between thousands.
func thousands(s string) string {
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// FormatValue writes a value with three significant digits and its unit.
func FormatValue(unit metric.Unit, v float64) string {
	if unit == metric.UnitShare {
		return share(v)
	}
	s := pick(unit, v)
	return digits(v/s.factor) + s.unit()
}

// unit is the suffix with the space before it; a plain number has none.
func (s scale) unit() string {
	if s.suffix == "" {
		return ""
	}
	return " " + s.suffix
}

// share keeps the nines: 99.995 % must not print as 100 %, nor a loss of
// 0.004 % as none.
func share(v float64) string {
	percent := v * 100
	if percent < 90 {
		return digits(percent) + " %"
	}
	if percent >= 100 {
		return "100 %"
	}
	for places := 1; places < 6; places++ {
		if text := strconv.FormatFloat(percent, 'f', places, 64); !strings.HasPrefix(text, "100") {
			return text + " %"
		}
	}
	return strconv.FormatFloat(percent, 'f', 6, 64) + " %"
}

// FormatDifference writes a signed difference with its interval in one unit,
// e.g. "+672 µs [+655, +690]".
func FormatDifference(unit metric.Unit, e Estimate) string {
	s := pick(unit, math.Max(math.Abs(e.Value), math.Max(math.Abs(e.Lo), math.Abs(e.Hi))*0.5))
	if unit == metric.UnitShare {
		s.suffix = "points" // of percent: 2 % to 3 % is one
	}
	one := func(v float64) string {
		text := digits(v / s.factor)
		if v > 0 {
			text = "+" + text
		}
		return text
	}
	return fmt.Sprintf("%s%s [%s, %s]", one(e.Value), s.unit(), one(e.Lo), one(e.Hi))
}

// FormatEstimate writes a value with its interval, e.g. "0.62 s [0.60, 0.64]".
func FormatEstimate(unit metric.Unit, e Estimate) string {
	s := pick(unit, e.Value)
	return fmt.Sprintf("%s%s [%s, %s]", digits(e.Value/s.factor), s.unit(), digits(e.Lo/s.factor), digits(e.Hi/s.factor))
}

// FormatRatio writes a ratio with its interval, e.g. "9.4x (9.2-9.7)".
func FormatRatio(e Estimate) string {
	return fmt.Sprintf("%sx (%s-%s)", digits(e.Value), digits(e.Lo), digits(e.Hi))
}
