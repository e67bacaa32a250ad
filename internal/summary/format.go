package summary

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/metric"
)

// FormatTime writes a time with three digits and its unit, e.g. "1.23 ms".
func FormatTime(d time.Duration) string {
	v, unit := float64(d), "ns"
	for _, next := range []string{"µs", "ms", "s"} {
		if digits(v) < 1000 {
			break
		}
		v, unit = v/1000, next
	}
	return strconv.FormatFloat(digits(v), 'f', decimals(v), 64) + " " + unit
}

// digits rounds to three significant digits.
func digits(v float64) float64 {
	scale := math.Pow10(decimals(v))
	return math.Round(v*scale) / scale
}

// decimals are those that three significant digits need.
func decimals(v float64) int {
	switch v = math.Abs(v); {
	case v == math.Trunc(v) && v < 10:
		return 0
	case v < 9.995:
		return 2
	case v < 99.95:
		return 1
	}
	return 0
}

// Short writes a number for people in about four letters, e.g. "12.3k".
func Short(v float64) string {
	unit := ""
	for _, next := range []string{"k", "M", "G"} {
		if digits(v) < 1000 {
			break
		}
		v, unit = v/1000, next
	}
	return strconv.FormatFloat(digits(v), 'f', decimals(v), 64) + unit
}

// number writes a whole number with its thousands apart.
func number(n uint64) string {
	s := strconv.FormatUint(n, 10)
	var b strings.Builder
	for i, c := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// rateText writes a rate: tenths below 1,000/s.
func rateText(v float64) string {
	if v < 999.95 {
		return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) + "/s"
	}
	return number(uint64(math.Round(v))) + "/s"
}

// percent writes a share so that what is not all does not look like all.
func percent(share float64) string {
	for decimals := 1; decimals < 6; decimals++ {
		text := strconv.FormatFloat(share*100, 'f', decimals, 64)
		if v, err := strconv.ParseFloat(text, 64); err == nil && (v == 100) == (share == 1) && (v == 0) == (share == 0) {
			return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + " %"
		}
	}
	return strconv.FormatFloat(share*100, 'g', -1, 64) + " %"
}

func sizeText(n uint64) string {
	v, unit := float64(n), "B"
	for _, next := range []string{"kB", "MB", "GB", "TB"} {
		if digits(v) < 1000 {
			break
		}
		v, unit = v/1000, next
	}
	return strconv.FormatFloat(digits(v), 'f', decimals(v), 64) + " " + unit
}

// FormatMetric writes a metric's value with its unit.
func FormatMetric(name string, v float64) string {
	unit := metric.UnitSeconds
	if m, ok := metric.Lookup(name); ok {
		unit = m.Unit
	}
	switch unit {
	case metric.UnitSeconds:
		return FormatTime(time.Duration(v * 1e9))
	case metric.UnitShare:
		return percent(v)
	case metric.UnitRate:
		return rateText(v)
	case metric.UnitBits:
		return bits(v)
	default:
		return fmt.Sprintf("%.4g %s", v, unit)
	}
}

// bits writes bits per second.
func bits(v float64) string {
	unit := "bit/s"
	for _, next := range []string{"kbit/s", "Mbit/s", "Gbit/s"} {
		if digits(v) < 1000 {
			break
		}
		v, unit = v/1000, next
	}
	return strconv.FormatFloat(digits(v), 'f', decimals(v), 64) + " " + unit
}
