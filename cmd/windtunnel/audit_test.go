package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/cli"
	"github.com/windtunnel/windtunnel/internal/command"
)

// Every example of docs/audit.md gives what the page shows: "..." stands for
// what is left out, within a line or between lines.
func TestAuditDocumentation(t *testing.T) {
	studies, err := filepath.Abs("../../internal/ingest/testdata/studies")
	if err != nil {
		t.Fatal(err)
	}
	files := blocks(t, "../../docs/audit.md", "yaml")
	examples := blocks(t, "../../docs/audit.md", "console")
	dir := t.TempDir()
	for _, name := range []string{"vegeta", "fortio-log", "fortio-json", "published"} {
		if err := os.Symlink(filepath.Join(studies, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "thesis.yaml"), []byte(files[len(files)-1]), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	if len(examples) < 5 {
		t.Fatalf("%d examples", len(examples))
	}
	for _, e := range examples {
		given, shown, _ := strings.Cut(strings.TrimPrefix(e, "$ windtunnel "), "\n")
		var args []string
		for a := range strings.FieldsSeq(given) {
			args = append(args, strings.Trim(a, "'"))
		}
		var out, complaints bytes.Buffer
		code := cli.Main(t.Context(), command.Env{Args: args, Stdout: &out, Stderr: &complaints, Now: time.Now}, catalog(dir))
		if complaints.Len() > 0 || code != command.ExitDone && code != command.ExitGate {
			t.Errorf("%s: exit code %d\n%s", given, code, complaints.String())
		}
		rest := out.String()
		for part := range strings.SplitSeq(shown, "...") {
			part = strings.Trim(part, "\n")
			at := strings.Index(rest, part)
			if at < 0 {
				t.Errorf("%s prints no\n%s\nafter what was before:\n%.3000s", given, part, rest)
				break
			}
			rest = rest[at+len(part):]
		}
	}
}
