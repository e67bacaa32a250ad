package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/audit"
	"github.com/windtunnel/windtunnel/internal/claims"
	"github.com/windtunnel/windtunnel/internal/model"
)

func (a *app) printAudit(r *audited, o auditOptions) error {
	if o.json {
		out := json.NewEncoder(a.env.Stdout)
		out.SetIndent("", " ")
		if r.Findings == nil {
			r.Findings = []model.Finding{}
		}
		return out.Encode(r)
	}
	w := auditWriter{app: a, md: o.format == "md"}
	a.printf("%s\n", w.bold(r.Answer))
	w.runs(r)
	w.findings(r)
	for i := range r.Tables {
		w.title("Printed figures: " + r.Tables[i].Table)
		w.table(&r.Tables[i])
	}
	w.claims(r.Claims)
	if len(r.Skipped) > 0 {
		w.title("Not read")
		for _, s := range r.Skipped[:min(len(r.Skipped), 10)] { //nolint:mnd // that fit on a screen
			a.printf("%s%s\n", w.bullet(), s)
		}
		if more := len(r.Skipped) - 10; more > 0 { //nolint:mnd // as above
			a.printf("%sand %d more\n", w.bullet(), more)
		}
	}
	return nil
}

type auditWriter struct {
	*app

	md bool
}

func (w auditWriter) title(text string) {
	if w.md {
		w.printf("\n## %s\n\n", text)
		return
	}
	w.printf("\n%s\n", strings.ToUpper(text[:1])+text[1:])
}

func (w auditWriter) bold(text string) string {
	if w.md {
		return "**" + text + "**"
	}
	return text
}

func (w auditWriter) bullet() string {
	if w.md {
		return "- "
	}
	return "  "
}

// runs says what was read, and how it was understood.
func (w auditWriter) runs(r *audited) {
	if len(r.Runs) == 0 {
		return
	}
	counts := map[string]map[string]int{}
	loads := map[string]bool{}
	for _, x := range r.Runs {
		if counts[x.Variant] == nil {
			counts[x.Variant] = map[string]int{}
		}
		counts[x.Variant][x.Load]++
		loads[x.Load] = true
	}
	w.title(fmt.Sprintf("Read: %d run(s), %d variant(s), %d load(s)", len(r.Runs), len(counts), len(loads)))
	variants := slices.Sorted(maps.Keys(counts))
	for _, v := range variants[:min(len(variants), 30)] { //nolint:mnd // that fit on a screen
		var parts []string
		for _, l := range slices.Sorted(maps.Keys(counts[v])) {
			parts = append(parts, fmt.Sprintf("%s x %d", l, counts[v][l]))
		}
		w.printf("%s%s: %s\n", w.bullet(), v, strings.Join(parts, ", "))
	}
}

func (w auditWriter) findings(r *audited) {
	titles := map[model.Severity]string{
		model.SeverityInvalid: "Invalid: must not be used", model.SeveritySuspect: "Suspect: look again", model.SeverityNote: "Notes",
	}
	for _, severity := range []model.Severity{model.SeverityInvalid, model.SeveritySuspect, model.SeverityNote} {
		var these []model.Finding
		for _, f := range r.Findings {
			if f.Severity == severity {
				these = append(these, f)
			}
		}
		if len(these) == 0 {
			continue
		}
		w.title(titles[severity])
		for _, same := range byRule(these) {
			w.rule(r.evidence, same)
		}
	}
	if len(r.Findings) == 0 {
		w.title("No finding")
	}
}

// byRule groups findings of one rule and cause, in order of appearance.
func byRule(all []model.Finding) [][]model.Finding {
	var groups [][]model.Finding
	for _, f := range all {
		at := slices.IndexFunc(groups, func(g []model.Finding) bool { return g[0].Rule == f.Rule && g[0].Cause == f.Cause })
		if at < 0 {
			groups = append(groups, []model.Finding{f})
			continue
		}
		groups[at] = append(groups[at], f)
	}
	return groups
}

// rule prints the findings of one rule: the cause and the advice once, then
// where, and the numbers.
func (w auditWriter) rule(e audit.Evidence, same []model.Finding) {
	f := same[0]
	w.printf("%s%s: %s\n", w.bullet(), w.bold(f.Rule), f.Cause)
	most := 12 // that fit on a screen
	if f.Severity == model.SeverityNote {
		most = 3
	}
	for _, x := range same[:min(len(same), most)] {
		where := strings.Trim(x.Variant+"/"+x.Load, "/")
		if where != "" {
			where += ": "
		}
		w.printf("  %s%s%s\n", w.bullet(), where, short(x.Evidence))
	}
	if more := len(same) - most; more > 0 {
		w.printf("  %sand %d more of the same\n", w.bullet(), more)
	}
	if lines := audit.Picture(e, f); len(lines) > 0 {
		if w.md {
			w.printf("\n  ```\n")
		}
		for _, l := range lines {
			w.printf("      %s\n", l)
		}
		if w.md {
			w.printf("  ```\n\n")
		}
	}
	w.printf("  %s-> %s\n", w.bullet(), f.Advice)
}

// short cuts what would fill a screen; --json has all of it.
func short(text string) string {
	const most = 420
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + " ..."
}

func (w auditWriter) claims(all []claims.Result) {
	if len(all) == 0 {
		return
	}
	w.title("Claims")
	for _, c := range all {
		w.printf("%s%s: %s\n", w.bullet(), w.bold(string(c.Verdict)), c.Claim)
		if c.Says != "" {
			w.printf("  %sas the source says it: %s\n", w.bullet(), c.Says)
		}
		w.printf("  %s%s\n", w.bullet(), c.Why)
		if c.Test != "" {
			w.printf("  %sby %s\n", w.bullet(), c.Test)
		}
		if len(c.Doubts) > 0 {
			w.printf("  %sdoubts about its runs: %s\n", w.bullet(), strings.Join(c.Doubts, ", "))
		}
		if c.Table != nil {
			w.table(c.Table)
		}
	}
}

// table prints the figures that do not match, and counts the others.
func (w auditWriter) table(m *claims.Match) {
	w.printf("  %s%d figures: %d same, %d differ, %d rest on missing runs, %d without raw data, %d not unique\n", w.bullet(), len(m.Cells),
		m.Count(claims.Same), m.Count(claims.Differs), m.Count(claims.Missing), m.Count(claims.Unknown), m.Count(claims.Several))
	if len(m.Words) > 0 {
		w.printf("  %sunderstood as: %s\n", w.bullet(), strings.Join(m.Words, ", "))
	}
	const most = 40
	n := 0
	for _, c := range m.Cells {
		if c.State != claims.Differs && c.State != claims.Missing {
			continue
		}
		if n++; n <= most {
			note := c.Note
			if note != "" {
				note = " (" + note + ")"
			}
			w.printf("  %s%s, %s: printed %s, %d run(s) give %s%s\n", w.bullet(), c.Row, c.Column, c.Printed, c.Runs, c.Raw, note)
		}
	}
	if n > most {
		w.printf("  %sand %d more\n", w.bullet(), n-most)
	}
	for _, p := range m.Problems {
		w.printf("  %s%s\n", w.bullet(), p)
	}
}

func (a *app) printRules() error {
	for _, r := range claims.Catalog() {
		a.printf("%s (%s)\n    %s\n    would have saved: %s\n    -> %s\n", r.Name, r.About, r.Doc, r.Saved, r.Advice)
	}
	return nil
}
