package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/internal/cli"
	"github.com/windtunnel/windtunnel/internal/command"
	"github.com/windtunnel/windtunnel/studies"
)

// printed is what a command that works prints.
func printed(t *testing.T, args ...string) string {
	t.Helper()
	var out, complaints bytes.Buffer
	env := command.Env{Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &complaints, Now: time.Now}
	if code := cli.Main(t.Context(), env, catalog(t.TempDir())); code != 0 {
		t.Fatalf("%v: exit code %d\n%s", args, code, complaints.String())
	}
	return out.String()
}

func TestBuiltinStudies(t *testing.T) {
	t.Parallel()
	all := studies.List()
	files, err := filepath.Glob("../../studies/*.yaml")
	if err != nil || len(files) != len(all) {
		t.Errorf("%d studies are listed, of %d files; %v", len(all), len(files), err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(printed(t, "schema")))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err = c.AddResource("study.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("study.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range all {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			plan := printed(t, "plan", b.Name)
			if head := b.Name + "   " + b.Question; b.Question == "" || !strings.HasPrefix(plan, head+"\n") {
				t.Errorf("the list says %q, the plan begins %.100q", head, plan)
			}
			var doc any
			if err := yaml.Unmarshal(b.Data, &doc); err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(doc); err != nil && !factors(doc) {
				t.Error(err)
			}
		})
	}
}

// factors says whether a study has levels of factors in places where the schema
// of editors does not know them: anywhere but in names and stacks.
func factors(doc any) bool {
	study, _ := doc.(map[string]any)
	loads, _ := study["loads"].([]any)
	for _, l := range loads {
		if load, _ := l.(map[string]any); load["matrix"] != nil {
			return true
		}
	}
	return false
}
