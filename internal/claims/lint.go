package claims

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/audit"
	"github.com/windtunnel/windtunnel/internal/model"
)

// TableRule is a rule that looks at a printed table: alone, or held against
// the runs it is made of.
type TableRule struct {
	Name string
	// Doc, Saved and Advice are as in an audit.TrialRule.
	Doc    string
	Saved  string
	Advice string
	Check  func(t Table, m Match) []audit.Doubt
}

// TableRules is the catalog of the rules for printed tables.
func TableRules() []TableRule {
	return []TableRule{tableMismatch(), digitSwap(), rangesOfExtremes(), percentOfPercent(), littleBetweenRows(), staleSample()}
}

// Lint judges a table; the match may be empty.
func Lint(t Table, m Match) []model.Finding {
	var all []model.Finding
	for _, r := range TableRules() {
		for _, d := range r.Check(t, m) {
			all = append(all, model.Finding{Rule: r.Name, Severity: d.Severity, Load: t.Name, Cause: d.Cause, Evidence: d.Evidence, Advice: r.Advice})
		}
	}
	return all
}

// Entry describes one rule, for lists and documents.
type Entry struct{ Name, About, Doc, Saved, Advice string }

// Catalog describes every rule that an audit applies.
func Catalog() []Entry {
	var all []Entry
	seen := map[string]bool{}
	add := func(e Entry) {
		if !seen[e.Name] {
			all = append(all, e)
		}
		seen[e.Name] = true
	}
	for _, r := range audit.Catalog() {
		switch x := r.(type) {
		case audit.TrialRule:
			add(Entry{x.Name, "a trial", x.Doc, x.Saved, x.Advice})
		case audit.LoadRule:
			add(Entry{x.Name, "a load", x.Doc, x.Saved, x.Advice})
		case audit.SetRule:
			add(Entry{x.Name, "all trials", x.Doc, x.Saved, x.Advice})
		}
	}
	for _, r := range TableRules() {
		add(Entry{r.Name, "a table", r.Doc, r.Saved, r.Advice})
	}
	return all
}

func tableMismatch() TableRule {
	return TableRule{
		Name:   "printed table does not match raw data",
		Doc:    "A figure in a table must follow from the raw data to its last digit; one that does not is of other runs, or a slip of the hand.",
		Saved:  "MULTICLUSTER (Kuma's row on AWS is not that of its five runs), SIDECAR (minima, and two rates)",
		Advice: "generate tables from raw data; if runs are missing here, say in the claims file how many there were (runs:)",
		Check: func(_ Table, m Match) []audit.Doubt {
			var texts []string
			for _, c := range m.Cells {
				if c.State == Differs {
					texts = append(texts, fmt.Sprintf("%s, %s: %s for %s", c.Row, c.Column, c.Printed, c.Raw))
				}
			}
			if len(texts) == 0 {
				return nil
			}
			shown := strings.Join(texts[:min(len(texts), 3)], "; ") //nolint:mnd // the rest stands below, with the table
			return []audit.Doubt{{Severity: model.SeveritySuspect, Weight: float64(len(texts)), Cause: "printed figures are not those of the raw data", Evidence: fmt.Sprintf("%d of %d; %s", len(texts), len(m.Cells), shown)}}
		},
	}
}

func digitSwap() TableRule {
	return TableRule{
		Name:   "digits in another order",
		Doc:    "A printed figure with the digits of the raw one in another order was typed by hand; so was the rest of the table.",
		Saved:  "SIDECAR (a range 47.21 to 63.36 that is 36.36 to 47.21)",
		Advice: "correct the figure, and whatever was concluded from it; generate tables from raw data",
		Check: func(_ Table, m Match) []audit.Doubt {
			var all []audit.Doubt
			for _, c := range m.Cells {
				if c.State == Differs && strings.Contains(c.Note, "in another order") {
					all = append(all, audit.Doubt{Severity: model.SeverityInvalid, Weight: 1, Cause: "a printed figure is a typing mistake", Evidence: fmt.Sprintf("%s, %s: printed %s, raw data %s: %s", c.Row, c.Column, c.Printed, c.Raw, c.Note)})
				}
			}
			return all
		},
	}
}

func rangesOfExtremes() TableRule {
	return TableRule{
		Name:   "extremes compared as estimates",
		Doc:    "The least and the greatest of several runs are no estimates: the range of more runs is wider, and one bad run moves it.",
		Saved:  "SIDECAR (ranges of p99.9 over 20 to 71 runs a cell), GEO (minimum of minima, maximum of maxima)",
		Advice: "give a median over the runs with its interval, and the same number of runs for each system",
		Check: func(t Table, _ Match) []audit.Doubt {
			n := 0
			for _, r := range t.rows(func(string) bool { return false }) {
				for _, f := range r.figures {
					if f.ranged {
						n++
					}
				}
			}
			if n == 0 {
				return nil
			}
			return []audit.Doubt{{Severity: model.SeveritySuspect, Weight: float64(n), Cause: "figures are ranges from the least to the greatest run", Evidence: fmt.Sprintf("%d figures of the table", n)}}
		},
	}
}

func percentOfPercent() TableRule {
	return TableRule{
		Name:   "percentages of percentages",
		Doc:    "A change in percent of something that is itself a share looks huge where the share is tiny: 0.1 % that becomes 1 % rose by 900 %.",
		Saved:  "CNI (packet loss that rises by 1584.2 %: of how little is not said)",
		Advice: "give shares and their difference in percentage points, and the ratio beside them",
		Check: func(t Table, _ Match) []audit.Doubt {
			var texts []string
			for _, cells := range t.Rows {
				row := strings.ToLower(strings.Join(cells, ", "))
				shares := regexp.MustCompile(`\b(loss|lost|error|errors|failure|failures|success|drop|drops|utili[sz]ation)\b`)
				change := regexp.MustCompile(`(\d+(?:\.\d+)?)\s*(?:percent|%)`)
				words := regexp.MustCompile(`\b(higher|lower|rises?|rose|more|less|increase[sd]?|decrease[sd]?|jumps?|grows?|grew)\b`)
				m := change.FindStringSubmatch(row)
				if m != nil && shares.MatchString(row) && words.MatchString(row) {
					texts = append(texts, strings.Join(cells, ", "))
				}
			}
			if len(texts) == 0 {
				return nil
			}
			return []audit.Doubt{{Severity: model.SeveritySuspect, Weight: float64(len(texts)), Cause: "a change of a share is given in percent of that share", Evidence: strings.Join(texts, "; ")}}
		},
	}
}

// numbersOf are the columns of a table that hold a number in each row.
func (t Table) numbersOf(wanted func(words []string) bool) (at int, values []float64) {
	for i, name := range t.Columns {
		if !wanted(audit.Words(name)) {
			continue
		}
		values = nil
		for _, r := range t.Rows {
			v, err := strconv.ParseFloat(r[i], 64)
			if err != nil {
				break
			}
			values = append(values, v)
		}
		if len(values) == len(t.Rows) {
			return i, values
		}
	}
	return -1, nil
}

func anyOf(words ...string) func([]string) bool {
	return func(in []string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(in, w) })
	}
}

func littleBetweenRows() TableRule {
	return TableRule{
		Name:   "Little's law broken between rows",
		Doc:    "Users = throughput x (response time + think time). The script, and so the think time, is the same in all rows of one page; rows that imply different ones were not measured alike.",
		Saved:  "BOOKINFO (the front page implies 2.2 s of think time for one system and 11.3 s for the other)",
		Advice: "do not compare such rows: users were not running, requests were not counted, or other pages were loaded; measure with a fixed think time and check",
		Check: func(t Table, _ Match) []audit.Doubt {
			userAt, users := t.numbersOf(anyOf("users", "vus", "user", "clients", "connections"))
			timeAt, times := t.numbersOf(func(w []string) bool {
				return anyOf("response", "latency", "mean", "avg")(w) && anyOf("ms", "s", "us")(w)
			})
			rateAt, rates := t.numbersOf(anyOf("throughput", "qps", "rps", "rate"))
			if users == nil || times == nil || rates == nil {
				return nil
			}
			h := parseHeading(t.Columns[timeAt])
			think := map[string][]float64{}
			rows := map[string][]string{}
			for i, cells := range t.Rows {
				if rates[i] <= 0 {
					continue
				}
				key := strings.Join(pageOf(t, i, userAt, timeAt, rateAt), " ")
				z := users[i]/rates[i] - times[i]*h.usual
				think[key] = append(think[key], z)
				rows[key] = append(rows[key], fmt.Sprintf("%s: %.2f s", strings.Join(texts(cells), " "), z))
			}
			var all []audit.Doubt
			for _, key := range sortedOf(think) {
				least, most := slices.Min(think[key]), slices.Max(think[key])
				if len(think[key]) > 1 && (least < 0 || most > least*2 && most-least > 0.5) { //nolint:mnd // twice, and half a second: no rounding
					all = append(all, audit.Doubt{Severity: model.SeverityInvalid, Weight: most - least, Cause: "the rows imply different think times", Evidence: strings.Join(rows[key], "; ")})
				}
			}
			return all
		},
	}
}

// pageOf is what rows have in common that the same script made: of the columns
// with words that with the most alike rows, but for the system.
func pageOf(t Table, row int, not ...int) []string {
	var page []string
	for i, name := range t.Columns {
		if slices.Contains(not, i) || anyOf("system", "mesh", "variant", "cni", "method", "arm")(audit.Words(name)) {
			continue
		}
		if _, err := strconv.ParseFloat(t.Rows[row][i], 64); err != nil {
			page = append(page, t.Rows[row][i])
		}
	}
	return page
}

// texts are the cells that are no measured numbers.
func texts(cells []string) []string {
	var all []string
	for _, c := range cells {
		if !strings.Contains(c, ".") {
			if v, err := strconv.ParseFloat(c, 64); err != nil || v >= 50 && v == math.Trunc(v) && len(all) == 0 { //nolint:mnd // a number of users, as the first
				all = append(all, c)
			}
		}
	}
	return all
}

func staleSample() TableRule {
	return TableRule{
		Name:   "stale sample",
		Doc:    "A reading that is the same to the last digit under different loads was taken once, or before the load began.",
		Saved:  "BOOKINFO (23.83 % of memory in all four cells of one system)",
		Advice: "read resources in the window of each run, and give the time of each reading",
		Check: func(t Table, _ Match) []audit.Doubt {
			var all []audit.Doubt
			for i, name := range t.Columns {
				if !anyOf("cpu", "ram", "memory", "mem", "rss")(audit.Words(name)) {
					continue
				}
				by := map[string]int{}
				for _, r := range t.Rows {
					if strings.Contains(r[i], ".") {
						by[r[i]]++
					}
				}
				for _, v := range sortedOf(by) {
					if by[v] >= 3 { //nolint:mnd // two may be chance
						all = append(all, audit.Doubt{Severity: model.SeveritySuspect, Weight: float64(by[v]), Cause: "a reading does not change with the load", Evidence: fmt.Sprintf("%s is %s in %d of %d rows", name, v, by[v], len(t.Rows))})
					}
				}
			}
			return all
		},
	}
}
