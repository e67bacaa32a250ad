package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/audit"
	"github.com/windtunnel/windtunnel/internal/claims"
	"github.com/windtunnel/windtunnel/internal/command"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/store"
)

type auditOptions struct {
	name, claims, format string
	tables               []string
	json, rules          bool
}

func (a *app) auditCommand() *cobra.Command {
	var o auditOptions
	c := &cobra.Command{
		Use: "audit FILE...|RUN", Short: "Say what can and what cannot be concluded from results, ours or other tools'",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && len(o.tables) == 0 && o.claims == "" && !o.rules {
				return errors.New("give files or folders of results, or the folder of a run")
			}
			return nil
		},
		Long: `Reads results of vegeta, fortio, k6, wrk, iperf3 and others, or the folder of a run,
and looks for every mistake it knows: start-up taken for failure, a closed loop
taken for capacity, quotas, round trips, systems at different protocol levels,
order and time confounded with the system, and more (audit --rules lists them).

Files are grouped by variant, load and repetition. The names of the files say
which: quantities and protocols are the load, numbers the repetition, other words
the variant; --name says it better. With --claims, statements about the results
get a verdict each; with --table, the figures of a printed table are looked for
in the raw data. docs/audit.md describes rules, claims and tables.

Exit codes: 0 nothing is invalid, 2 the input is wrong, 3 something must not be
used: a run, a table or a claim.`,
		Example: `  windtunnel audit results/
  windtunnel audit results/ --name '{variant}-{region}-{rep}/{load}.gob'
  windtunnel audit results/ --table paper.csv --claims paper.yaml
  windtunnel audit runs/2026-01-31-sidecar-cost`,
		RunE: func(_ *cobra.Command, args []string) error { return a.audit(args, o) },
	}
	f := c.Flags()
	f.StringVar(&o.name, "name", "", "`pattern` of paths, e.g. {variant}-{rep}/{load}.json; factors of your own are welcome")
	f.StringVar(&o.claims, "claims", "", "YAML `file` of claims, each of which gets a verdict")
	f.StringArrayVar(&o.tables, "table", nil, "CSV `file` of printed figures to find again; may be given several times")
	f.StringVar(&o.format, "format", "text", "text or md")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.BoolVar(&o.rules, "rules", false, "list every rule, and end")
	return c
}

// audited is what an audit found.
type audited struct {
	Answer   string          `json:"answer"`
	Runs     []auditedRun    `json:"runs,omitempty"`
	Skipped  []string        `json:"skipped,omitempty"`
	Findings []model.Finding `json:"findings"`
	Claims   []claims.Result `json:"claims,omitempty"`
	Tables   []claims.Match  `json:"tables,omitempty"`
	evidence audit.Evidence  // for pictures
}

type auditedRun struct {
	File       string            `json:"file"`
	Name       string            `json:"name,omitempty"`
	Variant    string            `json:"variant"`
	Load       string            `json:"load"`
	Repetition string            `json:"repetition"`
	Factors    map[string]string `json:"factors,omitempty"`
}

func (a *app) audit(args []string, o auditOptions) error {
	if o.rules {
		return a.printRules()
	}
	if o.format != "text" && o.format != "md" {
		return wrong(fmt.Errorf("no format %q: text or md", o.format))
	}
	var result audited
	err := a.gather(args, o, &result)
	if err != nil {
		return wrong(err)
	}
	file, tables, err := readClaims(o)
	if err != nil {
		return wrong(err)
	}
	e := result.evidence
	if len(e.Outcomes) > 0 {
		result.Answer = audit.Answer(e, result.Findings)
	}
	for _, t := range o.tables {
		table := tables[t]
		var m claims.Match
		if len(e.Outcomes) > 0 {
			m = claims.Compare(table, e, nil, 0)
			result.Tables = append(result.Tables, m)
		}
		result.Findings = append(result.Findings, claims.Lint(table, m)...)
	}
	for _, c := range file.Claims {
		if t, ok := tables[c.Table]; ok && !slices.Contains(o.tables, c.Table) {
			result.Findings = append(result.Findings, claims.Lint(t, claims.Match{})...)
		}
	}
	audit.Order(result.Findings)
	result.Claims = claims.Judge(file, claims.Data{Evidence: e, Findings: result.Findings, Tables: tables})
	result.Answer = answer(&result)
	if err := a.printAudit(&result, o); err != nil {
		return err
	}
	if result.invalid() {
		return silent(command.ExitGate)
	}
	return nil
}

func (r *audited) invalid() bool {
	return slices.ContainsFunc(r.Findings, func(f model.Finding) bool { return f.Severity == model.SeverityInvalid }) ||
		slices.ContainsFunc(r.Claims, func(c claims.Result) bool { return c.Verdict == claims.Contradicted })
}

// answer adds what is to be said of tables and claims to that of the runs.
func answer(r *audited) string {
	text := r.Answer
	if text == "" {
		text = "Only printed figures were given, no raw data."
	}
	said := []string{text}
	for _, m := range r.Tables {
		if n := m.Count(claims.Differs); n > 0 {
			said = append(said, fmt.Sprintf("%d of %d printed figures of %s do not match the raw data.", n, len(m.Cells), m.Table))
		} else if m.Count(claims.Same) > 0 {
			said = append(said, fmt.Sprintf("%d of %d printed figures of %s were found again.", m.Count(claims.Same), len(m.Cells), m.Table))
		}
	}
	counts := map[claims.Verdict]int{}
	for _, c := range r.Claims {
		counts[c.Verdict]++
	}
	var parts []string
	for _, v := range []claims.Verdict{claims.Supported, claims.NotSupported, claims.Contradicted, claims.CannotTell} {
		if counts[v] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[v], v))
		}
	}
	if len(parts) > 0 {
		said = append(said, fmt.Sprintf("Of %d claims: %s.", len(r.Claims), strings.Join(parts, ", ")))
	}
	return strings.Join(said, " ")
}

// gather reads what is to be audited, and judges it.
func (a *app) gather(args []string, o auditOptions, result *audited) error {
	if len(args) == 0 {
		return nil
	}
	if len(args) == 1 && isRun(args[0]) {
		e, err := runEvidence(args[0])
		if err != nil {
			return err
		}
		result.evidence = e
		result.Findings = audit.Judge(e, slices.Concat(audit.Rules(), audit.SetRules()))
		return nil
	}
	files, err := expand(args)
	if err != nil {
		return err
	}
	e, err := a.foreign(files, o.name, result)
	if err != nil {
		return err
	}
	result.evidence = e
	result.Findings = audit.Judge(e, audit.Catalog())
	return nil
}

func isRun(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "records.jsonl"))
	return err == nil
}

// input is a file to read; one that was named must be readable, one that was
// found in a folder may be something else.
type input struct {
	path  string
	named bool
}

func expand(args []string) ([]input, error) {
	var all []input
	var problems []error
	for _, arg := range args {
		info, err := os.Stat(arg)
		switch {
		case err != nil:
			problems = append(problems, err)
		case info.IsDir():
			// The separator makes it follow a link to a folder.
			err = filepath.WalkDir(arg+string(filepath.Separator), func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() && !strings.HasPrefix(d.Name(), ".") {
					all = append(all, input{path, false})
				}
				return err
			})
			problems = append(problems, err)
		default:
			all = append(all, input{arg, true})
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("looking for results: %w", err)
	}
	slices.SortFunc(all, func(x, y input) int { return strings.Compare(x.path, y.path) })
	return slices.CompactFunc(all, func(x, y input) bool { return x.path == y.path }), nil
}

// readClaims reads the file of claims, and every table that it or a flag names:
// those of claims lie beside their file.
func readClaims(o auditOptions) (claims.File, map[string]claims.Table, error) {
	tables := map[string]claims.Table{}
	var file claims.File
	var problems []error
	if o.claims != "" {
		data, err := os.ReadFile(o.claims)
		if err == nil {
			file, err = claims.Parse(o.claims, data)
		}
		if err != nil {
			return file, nil, fmt.Errorf("reading the claims: %w", err)
		}
	}
	read := func(name, path string) {
		if _, known := tables[name]; known || name == "" {
			return
		}
		data, err := os.ReadFile(path)
		var t claims.Table
		if err == nil {
			t, err = claims.ReadTable(path, data)
		}
		tables[name] = t
		problems = append(problems, err)
	}
	for _, t := range o.tables {
		read(t, t)
	}
	for _, c := range file.Claims {
		for _, name := range []string{c.Table, c.Data} {
			read(name, filepath.Join(filepath.Dir(o.claims), filepath.FromSlash(name)))
		}
	}
	return file, tables, errors.Join(problems...)
}

func runEvidence(dir string) (audit.Evidence, error) {
	run, err := store.Open(dir)
	if err != nil {
		return audit.Evidence{}, err
	}
	s, err := studyOf(run)
	if err != nil {
		return audit.Evidence{}, err
	}
	e := audit.Evidence{Study: s, Outcomes: slices.Clone(run.Outcomes)}
	if n := len(run.Sessions); n > 0 {
		e.Host = run.Sessions[n-1].Host
	}
	slices.SortFunc(e.Outcomes, func(x, y model.Outcome) int { return x.Trial.Index - y.Trial.Index })
	return e, nil
}
