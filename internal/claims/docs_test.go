package claims

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of rules into docs/audit.md")

// The table of rules in docs/audit.md is that of the code.
func TestRulesInTheDocs(t *testing.T) {
	t.Parallel()
	const path, begin, end = "../../docs/audit.md", "<!-- rules: begin -->\n", "<!-- rules: end -->"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	table, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no %q and %q", path, begin, end)
	}
	var b strings.Builder
	b.WriteString("| rule | looks at | what, and why | would have saved | what to do |\n|---|---|---|---|---|\n")
	for _, r := range Catalog() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.Name, r.About, r.Doc, r.Saved, r.Advice)
	}
	if table == b.String() {
		return
	}
	if !*update {
		t.Fatalf("the table of rules in %s is not that of the code: run go test ./internal/claims -run TestRulesInTheDocs -update", path)
	}
	if err := os.WriteFile(path, []byte(before+begin+b.String()+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Every claim of docs/audit.md can be parsed.
func TestClaimsInTheDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/audit.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if _, err := Parse("docs/audit.md", []byte(block)); err != nil {
			t.Error(err)
		}
		n++
	}
	if n < 2 {
		t.Errorf("%d files of claims in the document", n)
	}
}
