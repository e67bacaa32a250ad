package audit

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

func startUp() Rule {
	return SetRule{
		Name:    "start-up whatever the load",
		Metrics: []string{"success"},
		Doc:     "Failures that last as long at ten times the rate are not caused by the rate: something was not ready yet.",
		Saved:   "GEO (refused for 1.2 to 3.5 s after the start at 10, 50 and 100 requests/s: the generator's own sidecar)",
		Advice:  "wait until the generator itself has right answers through the whole path, then begin; such a success rate is the length of the run over that of the start-up",
		Check: func(e Evidence) []SetDoubt {
			first := map[string][]time.Duration{}
			loads := map[string]map[string]bool{}
			trials := map[string][]int{}
			for i := range e.Outcomes {
				o := &e.Outcomes[i]
				if o.Load == nil || o.Load.FailedPrefix == 0 || o.Load.FirstSuccess == 0 {
					continue
				}
				v := o.Trial.Variant
				if loads[v] == nil {
					loads[v] = map[string]bool{}
				}
				loads[v][o.Trial.Load] = true
				first[v], trials[v] = append(first[v], o.Load.FirstSuccess), append(trials[v], o.Trial.Index)
			}
			var doubts []SetDoubt
			for _, v := range keys(first) {
				least, most := slices.Min(first[v]), slices.Max(first[v])
				const alike = 4
				if len(loads[v]) < 2 || most > alike*least {
					continue
				}
				doubts = append(doubts, SetDoubt{
					Doubt:   Doubt{model.SeveritySuspect, float64(len(first[v])), "it failed from the start for about as long at every load: start-up, not load", fmt.Sprintf("first success after %s to %s under %s", round(least), round(most), few(keys(loads[v]), 6))}, //nolint:mnd // that fit on a screen
					Variant: v, Trials: trials[v],
				})
			}
			return doubts
		},
	}
}

func runsMissing() Rule {
	return SetRule{
		Name:   "runs missing",
		Doc:    "Runs that failed and were left out make a system look better than it is: attempts and results must both be known.",
		Saved:  "MULTICLUSTER (runs with an error were dropped and not counted), SIDECAR (70 of 71, 19 of 20 runs in the logs)",
		Advice: "say how many runs were begun, how many ended and why the others did not",
		Check: func(e Evidence) []SetDoubt {
			var doubts []SetDoubt
			for _, groups := range e.loads() {
				most := 0
				for _, g := range groups {
					most = max(most, len(g.trials))
				}
				for _, g := range groups {
					if n := len(g.trials); n < most {
						severity := model.SeverityNote // another plan, rather than a lost run
						if n*2 > most {
							severity = model.SeveritySuspect
						}
						doubts = append(doubts, SetDoubt{Doubt: Doubt{
							severity, float64(most - n), "one system has fewer runs than another under the same load",
							fmt.Sprintf("%d, where another has %d", n, most),
						}, Variant: g.variant, Load: g.load})
					}
				}
			}
			return merged(append(doubts, holes(e)...))
		},
	}
}

// holes are numbers that are missing between repetitions.
func holes(e Evidence) []SetDoubt {
	var doubts []SetDoubt
	for _, g := range e.groups() {
		var numbers []int
		for _, o := range g.trials {
			if r := e.run(o); r != nil {
				if n, err := strconv.Atoi(r.Repetition); err == nil {
					numbers = append(numbers, n)
				}
			}
		}
		slices.Sort(numbers)
		var gone []string
		for i := 1; i < len(numbers); i++ {
			for n := numbers[i-1] + 1; n < numbers[i] && len(gone) < 20; n++ {
				gone = append(gone, strconv.Itoa(n))
			}
		}
		if len(gone) > 0 && len(gone) <= len(numbers) && len(numbers) == len(g.trials) {
			doubts = append(doubts, SetDoubt{
				Doubt:   Doubt{model.SeveritySuspect, float64(len(gone)), "repetitions are missing between others", "no run " + strings.Join(gone, ", ")},
				Variant: g.variant, Load: g.load,
			})
		}
	}
	return doubts
}

func notRepeated() Rule {
	return SetRule{
		Name:   "not repeated",
		Doc:    "One run says nothing about the next: without repetition nobody knows how much of a difference is chance.",
		Saved:  "BOOKINFO (one run a cell)",
		Advice: "repeat each system under each load at least six times: fewer give no 95 % interval by signed ranks",
		Check: func(e Evidence) []SetDoubt {
			const least = 6 // blocks: Wilcoxon's signed ranks give a 95 % interval from there on
			var once, seldom []string
			for _, g := range e.groups() {
				name := strings.TrimSuffix(g.variant+"/"+g.load, "/")
				switch n := len(g.trials); {
				case n == 1:
					once = append(once, name)
				case n < least:
					seldom = append(seldom, fmt.Sprintf("%s (%d)", name, n))
				}
			}
			var doubts []SetDoubt
			if len(once) > 0 && len(e.Outcomes) > 1 || len(e.Outcomes) == 1 && e.Runs != nil {
				doubts = append(doubts, SetDoubt{Doubt: Doubt{model.SeveritySuspect, 2, "a single run each: nothing says how much is chance", few(once, 6)}}) //nolint:mnd // that fit on a screen
			}
			if len(seldom) > 0 {
				doubts = append(doubts, SetDoubt{Doubt: Doubt{model.SeverityNote, 1, "too few runs for a 95 % interval of a paired difference", few(seldom, 6)}}) //nolint:mnd // that fit on a screen
			}
			return doubts
		},
	}
}

func uncorrected() Rule {
	return SetRule{
		Name:   "many comparisons",
		Doc:    "Of twenty comparisons at 5 % one is expected to show a difference that is not there: a family of claims needs a correction.",
		Saved:  "GEO (18 rows x 5 statistics compared one by one), all five (no correction anywhere)",
		Advice: "choose one or two metrics beforehand, correct by Holm (audit --claims does), or repeat more often",
		Check: func(e Evidence) []SetDoubt {
			m, least := 0, math.MaxInt
			for _, groups := range e.loads() {
				m += len(groups) - 1
				for _, g := range groups {
					least = min(least, len(g.trials))
				}
			}
			if m < 2 || e.Runs == nil { // our own reports correct by Holm
				return nil
			}
			const alpha = 0.05
			need := int(math.Ceil(1 + math.Log2(float64(m)/alpha)))
			return []SetDoubt{{Doubt: Doubt{
				model.SeverityNote, float64(m), fmt.Sprintf("%d comparisons for every metric: some will show a difference by chance", m),
				fmt.Sprintf("uncorrected, the chance of at least one false difference is %.0f %%; with a correction each needs %d pairs, the smallest has %d", 100*(1-math.Pow(1-alpha, float64(m))), need, least),
			}}}
		},
	}
}

func reportDisagrees() Rule {
	return SetRule{
		Name:   "report does not match raw data",
		Doc:    "A report that was written from the same requests must say the same: else it is of another run.",
		Saved:  "GEO (a figure of one run, printed as that of another)",
		Advice: "make reports from the raw data again, and say from which",
		Check: func(e Evidence) []SetDoubt {
			var doubts []SetDoubt
			for i := range e.Runs {
				r := &e.Runs[i]
				if text := disagreement(r); text != "" {
					doubts = append(doubts, SetDoubt{
						Doubt: Doubt{model.SeverityInvalid, 1, "the tool's report is not of these requests", text}, Variant: r.Variant, Load: r.Load, Trials: []int{i},
					})
				}
			}
			return doubts
		},
	}
}

// disagreement compares what must agree to the last digits.
func disagreement(r *Run) string {
	if r.Report == nil || r.Report.Result == nil || r.Result.Tool == nil {
		return ""
	}
	report := r.Report.Result
	if report.Due != r.Result.Due || report.Succeeded != r.Result.Succeeded {
		return fmt.Sprintf("%d of %d good in the report, %d of %d in the requests", report.Succeeded, report.Due, r.Result.Succeeded, r.Result.Due)
	}
	for _, name := range []string{"min", "mean", "max"} {
		want, known := report.Tool.Figures[name]
		have, measured := r.Result.Tool.Figures[name]
		if known && measured && (want-have).Abs() > have/1000+time.Microsecond {
			return fmt.Sprintf("%s is %s in the report and %s in the requests", name, want, have)
		}
	}
	return ""
}
