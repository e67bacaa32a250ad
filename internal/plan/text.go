package plan

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/windtunnel/windtunnel/internal/model"
)

// WriteText writes the plan for people: the question, what is compared under
// what, the order of the trials, and how long it takes. In the order, a trial is
// its variant's letter and its load's number.
func (p Plan) WriteText(w io.Writer) error {
	var b strings.Builder
	s := p.Study
	fmt.Fprintf(&b, "%s   %s\n", s.Name, s.Question)
	fmt.Fprintf(&b, "%s x %s x %s = %s%s\n%s\n\n", count(len(s.Variants), "variant"), count(len(s.Loads), "load"),
		blocks(s.Design), count(len(p.Trials), "trial"), p.calibrations()+p.breakdowns(), p.expected())
	variants(&b, s)
	loads(&b, s)
	design(&b, s)
	p.order(&b)
	fmt.Fprintf(&b, "digest   %s\n", p.Digest)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the plan of study %s: %w", s.Name, err)
	}
	return nil
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func blocks(d model.Design) string {
	if d.MaxBlocks == d.Blocks {
		return count(d.Blocks, "block")
	}
	return fmt.Sprintf("at most %d blocks", d.MaxBlocks)
}

func (p Plan) calibrations() string {
	if len(p.Calibration) == 0 {
		return ""
	}
	return ", after " + count(len(p.Calibration), "calibration trial")
}

func (p Plan) breakdowns() string {
	if len(p.Breakdown) == 0 {
		return ""
	}
	return ", before " + count(len(p.Breakdown), "breakdown trial")
}

// expected leaves out what deploying takes: that is the host's.
func (p Plan) expected() string {
	d := p.Study.Design
	most := Duration(p, 0)
	least := most - duration(p.Study, d.MaxBlocks-d.Blocks, 0)
	if least == most {
		return fmt.Sprintf("%s of warm-up and load, and what deploying needs", most)
	}
	return fmt.Sprintf("%s to %s of warm-up and load, and what deploying needs", least, most)
}

// table writes rows of cells in columns, and an empty line.
func table(b *strings.Builder, rows [][]string) {
	w := tabwriter.NewWriter(b, 0, 0, 3, ' ', 0)
	for _, r := range rows {
		_, _ = io.WriteString(w, strings.Join(r, "\t")+"\n") // a strings.Builder does not fail
	}
	_ = w.Flush()
	b.WriteByte('\n')
}

// plugin is a plug-in with its configuration, if it has one.
func plugin(r model.PluginRef) string { return strings.TrimSuffix(r.Kind+" "+string(r.Config), " ") }

func variants(b *strings.Builder, s model.Study) {
	rows := [][]string{{"", "variant", "stack, bottom up"}}
	for i, v := range s.Variants {
		stack := make([]string, len(v.Stack))
		for j, l := range v.Stack {
			stack[j] = plugin(l)
		}
		text := strings.Join(stack, ", ")
		if len(stack) == 0 {
			text = "none"
		}
		if len(v.Limits) > 0 {
			text += "   limits: " + v.Limits.String()
		}
		switch {
		case v.Control:
			text += "   (the baseline again: the A/A control)"
		case v.Name == s.Baseline:
			text += "   (the baseline)"
		}
		rows = append(rows, []string{letter(i), v.Name, text})
	}
	table(b, rows)
}

func design(b *strings.Builder, s model.Study) {
	d := s.Design
	rows := [][]string{
		{"target", s.Target},
		{"app", plugin(s.App)},
		{"limits", s.Limits.String()},
		{"warm-up", d.Warmup.String() + " before each window"},
		{"primary", strings.Join(d.Primary, ", ")},
	}
	if len(s.Limits) == 0 {
		rows = slices.DeleteFunc(rows, func(r []string) bool { return r[0] == "limits" })
	}
	if d.StopInterval > 0 {
		rows = append(rows, []string{"stop", fmt.Sprintf("from block %d on, when every primary interval is within +-%s of its estimate", d.Blocks, percent(d.StopInterval))})
	}
	if d.Equivalence > 0 {
		rows = append(rows, []string{"equivalent", "within +-" + percent(d.Equivalence)})
	}
	for _, g := range s.Gates {
		rows = append(rows, []string{"gate", g.Text})
	}
	table(b, rows)
}

// percent moves the decimal point in six digits, enough for any share that
// was written as a percentage.
func percent(share float64) string { return strconv.FormatFloat(share*100, 'g', 6, 64) + " %" }

func (p Plan) order(b *strings.Builder) {
	cells := make(map[string]string)
	for i, v := range p.Study.Variants {
		for j, l := range p.Study.Loads {
			cells[v.Name+"/"+l.Name] = letter(i) + strconv.Itoa(j+1)
		}
	}
	fmt.Fprintf(b, "order of trials, seed %d\n", p.Study.Design.Seed)
	var rows [][]string
	add := func(what string, trials []model.Trial, size int) {
		for block := range slices.Chunk(trials, max(1, size)) {
			row := make([]string, len(block))
			for i, t := range block {
				row[i] = cells[t.Variant+"/"+t.Load]
			}
			rows = append(rows, []string{what + " " + strconv.Itoa(block[0].Block), strings.Join(row, " ")})
		}
	}
	add("calibration", p.Calibration, len(p.Calibration)/calibrations)
	add("block", p.Trials, len(cells))
	if n := len(p.Breakdown); n > 0 {
		add("breakdown", p.Breakdown, n)
	}
	table(b, rows)
}

// letter is A to Z, then AA and so on.
func letter(i int) string {
	const letters = 26
	if i < letters {
		return string("ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i])
	}
	return letter(i/letters-1) + letter(i%letters)
}
