package claims

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/audit"
	"github.com/windtunnel/windtunnel/internal/ingest"
)

// matcher finds the runs of a table's rows.
type matcher struct {
	all        []subject
	names      map[string]string
	vocabulary []string          // words of the runs
	meaning    map[string]string // of a table's whole cells and words
	explained  []string
	loads      map[string]bool // columns that hold rates asked for, not reached
	opaque     map[string]bool // columns of numbers that could mean anything
}

func newMatcher(t Table, all []subject, names map[string]string) *matcher {
	w := &matcher{all: all, names: names, meaning: map[string]string{}, loads: map[string]bool{}, opaque: map[string]bool{}}
	for _, s := range all {
		for _, word := range s.Words {
			if _, err := strconv.ParseFloat(word, 64); err != nil && !slices.Contains(w.vocabulary, word) {
				w.vocabulary = append(w.vocabulary, word)
			}
		}
	}
	for i, column := range t.Columns {
		w.column(t, i, column)
	}
	return w
}

// column learns what a column's cells, and its heading's words, stand for.
func (w *matcher) column(t Table, i int, column string) {
	h := parseHeading(column)
	var cells []string
	rates := h.metric == "rate"
	for _, r := range t.Rows {
		if !slices.Contains(cells, r[i]) {
			cells = append(cells, r[i])
		}
		v, err := strconv.ParseFloat(r[i], 64)
		rates = rates && err == nil && slices.ContainsFunc(w.all, func(s subject) bool { return w.asks(s, v) })
	}
	w.loads[column] = rates
	switch {
	case rates:
	case h.metric != "":
		for _, word := range h.words {
			w.learn([]string{word}, "")
		}
	default:
		w.learn(cells, column)
		words := audit.Words(column)
		w.opaque[column] = len(cells) > 1 && !slices.ContainsFunc(cells, func(c string) bool { return !numeric(c) }) && !repetition(column) &&
			!slices.Contains(words, "connections") && !slices.Contains(words, "duration")
	}
}

func (w *matcher) isLoad(column string) bool { return w.loads[column] }

// learn finds what each of some values stands for among the words of the runs,
// each in the surest way that leaves no doubt; a word stands for one value only.
func (w *matcher) learn(values []string, column string) {
	taken := map[string]bool{}
	var open []string
	for _, v := range values {
		inColumn, byCell := w.names[column+"="+v]
		word, byWord := w.names[v]
		switch {
		case byCell && column != "":
			w.meaning[column+"="+v] = inColumn
		case byWord:
			w.meaning[v], taken[word] = word, true
		case !strings.Contains(v, " ") && w.meaning[v] == "":
			open = append(open, v)
		}
	}
	for _, alike := range []func(value, word string) bool{equalWord, partOf, startOf, within, initial} {
		open = slices.DeleteFunc(open, func(v string) bool { return w.understand(v, alike, taken) })
	}
}

// understand says whether a value is like one word that is not taken, and only
// one; that is what it means then.
func (w *matcher) understand(v string, alike func(value, word string) bool, taken map[string]bool) bool {
	var fits []string
	for _, word := range w.vocabulary {
		if !taken[word] && alike(strings.ToLower(v), word) {
			fits = append(fits, word)
		}
	}
	if len(fits) != 1 || numeric(v) {
		return false
	}
	w.meaning[v], taken[fits[0]] = fits[0], true
	if fits[0] != strings.ToLower(v) {
		w.explained = append(w.explained, v+" = "+fits[0])
	}
	return true
}

func numeric(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return err == nil
}

func letters(text string) string { return strings.Join(audit.Words(text), "") }

// The ways in which a table's word can be one of the runs', the surest first.
func equalWord(value, word string) bool { return letters(value) == word }

func partOf(value, word string) bool { return slices.Contains(audit.Words(value), word) }

func startOf(value, word string) bool {
	const least = 2
	a, b := strings.TrimRight(letters(value), "0123456789"), word
	return min(len(a), len(b)) >= least && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a))
}

// within says that the letters of the word come in this order in the value:
// "sea" of "southeast-asia".
func within(value, word string) bool {
	const least = 3
	v := letters(value)
	if len(word) < least || v == "" || v[0] != word[0] {
		return false
	}
	at := 0
	for i := range len(v) {
		if at < len(word) && v[i] == word[at] {
			at++
		}
	}
	return at == len(word)
}

func initial(value, word string) bool {
	const least = 2
	v := letters(value)
	return len(v) >= least && len(word) >= least && v[0] == word[0] && word[0] >= 'a'
}

// asks says whether a run was asked for that rate.
func (w *matcher) asks(s subject, rate float64) bool {
	if s.run == nil {
		return math.Abs(s.outcome.Load.Rate-rate) < 1e-9*rate
	}
	asked, ok := s.run.Asked()
	return ok && math.Abs(asked-rate) < 1e-9*max(rate, 1)
}

// choose is the runs of a figure; a state says why there are none.
func (w *matcher) choose(r row, f figure) (chosen []subject, note string, state State) {
	keep := w.byWords(r, f)
	if keep == nil {
		return nil, "", Unknown
	}
	for _, column := range sortedOf(r.cells) {
		if _, told := w.meaning[column+"="+r.cells[column]]; w.opaque[column] && !told && w.meaning[r.cells[column]] == "" {
			return nil, fmt.Sprintf("nothing tells which runs are %s %s: say it with names in a file of claims", column, r.cells[column]), Several
		}
	}
	keep = w.byRates(keep, r, f)
	keep = filter(keep, func(s subject) bool { return planned(s, r) })
	keep = w.plainest(keep, r, f)
	if len(keep) == 0 {
		return nil, "", Unknown
	}
	variants := map[string]bool{}
	for _, s := range keep {
		variants[s.Variant+"\x00"+s.Load] = true
	}
	if len(variants) > 1 {
		return nil, "runs of " + strings.ReplaceAll(strings.Join(sortedOf(variants), ", "), "\x00", "/") + " fit", Several
	}
	return keep, "", ""
}

// byRates keeps the runs that were asked for all rates that the row names, or
// else for the first that any run was; where it names none, but tells of the
// load, those that were asked for none.
func (w *matcher) byRates(keep []subject, r row, f figure) []subject {
	if len(r.rates) == 0 {
		if strings.Contains(f.column, "range") || len(r.numbers) > 0 {
			return filter(keep, func(s subject) bool { return s.run == nil || !paced(s.run) })
		}
		return keep
	}
	with := keep
	for _, rate := range r.rates {
		with = filter(with, func(s subject) bool { return w.asks(s, rate) })
	}
	for _, rate := range r.rates {
		if len(with) == 0 {
			with = filter(keep, func(s subject) bool { return w.asks(s, rate) })
		}
	}
	return with
}

func paced(r *audit.Run) bool { _, ok := r.Asked(); return ok }

func filter(all []subject, keep func(subject) bool) []subject {
	var out []subject
	for _, s := range all {
		if keep(s) {
			out = append(out, s)
		}
	}
	return out
}

// byWords keeps the runs whose words the row and the figure's heading name; nil
// where a cell names something that no run is.
func (w *matcher) byWords(r row, f figure) []subject {
	keep := w.all
	for _, column := range sortedOf(r.cells) {
		cell := r.cells[column]
		if cell == "" {
			continue
		}
		words, known := w.meaning[column+"="+cell]
		if !known {
			words, known = w.meaning[cell]
		}
		switch {
		case known:
			keep = filter(keep, func(s subject) bool { return all(s, words) })
		case w.loads[column]:
			rate, _ := strconv.ParseFloat(cell, 64) // they are numbers: that is how it was told
			keep = filter(keep, func(s subject) bool { return w.asks(s, rate) })
		case repetition(column):
			keep = filter(keep, func(s subject) bool { return sameNumber(s.Repetition, cell) })
		case !numeric(cell) && len(r.numbers) == 0:
			return nil
		}
	}
	for _, word := range f.words {
		if to, ok := w.meaning[word]; ok {
			keep = filter(keep, func(s subject) bool { return all(s, to) })
		}
	}
	for _, phrase := range r.phrases {
		for _, word := range audit.Words(phrase) {
			if to := w.oneOf(word); to != "" {
				keep = filter(keep, func(s subject) bool { return all(s, to) })
			}
		}
	}
	if len(keep) == 0 {
		return nil
	}
	return keep
}

// all says whether a run has all words; one with ! before it must be absent.
func all(s subject, words string) bool {
	for w := range strings.FieldsSeq(words) {
		not := strings.HasPrefix(w, "!")
		for _, part := range audit.Words(w) {
			if slices.Contains(s.Words, part) == not {
				return false
			}
		}
	}
	return true
}

// oneOf is the word of the runs that a word of a phrase stands for; most stand
// for none.
func (w *matcher) oneOf(word string) string {
	if to, ok := w.names[word]; ok {
		return to
	}
	if slices.Contains(w.vocabulary, word) {
		return word
	}
	const least = 4
	found := ""
	stem := strings.TrimRight(word, "0123456789")
	for _, v := range w.vocabulary {
		if len(stem) >= least && len(v) >= least && (strings.HasPrefix(v, stem) || strings.HasPrefix(stem, v)) {
			if found != "" {
				return ""
			}
			found = v
		}
	}
	return found
}

func repetition(column string) bool {
	return slices.ContainsFunc(audit.Words(column), func(w string) bool {
		return slices.Contains([]string{"repetition", "rep", "run", "iteration", "trial", "try"}, w)
	})
}

func sameNumber(a, b string) bool {
	x, errX := strconv.Atoi(a)
	y, errY := strconv.Atoi(b)
	return errX == nil && errY == nil && x == y
}

// planned says that a run's connections and duration are among the row's
// numbers, where the row has them.
func planned(s subject, r row) bool {
	for _, key := range sortedOf(r.cells) {
		n, unitText, ok := leadingNumber(r.cells[key])
		words := audit.Words(key)
		switch {
		case !ok || s.run == nil:
		case slices.Contains(words, "connections"):
			if c := s.outcome.Load.Connections; c > 0 && float64(c) != n {
				return false
			}
		case slices.Contains(words, "duration"):
			const minute = 60
			if unitText == "m" || unitText == "min" {
				n *= minute
			}
			if d, known := s.run.Number(ingest.LabelPlanned); known && d != n {
				return false
			}
		}
	}
	return true
}

// plainest keeps the runs whose names say the least that the row does not: a row
// that names no CPU limit is of the runs without one.
func (w *matcher) plainest(keep []subject, r row, f figure) []subject {
	said := slices.Clone(f.words)
	for _, phrase := range append(r.phrases, values(r.cells)...) {
		said = append(said, audit.Words(phrase)...)
	}
	for _, word := range slices.Clone(said) {
		said = append(said, audit.Words(w.meaning[word]+" "+w.oneOf(word))...)
	}
	for _, column := range sortedOf(r.cells) {
		said = append(said, audit.Words(w.meaning[r.cells[column]]+" "+w.meaning[column+"="+r.cells[column]])...)
	}
	extra := func(s subject) int {
		n := 0
		for _, word := range audit.Words(s.Variant + " " + s.Load) {
			v, _, quantity := leadingNumber(word)
			known := slices.Contains(said, word) || quantity && (v == 0 || len(r.numbers) == 0 || slices.Contains(r.numbers, v))
			if !known {
				n++
			}
		}
		return n
	}
	least := math.MaxInt
	for _, s := range keep {
		least = min(least, extra(s))
	}
	return filter(keep, func(s subject) bool { return extra(s) == least })
}

// rateConflict says that a row names two rates.
func (w *matcher) rateConflict(r row) string {
	for _, rate := range r.rates[min(1, len(r.rates)):] {
		if rate != r.rates[0] {
			return fmt.Sprintf("%s: the row names %g and %g requests/s", r.label, r.rates[0], rate)
		}
	}
	return ""
}
