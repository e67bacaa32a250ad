package audit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Answer says in one line what can and what cannot be concluded.
func Answer(e Evidence, findings []model.Finding) string {
	invalid, suspect, set := map[string]bool{}, map[string]bool{}, map[string]bool{}
	doubted := map[int]bool{}
	whole := false
	comparing := comparisons()
	for _, f := range findings {
		switch f.Severity {
		case model.SeverityInvalid:
			invalid[f.Rule] = true
			whole = whole || len(f.Trials) == 0
		case model.SeveritySuspect:
			if slices.Contains(comparing, f.Rule) {
				set[f.Rule] = true
			} else {
				suspect[f.Rule] = true
				for _, t := range f.Trials {
					doubted[t] = true
				}
			}
		case model.SeverityNote:
		}
	}
	n := len(e.Outcomes)
	runs := "run"
	if e.Runs == nil {
		runs = "trial"
	}
	var parts []string
	switch bad := len(Invalid(findings)); {
	case whole || bad == n && n > 0:
		parts = append(parts, fmt.Sprintf("Nothing can be concluded: %s", strings.Join(keys(invalid), ", ")))
	case bad > 0:
		parts = append(parts, fmt.Sprintf("%d of %d %ss must not be used: %s", bad, n, runs, strings.Join(keys(invalid), ", ")))
	case len(doubted) > 0:
		parts = append(parts, fmt.Sprintf("No %s of %d is invalid, %d are doubtful", runs, n, len(doubted)))
	default:
		parts = append(parts, fmt.Sprintf("Each of the %d %s(s) may be used", n, runs))
	}
	if len(suspect) > 0 {
		parts = append(parts, "read with care: "+strings.Join(keys(suspect), ", "))
	}
	switch {
	case len(e.loads()) == 0:
		parts = append(parts, "no two systems had the same load, so nothing is compared")
	case len(set) > 0:
		parts = append(parts, "differences between systems cannot be credited to them alone: "+strings.Join(keys(set), ", "))
	default:
		parts = append(parts, "nothing speaks against comparing the systems")
	}
	return strings.Join(parts, "; ") + "."
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
