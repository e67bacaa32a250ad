package audit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Answer says in one line what can and what cannot be concluded.
func Answer(e Evidence, findings []model.Finding) string {
	w := weigh(findings)
	parts := []string{w.usable(e, len(Invalid(findings)))}
	if len(w.suspect) > 0 {
		parts = append(parts, "read with care: "+strings.Join(keys(w.suspect), ", "))
	}
	switch {
	case len(e.loads()) == 0:
		parts = append(parts, "no two systems had the same load, so nothing is compared")
	case len(w.comparing) > 0:
		parts = append(parts, "differences between systems cannot be credited to them alone: "+strings.Join(keys(w.comparing), ", "))
	default:
		parts = append(parts, "nothing speaks against comparing the systems")
	}
	return strings.Join(parts, "; ") + "."
}

// weights are the rules that spoke, by what they mean for a conclusion.
type weights struct {
	invalid, suspect, comparing map[string]bool
	doubted                     map[int]bool // trials
	whole                       bool         // all trials are invalid at once
}

func weigh(findings []model.Finding) weights {
	w := weights{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[int]bool{}, false}
	about := comparisons()
	for _, f := range findings {
		switch {
		case f.Severity == model.SeverityInvalid:
			w.invalid[f.Rule] = true
			w.whole = w.whole || len(f.Trials) == 0
		case f.Severity == model.SeveritySuspect && slices.Contains(about, f.Rule):
			w.comparing[f.Rule] = true
		case f.Severity == model.SeveritySuspect:
			w.suspect[f.Rule] = true
			for _, t := range f.Trials {
				w.doubted[t] = true
			}
		}
	}
	return w
}

func (w weights) usable(e Evidence, bad int) string {
	n, unit := len(e.Outcomes), e.unit()
	switch {
	case w.whole || bad == n && n > 0:
		return "Nothing can be concluded: " + strings.Join(keys(w.invalid), ", ")
	case bad > 0:
		return fmt.Sprintf("%d of %d %s must not be used: %s", bad, n, unit, strings.Join(keys(w.invalid), ", "))
	case len(w.doubted) > 0:
		return fmt.Sprintf("None of %d %s is invalid, %d are doubtful", n, unit, len(w.doubted))
	}
	return fmt.Sprintf("All %d %s may be used", n, unit)
}

// comparisons are the rules that are about what is compared, not about a number.
func comparisons() []string {
	var all []string
	for _, r := range SetRules() {
		if s, ok := r.(SetRule); ok && !slices.Contains([]string{roundTripsName, "report does not match raw data", "start-up whatever the load"}, s.Name) {
			all = append(all, s.Name)
		}
	}
	return all
}
