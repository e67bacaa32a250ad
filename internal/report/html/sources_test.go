package html_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/report"
)

// digest is web/scripts/digest.ts in Go: one line a source, its path and hash.
func digest(t *testing.T) string {
	t.Helper()
	paths := []string{"index.html", "package-lock.json", "scripts/digest.ts", "scripts/notices.ts", "tsconfig.json", "vite.config.ts"}
	err := fs.WalkDir(os.DirFS(web), "src", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(paths)
	var lines strings.Builder
	for _, path := range paths {
		text, err := os.ReadFile(filepath.Join(web, path))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&lines, "%s %x\n", path, sha256.Sum256(text))
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(lines.String())))
}

func TestPageIsBuiltFromTheSources(t *testing.T) {
	t.Parallel()
	page := string(write(t, &report.Model{}))
	if want := `name="windtunnel-sources" content="` + digest(t) + `"`; !strings.Contains(page, want) {
		t.Errorf("page.html does not come from the sources in web/: run `npm ci && npm run build` there\nwant %s", want)
	}
}

// The policy must allow the page's own script, by hash, and nothing from
// anywhere else.
func TestPolicy(t *testing.T) {
	t.Parallel()
	page := string(write(t, &report.Model{}))
	policy := regexp.MustCompile(`http-equiv="Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(page)
	if policy == nil {
		t.Fatal("the page has no content security policy")
	}
	script := regexp.MustCompile(`(?s)<script>(.*?)</script>`).FindStringSubmatch(page)
	if script == nil {
		t.Fatal("the page has no script")
	}
	sum := sha256.Sum256([]byte(script[1]))
	want := "default-src 'none'; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
	if diff := cmp.Diff(want, policy[1]); diff != "" {
		t.Errorf("the policy (-want +got):\n%s", diff)
	}
	if found := regexp.MustCompile(`<(link|iframe|object|embed|img|base)\b|\ssrc="https?:`).FindString(page); found != "" {
		t.Errorf("the page loads something: %s", found)
	}
}

// web/src/model.ts must say of every struct what Go says: field by field,
// optional where Go omits it.
func TestTypeScriptMirrorsTheModel(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join(web, "src/model.ts"))
	if err != nil {
		t.Fatal(err)
	}
	got := interfaces(string(raw))
	want := map[string][]string{}
	collect(reflect.TypeFor[report.Model](), want)
	collect(reflect.TypeFor[model.Finding](), want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("web/src/model.ts differs from the Go model (-Go +TypeScript):\n%s", diff)
	}
}

// interfaces lists "name" or "name?" of every field, by interface.
func interfaces(source string) map[string][]string {
	field := regexp.MustCompile(`(?m)^  (\w+\??):`)
	out := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?s)export interface (\w+) \{(.*?)\n\}`).FindAllStringSubmatch(source, -1) {
		for _, f := range field.FindAllStringSubmatch(m[2], -1) {
			out[m[1]] = append(out[m[1]], f[1])
		}
	}
	return out
}

// collect adds the JSON fields of a struct and of all structs inside it.
func collect(t reflect.Type, out map[string][]string) {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Array || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t.PkgPath() == "time" || out[t.Name()] != nil {
		return
	}
	var fields []string
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if strings.Contains(options, "omitempty") {
			name += "?"
		}
		fields = append(fields, name)
	}
	out[t.Name()] = fields
	for f := range t.Fields() {
		if f.Tag.Get("json") != "-" {
			collect(f.Type, out)
		}
	}
}
