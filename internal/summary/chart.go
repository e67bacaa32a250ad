package summary

import (
	"math"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/model"
)

// row is a part of a histogram: values above Low up to High.
type row struct {
	Low, High time.Duration
	Count     uint64
}

// maxRows bounds a histogram's length.
const maxRows = 14

// rows divides a histogram into few parts of equal width on a logarithmic axis,
// with round numbers as borders (Renard's series).
func rows(h *hist.Histogram) []row {
	if h == nil || h.Count() == 0 {
		return nil
	}
	for _, perDecade := range []int{40, 20, 10, 5, 3, 1} {
		first, last := border(h.Min(), perDecade), border(h.Max(), perDecade)
		if last-first >= maxRows && perDecade > 1 {
			continue
		}
		all := make([]row, last-first+1)
		for i := range all {
			all[i].Low, all[i].High = value(first+i-1, perDecade), value(first+i, perDecade)
		}
		h.Each(func(b hist.Bucket) bool {
			i := border(min(max((b.Low+b.High)/2, h.Min()), h.Max()), perDecade) - first
			all[min(max(i, 0), len(all)-1)].Count += b.Count
			return true
		})
		return all
	}
	return nil
}

// border is the number of the first border at or above a time.
func border(d time.Duration, perDecade int) int {
	i := int(math.Ceil(math.Log10(math.Max(float64(d), 1))*float64(perDecade))) - 1
	for value(i, perDecade) < d {
		i++
	}
	return i
}

// value is the border of a number, rounded to the digits that its series has.
func value(i, perDecade int) time.Duration {
	v := math.Pow(10, float64(i)/float64(perDecade))
	scale := math.Pow10(int(math.Floor(math.Log10(v)+1e-9)) - map[int]int{1: 0, 3: 0, 5: 1, 10: 1, 20: 2, 40: 2}[perDecade])
	return time.Duration(math.Round(v/scale) * scale)
}

// bar is a share of a width, to the eighth of a column; more than nothing shows.
func bar(share float64, width int) string {
	eighths := int(math.Round(share * float64(width) * 8))
	if share > 0 {
		eighths = max(eighths, 1)
	}
	text := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		text += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return text
}

// spark draws values as blocks, the largest full; what is unknown is a space.
func spark(values []float64) string {
	most := 0.0
	for _, v := range values {
		if v > most { // not of what is unknown
			most = v
		}
	}
	var b strings.Builder
	for _, v := range values {
		switch {
		case math.IsNaN(v):
			b.WriteByte(' ')
		case most == 0:
			b.WriteRune('▁')
		default:
			b.WriteRune([]rune("▁▂▃▄▅▆▇█")[int(math.Round(v/most*7))])
		}
	}
	return b.String()
}

// moment is a part of a timeline.
type moment struct {
	at, length        time.Duration
	succeeded, failed uint64
	p50, p99, most    time.Duration
}

// moments makes at most n parts of a timeline. A last slot that is not whole is
// as long as what is left of the window.
func moments(t model.Timeline, window time.Duration, n int) []moment {
	each := (len(t.Slots) + n - 1) / max(n, 1)
	var all []moment
	for i := 0; i < len(t.Slots); i += each {
		m := moment{at: time.Duration(i) * t.SlotWidth}
		m.length = min(time.Duration(each)*t.SlotWidth, window-m.at)
		var cells [hist.Cells]uint64
		for _, s := range t.Slots[i:min(i+each, len(t.Slots))] {
			m.succeeded += s.Succeeded
			m.failed += s.Failed
			m.most = max(m.most, s.Max)
			for _, c := range s.Cells {
				cells[c[0]] += uint64(c[1])
			}
		}
		m.p50, m.p99 = cellQuantile(cells[:], m.succeeded, 0.5), cellQuantile(cells[:], m.succeeded, 0.99)
		all = append(all, m)
	}
	return all
}

// cellQuantile is the middle of the cell that holds a quantile; 0: no samples.
func cellQuantile(cells []uint64, n uint64, q float64) time.Duration {
	rank := uint64(math.Ceil(q * float64(n)))
	var seen uint64
	for i, c := range cells {
		if seen += c; c > 0 && seen >= rank {
			low, high := hist.CellBounds(uint32(i))
			return (low + high) / 2
		}
	}
	return 0
}
