package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/cli"
	"github.com/windtunnel/windtunnel/internal/command"
)

// TestStudiesInTheDocs plans every example of these pages. Those after the
// first, which is a whole study, replace the keys that they have.
func TestStudiesInTheDocs(t *testing.T) {
	t.Parallel()
	for page, least := range map[string]int{"studies.md": 12, "faults.md": 1, "apps.md": 3} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			planAll(t, page, least)
		})
	}
}

func planAll(t *testing.T, page string, least int) {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1)
	if len(examples) < least {
		t.Fatalf("%d examples", len(examples))
	}
	dir := t.TempDir()
	for name, data := range map[string]string{"times.txt": "# seconds\n0\n0.25\n500ms\n", "token.txt": "secret", "body.bin": "\xff\x00\x01"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	base := string(examples[0][1])
	for i, e := range examples {
		study := base
		for _, key := range topLevel(string(e[1])) {
			study = without(study, strings.SplitN(key, ":", 2)[0]) + key
		}
		file := filepath.Join(dir, "study.yaml")
		if err := os.WriteFile(file, []byte(study), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, complaints bytes.Buffer
		env := command.Env{Args: []string{"plan", file}, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &complaints, Now: time.Now}
		if code := cli.Main(t.Context(), env, catalog(dir)); code != 0 || !strings.Contains(out.String(), "digest") {
			t.Errorf("example %d: exit code %d\n%s\n%s", i+1, code, complaints.String(), study)
		}
	}
}

// TestReadmeIsComplete looks for every command and every plug-in in the README.
func TestReadmeIsComplete(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	env := command.Env{Args: []string{"help"}, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Now: time.Now}
	known := catalog(t.TempDir())
	if code := cli.Main(t.Context(), env, known); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out.String())
	}
	commands := regexp.MustCompile(`(?m)^  ([a-z]+) {2,}[A-Z]`).FindAllStringSubmatch(out.String(), -1)
	if len(commands) < 20 {
		t.Fatalf("%d commands:\n%s", len(commands), out.String())
	}
	for _, c := range commands {
		if !regexp.MustCompile("`(windtunnel )?" + c[1] + "[ `]").Match(readme) {
			t.Errorf("the README lacks the command %s", c[1])
		}
	}
	for _, l := range known.Layers {
		if !bytes.Contains(readme, []byte("`"+l.Name+"`")) {
			t.Errorf("the README lacks the layer %s", l.Name)
		}
	}
	for _, a := range known.Apps {
		if !bytes.Contains(readme, []byte("`"+a.Name+"`")) {
			t.Errorf("the README lacks the app %s", a.Name)
		}
	}
}

// topLevel splits YAML at the keys that are not indented.
func topLevel(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if line[0] != ' ' || len(all) == 0 {
			all = append(all, line)
			continue
		}
		all[len(all)-1] += line
	}
	return all
}

// without leaves out a key that is not indented.
func without(text, key string) string {
	var b strings.Builder
	for _, k := range topLevel(text) {
		if !strings.HasPrefix(k, key+":") {
			b.WriteString(k)
		}
	}
	return b.String()
}
