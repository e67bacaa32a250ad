// Command istio builds Istio for the tests of real clusters: istiod and
// pilot-agent from Istio's Go module, images of them, and its charts as they
// are. The proxy is Envoy as its own project releases it, since Istio's build of
// it is in no package registry: see README.md for what that leaves out.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/image"
)

// Names of the images: hub and tag are values of the chart.
const (
	hub = "localhost/istio"
	tag = "windtunnel"
)

// version is what the programs say they are: Istio's module at a commit before
// 1.31, as in build/go.mod.
const version = "1.31-dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	envoy := flag.String("envoy", ".tools/envoy/envoy/_bin/envoy", "Envoy's `executable`")
	out := flag.String("o", "bin/istio", "`folder` to make: images, and charts")
	source := flag.String("source", "test/istio/build", "`folder` of the Go module that has Istio's version")
	flag.Parse()
	b := builder{out: *out, source: *source, envoy: *envoy, log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	err := b.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "istio:", err)
		os.Exit(1)
	}
}

type builder struct {
	out, source, envoy string
	log                *slog.Logger
}

// run builds what is missing: the folder says of what it was built.
func (b builder) run(ctx context.Context) error {
	key, err := b.key(ctx)
	if err != nil {
		return err
	}
	if is, failure := os.ReadFile(filepath.Join(b.out, "key")); failure == nil && string(is) == key {
		return nil
	}
	half := b.out + ".half"
	if err = errors.Join(os.RemoveAll(half), os.MkdirAll(half, 0o755)); err != nil {
		return err
	}
	for _, step := range []func(context.Context, string) error{b.compile, b.charts, b.pilot, b.proxy} {
		if err = step(ctx, half); err != nil {
			return err
		}
	}
	if err = os.WriteFile(filepath.Join(half, "key"), []byte(key), 0o644); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(b.out), os.Rename(half, b.out))
}

// key is of all that goes into the images.
func (b builder) key(ctx context.Context) (string, error) {
	sum := sha256.New()
	goVersion, err := exec.CommandContext(ctx, "go", "env", "GOVERSION", "GOARCH").Output()
	if err != nil {
		return "", fmt.Errorf("asking for Go's version (is it installed, and in PATH?): %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	_, _ = fmt.Fprintf(sum, "%s %s\n", goVersion, version) // a hash takes everything
	tools, err := iptables()
	if err != nil {
		return "", err
	}
	for _, path := range append([]string{self, b.envoy, filepath.Join(b.source, "go.mod"), filepath.Join(b.source, "go.sum")}, tools...) {
		content, failure := os.ReadFile(path)
		if failure != nil {
			return "", fmt.Errorf("reading what images are made of (`make envoy` installs Envoy): %w", failure)
		}
		_, _ = fmt.Fprintf(sum, "%d\n", len(content))
		_, _ = sum.Write(content)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// compile builds istiod and pilot-agent, static.
func (b builder) compile(ctx context.Context, dir string) error {
	begun := time.Now()
	b.log.Info("building istiod and pilot-agent: about ten minutes of CPU time if nothing is cached")
	where, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	// A build is long and nobody waits for it at the keyboard: others go first.
	cmd := exec.CommandContext(ctx, "nice", "-n", "10", "go", "build", "-C", b.source, "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X istio.io/istio/pkg/version.buildVersion="+version, "-o", where+"/",
		"istio.io/istio/pilot/cmd/pilot-discovery", "istio.io/istio/pilot/cmd/pilot-agent")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building Istio: %w\n%s", err, text)
	}
	b.log.Info("built", "seconds", int(time.Since(begun).Seconds()))
	return nil
}

// module is the folder of Istio's own sources.
func (b builder) module(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-C", b.source, "-m", "-f", "{{.Dir}}", "istio.io/istio").Output()
	if err != nil {
		return "", fmt.Errorf("finding the sources of Istio: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// charts copies upstream's charts, unchanged, to folders with their own names.
func (b builder) charts(ctx context.Context, dir string) error {
	from, err := b.module(ctx)
	if err != nil {
		return err
	}
	for name, path := range map[string]string{"base": "base", "istiod": "istio-control/istio-discovery"} {
		if err := os.CopyFS(filepath.Join(dir, "charts", name), os.DirFS(filepath.Join(from, "manifests", "charts", path))); err != nil {
			return fmt.Errorf("copying the chart %s: %w", name, err)
		}
	}
	return nil
}

// istio is Istio's user in its own images, as its charts expect.
const istio = "1337:1337"

func (b builder) pilot(_ context.Context, dir string) error {
	program, err := contents(map[string]string{"usr/local/bin/pilot-discovery": filepath.Join(dir, "pilot-discovery")})
	if err != nil {
		return err
	}
	return write(dir, "pilot", "/usr/local/bin/pilot-discovery", program)
}

// proxy is the image of sidecars and of the init containers that redirect to
// them: Envoy and iptables with the libraries that they need on this host.
func (b builder) proxy(ctx context.Context, dir string) error {
	from, err := b.module(ctx)
	if err != nil {
		return err
	}
	files := map[string]string{
		"usr/local/bin/pilot-agent":                     filepath.Join(dir, "pilot-agent"),
		"usr/local/bin/envoy":                           b.envoy,
		"var/lib/istio/envoy/envoy_bootstrap_tmpl.json": filepath.Join(from, "tools/packaging/common/envoy_bootstrap.json"),
	}
	tools, err := iptables()
	if err != nil {
		return err
	}
	for _, path := range tools {
		files[strings.TrimPrefix(path, "/")] = path
	}
	for _, program := range []string{b.envoy, tools[0]} {
		needs, failure := libraries(ctx, program)
		if failure != nil {
			return failure
		}
		for _, path := range needs {
			files[strings.TrimPrefix(path, "/")] = path
		}
	}
	all, err := contents(files)
	if err != nil {
		return err
	}
	return write(dir, "proxyv2", "/usr/local/bin/pilot-agent", append(all, links()...))
}

const iptablesProgram = "/usr/sbin/xtables-nft-multi"

// iptables are the program, first, and its extensions.
func iptables() ([]string, error) {
	extensions, err := filepath.Glob("/usr/lib/*/xtables/lib*.so")
	if err != nil || len(extensions) == 0 {
		return nil, errors.New("there are no extensions of iptables below /usr/lib: install Debian's package iptables")
	}
	slices.Sort(extensions)
	return append([]string{iptablesProgram}, extensions...), nil
}

// links are the names by which pilot-agent calls iptables.
func links() (all []image.File) {
	for _, name := range []string{"iptables-nft", "ip6tables-nft"} {
		for _, ending := range []string{"", "-save", "-restore"} {
			all = append(all, image.File{Path: "usr/sbin/" + name + ending, Mode: 0o777, Target: filepath.Base(iptablesProgram)})
		}
	}
	return all
}

// libraries are the shared libraries of a program, and its loader, where this
// host has them.
func libraries(ctx context.Context, program string) (paths []string, err error) {
	out, err := exec.CommandContext(ctx, "ldd", program).Output()
	if err != nil {
		return nil, fmt.Errorf("listing the libraries of %s: %w", program, err)
	}
	return loaded(string(out))
}

// loaded reads what ldd says.
func loaded(text string) (paths []string, err error) {
	for line := range strings.Lines(text) {
		name, where, found := strings.Cut(strings.TrimSpace(line), " => ")
		if !found {
			where = name // the loader; and the kernel's own, which has no path
		}
		path, _, _ := strings.Cut(where, " (")
		switch {
		case strings.HasPrefix(path, "/"):
			paths = append(paths, path)
		case found:
			return nil, fmt.Errorf("the library %s is %s", name, where)
		}
	}
	return paths, nil
}

// contents reads files, by their paths in an image.
func contents(files map[string]string) (all []image.File, err error) {
	for path, from := range files {
		content, err := os.ReadFile(from)
		if err != nil {
			return nil, fmt.Errorf("reading what an image is made of: %w", err)
		}
		all = append(all, image.File{Path: path, Mode: 0o755, Content: content})
	}
	slices.SortFunc(all, func(a, b image.File) int { return strings.Compare(a.Path, b.Path) })
	return all, nil
}

func write(dir, name, entrypoint string, files []image.File) error {
	f, err := os.Create(filepath.Join(dir, name+".tar"))
	if err != nil {
		return fmt.Errorf("making an image: %w", err)
	}
	err = image.Image{
		Name: hub + "/" + name + ":" + tag, Architecture: runtime.GOARCH, Entrypoint: entrypoint, Title: "Istio's " + name, User: istio,
		Env: []string{"PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, Files: files,
	}.Write(f)
	return errors.Join(err, f.Close())
}
