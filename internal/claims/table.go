package claims

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/audit"
)

// Table is a printed table as CSV: a heading, then rows.
type Table struct {
	Name    string
	Columns []string
	Rows    [][]string
}

// ReadTable reads one; lines that begin with # are comments.
func ReadTable(name string, data []byte) (Table, error) {
	r := csv.NewReader(bytes.NewReader(data))
	r.Comment, r.TrimLeadingSpace = '#', true
	all, err := r.ReadAll()
	if err != nil {
		return Table{}, fmt.Errorf("reading the table %s: %w", name, err)
	}
	const least = 2
	if len(all) < least {
		return Table{}, fmt.Errorf("reading the table %s: it has no rows below its heading", name)
	}
	return Table{Name: name, Columns: all[0], Rows: all[1:]}, nil
}

// columns are the values of the two columns that a claim compares, by row.
func (t Table) columns(e expression) (a, b map[string]float64, err error) {
	left, right := slices.Index(t.Columns, e.left), slices.Index(t.Columns, e.right)
	if left < 0 || (right < 0 && e.right != "") {
		return nil, nil, fmt.Errorf("%s has no column %q; it has %s", t.Name, map[bool]string{true: e.left, false: e.right}[left < 0], strings.Join(t.Columns, ", "))
	}
	a = map[string]float64{}
	if e.right != "" {
		b = map[string]float64{}
	}
	for i, row := range t.Rows {
		if !t.chosen(row, e) {
			continue
		}
		key := fmt.Sprintf("%06d", i)
		v, errA := strconv.ParseFloat(row[left], 64)
		w, errB := 0.0, error(nil)
		if right >= 0 {
			w, errB = strconv.ParseFloat(row[right], 64)
		}
		if errA != nil || errB != nil {
			continue
		}
		a[key] = v
		if b != nil {
			b[key] = w
		}
	}
	if len(a) == 0 {
		return nil, nil, fmt.Errorf("no row of %s has numbers in %s", t.Name, strings.TrimSuffix(e.left+" and "+e.right, " and "))
	}
	return a, b, nil
}

// chosen says whether a row is in the claim's selections: by one of its cells.
func (t Table) chosen(row []string, e expression) bool {
	has := func(text string) bool {
		key, value, named := strings.Cut(text, "=")
		for i, cell := range row {
			if strings.EqualFold(cell, text) || named && strings.EqualFold(t.Columns[i], strings.TrimSpace(key)) && strings.EqualFold(cell, strings.TrimSpace(value)) {
				return true
			}
		}
		return false
	}
	return !slices.ContainsFunc(e.in, func(s string) bool { return !has(s) }) && !slices.ContainsFunc(e.except, has)
}

// printed is a figure as it stands in a table: its value in seconds, shares or
// per second, and what one of its last digit is worth.
type printed struct {
	text  string
	value float64
	digit float64
}

// parsePrinted reads a number with its unit. odd is what follows it and is none.
func parsePrinted(text string, usual float64) (p printed, odd string, ok bool) {
	m := regexp.MustCompile(`^\s*(\d+(?:\.\d+)?)\s*(k|K)?\s*([a-zA-Zµ%/]*)\s*$`).FindStringSubmatch(text)
	if m == nil {
		return p, "", false
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return p, "", false
	}
	scale := usual
	switch m[3] {
	case "ns", "us", "µs", "ms", "s", "%":
		scale = unit(m[3])
	case "":
	default:
		odd = m[3]
		if strings.HasPrefix(m[3], "m") {
			scale = unit("ms")
		}
	}
	if m[2] != "" {
		scale *= 1000
	}
	return printed{text: strings.TrimSpace(text), value: v * scale, digit: lastDigit(m[1]) * scale}, odd, true
}

// is says whether a value rounds, or is cut, to what is printed.
func (p printed) is(v float64) bool {
	slack := 1e-9 * max(math.Abs(v), math.Abs(p.value))
	return math.Abs(v-p.value) <= p.digit/2+slack || v >= p.value-slack && v < p.value+p.digit+slack
}

// figure is one statement of a row: a metric with a value, or with the range of
// several runs.
type figure struct {
	column, metric string
	words          []string // of the column's heading, beside metric and unit
	lo, hi         printed
	ranged         bool
	odd            string
}

func (f figure) text() string {
	if f.ranged {
		return f.lo.text + " - " + f.hi.text
	}
	return f.lo.text
}

// heading sorts what a column is by its name.
type heading struct {
	name   string
	metric string // empty: it is no figure
	usual  float64
	words  []string
}

const metricBehind = "runs falling behind"

func parseHeading(name string) heading {
	h := heading{name: name, usual: 1}
	words := joinPercentiles(audit.Words(name))
	if slices.Contains(words, "falling") && slices.Contains(words, "behind") {
		h.metric = metricBehind
		return h
	}
	for _, w := range words {
		metric, ok := canonical(w)
		switch {
		case ok && h.metric == "":
			h.metric = metric
		case slices.Contains([]string{"ns", "us", "ms"}, w):
			h.usual = unit(w)
		case w == "percent" || w == "pct":
			h.usual = 0.01
		case slices.Contains([]string{"s", "per", "range", "time", "seconds"}, w):
		case w == "response" && slices.Contains(words, "time"):
			h.metric = "mean"
		default:
			h.words = append(h.words, w)
		}
	}
	if h.metric == "" {
		h.words = words
	}
	return h
}

// joinPercentiles makes p99 9 one word.
func joinPercentiles(words []string) []string {
	var all []string
	for _, w := range words {
		if n := len(all); n > 0 && regexp.MustCompile(`^p\d+$`).MatchString(all[n-1]) && regexp.MustCompile(`^9+$`).MatchString(w) {
			all[n-1] += "." + w
			continue
		}
		all = append(all, w)
	}
	return all
}

// row is a table's row, taken apart.
type row struct {
	label   string
	cells   map[string]string // key columns
	phrases []string          // cells of several words
	rates   []float64         // asked rates, the most trusted first
	numbers []float64         // every number that tells of the load
	figures []figure
}

// rows takes a table apart. keys are the columns that choose runs.
func (t Table) rows(isLoad func(column string) bool) []row {
	var all []row
	for _, cells := range t.Rows {
		r := row{cells: map[string]string{}}
		var label []string
		for i, cell := range cells {
			h := parseHeading(t.Columns[i])
			switch {
			case strings.Contains(cell, ":") && strings.Contains(cell, ";"):
				r.pairs(cell)
			case h.metric != "" && !isLoad(t.Columns[i]):
				r.figure(h, cell)
			case strings.Contains(strings.TrimSpace(cell), " "):
				r.phrases = append(r.phrases, cell)
				r.phraseRates(cell)
				label = append(label, cell)
			default:
				r.cells[t.Columns[i]] = cell
				label = append(label, cell)
			}
		}
		r.label = strings.Join(label, " ")
		all = append(all, r)
	}
	return all
}

// figure reads a cell: a number, or a range of two.
func (r *row) figure(h heading, cell string) {
	f := figure{column: h.name, metric: h.metric, words: h.words}
	lo, hi, ranged := strings.Cut(cell, " - ")
	var ok bool
	if f.lo, f.odd, ok = parsePrinted(lo, h.usual); !ok {
		return
	}
	f.hi = f.lo
	if ranged {
		var odd string
		if f.hi, odd, ok = parsePrinted(hi, h.usual); !ok {
			return
		}
		f.odd += odd
	}
	f.ranged = ranged
	r.figures = append(r.figures, f)
}

// pairs reads a cell such as "Duration: 30s; qps: 100; p99.9: 1ms - 2ms".
func (r *row) pairs(cell string) {
	for part := range strings.SplitSeq(cell, ";") {
		key, value, ok := strings.Cut(part, ":")
		if !ok {
			continue
		}
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		h := parseHeading(key)
		n, unit, isNumber := leadingNumber(value)
		switch {
		case h.metric == "rate" && !strings.Contains(value, " - "):
			r.rates = append(r.rates, n)
			r.numbers = append(r.numbers, n)
		case h.metric != "":
			r.figure(h, value)
		case isNumber:
			if unit == "m" || unit == "min" {
				r.numbers = append(r.numbers, n*60) //nolint:mnd // seconds of a minute
			}
			r.numbers = append(r.numbers, n)
			r.cells[key] = value
		}
	}
}

// phraseRates finds "1000 qps" in the words of a row; what names a row is
// trusted more than what its cells say.
func (r *row) phraseRates(cell string) {
	words := audit.Words(cell)
	for i, w := range words {
		n, err := strconv.ParseFloat(w, 64)
		if err == nil && i+1 < len(words) && (words[i+1] == "qps" || words[i+1] == "rps") {
			r.rates = slices.Insert(r.rates, 0, n)
			r.numbers = append(r.numbers, n)
		}
	}
}

func leadingNumber(text string) (n float64, unit string, ok bool) {
	m := regexp.MustCompile(`^(\d+(?:\.\d+)?)\s*([a-zA-Z]*)`).FindStringSubmatch(text)
	if m == nil {
		return 0, "", false
	}
	n, err := strconv.ParseFloat(m[1], 64)
	return n, m[2], err == nil
}
