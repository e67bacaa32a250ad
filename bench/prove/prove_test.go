package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/report"
	"github.com/windtunnel/windtunnel/internal/study"
)

// The studies of the lab are ones that the program accepts.
func TestTheStudiesPlan(t *testing.T) {
	t.Parallel()
	for name, variants := range map[string]string{"alike": "", "planted": plantedVariants} {
		file := filepath.Join(t.TempDir(), name+".yaml")
		if err := os.WriteFile(file, studyFile(variants, labOptions{window: time.Second, blocks: 6}, 1), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, complaints bytes.Buffer
		if code := run([]string{"plan", file}, &out, &complaints); code != 0 || !strings.Contains(out.String(), study.ControlName) {
			t.Errorf("%s: exit code %d\n%s%s", name, code, out.String(), complaints.String())
		}
	}
}

func TestFound(t *testing.T) {
	t.Parallel()
	m := &report.Model{Comparisons: []report.Comparison{
		{Variant: "delayed", Load: "steady", Metric: "response.p50", Difference: &report.Estimate{Value: 210e-6, Lo: 190e-6, Hi: 230e-6}},
		{Variant: "failing", Load: "steady", Metric: "success", Difference: &report.Estimate{Value: -0.02, Lo: -0.021, Hi: -0.019}},
	}}
	want := map[string]bool{"delayed response.p50": true, "failing success": false, "burning response.p50": false, "burning cpu.total": false}
	for _, tr := range truths(500) {
		text, ok := tr.found(m)
		if ok != want[tr.variant+" "+tr.metric] {
			t.Errorf("%s", text)
		}
	}
}

func TestStatsWritesItsTable(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("before\n"+tableBegins+"old\n"+tableEnds+"after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := replaceTable(page, "new\n"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(page)
	if err != nil || string(got) != "before\n"+tableBegins+"new\n"+tableEnds+"after\n" {
		t.Errorf("%v, %q", err, got)
	}
	if err = os.WriteFile(page, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err = replaceTable(page, "new\n"); err == nil {
		t.Error("a page without the table is written")
	}
	// The real page has it.
	text, err := os.ReadFile("../../docs/method.md")
	if err != nil || !strings.Contains(string(text), tableBegins) || !strings.Contains(string(text), tableEnds) {
		t.Errorf("docs/method.md has no place for the table: %v", err)
	}
}
