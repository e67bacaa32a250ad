package archtest

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/windtunnel/windtunnel"

const (
	maxFileLines = 500
	maxFuncLines = 70
	maxDepth     = 7
)

// layers is the whole architecture: what each component may import of ours.
// A component name ending in "/" stands for every package below it.
func layers() map[string][]string {
	return map[string][]string{
		"internal/breakdown": {"internal/model"},

		"internal/hist":       {},
		"internal/model":      {"internal/hist"},
		"internal/sys":        {"internal/model"},
		"internal/sys/":       {"internal/model", "internal/sys"},
		"internal/stats":      {"internal/hist"},
		"internal/metric":     {"internal/model", "internal/hist"},
		"internal/study":      {"internal/model"},
		"internal/search":     {"internal/model"},
		"internal/parallel":   {},
		"internal/placement":  {"internal/model"},
		"internal/feature":    {"internal/model"},
		"internal/monitor":    {"internal/model", "internal/hist", "internal/metric", "internal/agent"},
		"internal/plan":       {"internal/model", "internal/study", "internal/search"},
		"internal/store":      {"internal/model", "internal/hist"},
		"internal/h2":         {},
		"internal/openflow":   {},
		"internal/echopb":     {},
		"internal/flow":       {"internal/sys"},
		"internal/load":       {"internal/model", "internal/hist"},
		"internal/load/":      {"internal/model", "internal/hist", "internal/sys", "internal/load", "internal/flow", "internal/h2", "internal/echopb"},
		"internal/agent":      {"internal/model", "internal/hist", "internal/load"},
		"internal/ingest":     {"internal/model", "internal/hist"},
		"internal/ingest/":    {"internal/model", "internal/hist", "internal/ingest"},
		"internal/driver":     {"internal/model", "internal/sys", "internal/load", "internal/ingest"},
		"internal/driver/":    {"internal/model", "internal/driver", "internal/ingest/"},
		"internal/runner":     {"internal/model", "internal/plan", "internal/agent", "internal/hist", "internal/metric", "internal/search", "internal/driver", "internal/breakdown"},
		"internal/audit":      {"internal/model", "internal/hist", "internal/stats", "internal/metric", "internal/ingest"},
		"internal/claims":     {"internal/model", "internal/hist", "internal/stats", "internal/metric", "internal/ingest", "internal/audit"},
		"internal/report":     {"internal/model", "internal/hist", "internal/stats", "internal/metric", "internal/plan", "internal/store", "internal/audit"},
		"internal/report/":    {"internal/model", "internal/hist", "internal/metric", "internal/report"},
		"internal/simulate":   {"internal/model", "internal/hist", "internal/stats", "internal/plan", "internal/store"},
		"internal/manifest":   {"internal/model", "internal/plan", "internal/store"},
		"internal/transfer":   {"internal/metric", "internal/report"},
		"internal/compare":    {"internal/model", "internal/stats", "internal/metric", "internal/store", "internal/report", "internal/manifest"},
		"internal/history":    {"internal/stats", "internal/metric", "internal/store", "internal/report", "internal/manifest"},
		"internal/sample/":    {"internal/model", "internal/hist", "internal/sys", "internal/sys/"},
		"internal/podside":    {"internal/sys"},
		"internal/image":      {},
		"internal/oci":        {"internal/model"},
		"internal/target/":    {"internal/parallel", "internal/podside", "internal/model", "internal/hist", "internal/sys", "internal/sys/", "internal/sample/"},
		"internal/network":    {"internal/model", "internal/sys", "internal/sys/"},
		"internal/across":     {"internal/model"},
		"internal/proxy":      {"internal/model", "internal/sys", "internal/sys/", "internal/oci"},
		"internal/layer/":     {"internal/parallel", "internal/model", "internal/hist", "internal/sys", "internal/sys/", "internal/network", "internal/proxy", "internal/oci", "internal/openflow", "internal/across"},
		"internal/impair":     {"internal/model", "internal/sys"},
		"internal/fault/":     {"internal/parallel", "internal/model", "internal/hist", "internal/sys", "internal/impair"},
		"internal/hop":        {"internal/model", "internal/sys", "internal/impair"},
		"internal/app/":       {"internal/model", "internal/hist", "internal/sys", "internal/flow", "internal/echopb", "internal/hop", "internal/impair"},
		"internal/command":    {"internal/model"},
		"internal/generator":  {"internal/command", "internal/model", "internal/study", "internal/agent", "internal/load", "internal/summary", "internal/hist", "internal/metric", "internal/store", "internal/sys"},
		"internal/cli":        {"internal/command", "internal/generator", "internal/transfer", "internal/monitor", "internal/podside", "internal/model", "internal/study", "internal/plan", "internal/agent", "internal/load", "internal/driver", "internal/ingest", "internal/hist", "internal/runner", "internal/store", "internal/stats", "internal/metric", "internal/report", "internal/manifest", "internal/compare", "internal/history", "internal/audit", "internal/claims", "internal/feature", "internal/placement"},
		"internal/summary":    {"internal/model", "internal/hist", "internal/metric", "internal/audit"},
		"internal/ingesttest": {"internal/ingest", "internal/model"},
		"internal/labtest":    {"internal/"},
		"internal/archtest":   {},
		"studies":             {},
		"cmd/windtunnel":      {"internal/", "studies"},
		"cmd/image":           {"internal/image"},
		"test/e2e":            {},
		"test/vm":             {},
		"test/istio":          {"internal/image"},
		"bench/engine":        {"internal/"},
		"bench/layers":        {},
		"bench/prove":         {"internal/"},
	}
}

// pure packages compute; they never touch the outside world.
func pure() []string {
	return []string{"internal/hist", "internal/stats", "internal/plan", "internal/model", "internal/metric", "internal/audit", "internal/claims", "internal/search", "internal/breakdown"}
}

func impure() []string {
	return []string{"os", "os/exec", "net", "net/http", "syscall", "log", "log/slog"}
}

// plugins are the folders whose sub-folders are plug-ins.
func plugins() []string {
	return []string{"layer", "target", "load", "app", "report", "driver", "ingest", "fault"}
}

type pkg struct {
	ImportPath string
	Dir        string
	Imports    []string
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func load(t *testing.T) map[string]pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-tags", "kube", "-json=ImportPath,Dir,Imports", "./...")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	pkgs := map[string]pkg{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs[strings.TrimPrefix(p.ImportPath, module+"/")] = p
	}
}

func matches(rule, name string) bool {
	return rule == name || strings.HasSuffix(rule, "/") && strings.HasPrefix(name, rule)
}

func component(name string) (string, bool) {
	if _, ok := layers()[name]; ok {
		return name, true
	}
	for rule := range layers() {
		if matches(rule, name) {
			return rule, true
		}
	}
	return "", false
}

func TestLayers(t *testing.T) {
	t.Parallel()
	for name, p := range load(t) {
		rule, ok := component(name)
		if !ok {
			t.Errorf("%s: no layer; add it to the table with the reason in an ADR", name)
			continue
		}
		for _, imp := range p.Imports {
			ours, ok := strings.CutPrefix(imp, module+"/")
			if !ok {
				if slices.Contains(pure(), name) && slices.Contains(impure(), imp) {
					t.Errorf("%s is pure and must not import %q", name, imp)
				}
				continue
			}
			if !slices.ContainsFunc(layers()[rule], func(r string) bool { return matches(r, ours) }) {
				t.Errorf("%s must not import %s (allowed: %v)", name, ours, layers()[rule])
			}
		}
	}
}

func TestDepth(t *testing.T) {
	t.Parallel()
	pkgs := load(t)
	var depth func(name string) int
	depth = func(name string) int {
		deepest := 0
		for _, imp := range pkgs[name].Imports {
			if ours, ok := strings.CutPrefix(imp, module+"/"); ok {
				deepest = max(deepest, depth(ours)+1)
			}
		}
		return deepest
	}
	for name := range pkgs {
		if d := depth(name); d > maxDepth {
			t.Errorf("%s: import depth %d, at most %d", name, d, maxDepth)
		}
	}
}

func TestCatalogIsComplete(t *testing.T) {
	t.Parallel()
	imports := load(t)["cmd/windtunnel"].Imports
	for _, kind := range plugins() {
		entries, err := os.ReadDir(filepath.Join(root(t), "internal", kind))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			path := module + "/internal/" + kind + "/" + e.Name()
			if e.IsDir() && e.Name() != "testdata" && !slices.Contains(imports, path) {
				t.Errorf("%s is neither in cmd/windtunnel/catalog.go nor in generator.go", path)
			}
		}
	}
}

func TestPluginReadme(t *testing.T) {
	t.Parallel()
	for _, kind := range plugins() {
		files, err := filepath.Glob(filepath.Join(root(t), "internal", kind, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range files {
			if strings.HasSuffix(dir, ".go") || filepath.Base(dir) == "testdata" {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, "README.md"))
			if err != nil {
				t.Errorf("plug-in without README.md: %v", err)
				continue
			}
			for _, section := range []string{"## Name", "## Config", "## Example"} {
				if !strings.Contains(string(text), section) {
					t.Errorf("%s/README.md: no section %q", dir, section)
				}
			}
		}
	}
}

func TestPackageDocsAndSizes(t *testing.T) {
	t.Parallel()
	docs := map[string]int{}
	err := filepath.WalkDir(root(t), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		dir := filepath.Dir(path)
		docs[dir] += 0
		if f.Doc != nil {
			docs[dir]++
		}
		if n := fset.File(f.Pos()).LineCount(); n > maxFileLines {
			t.Errorf("%s: %d lines, at most %d", path, n, maxFileLines)
		}
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1; n > maxFuncLines {
				t.Errorf("%s: func %s has %d lines, at most %d", path, fn.Name.Name, n, maxFuncLines)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir, n := range docs {
		if n != 1 {
			t.Errorf("%s: %d package comments, want 1", dir, n)
		}
	}
}
