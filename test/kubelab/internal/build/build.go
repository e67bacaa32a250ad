// Package build builds a lab's programs and images from Go modules, once for
// each content of their sources.
package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/windtunnel/windtunnel/test/kubelab/internal/image"
)

// Kubernetes is the version of Kubernetes; it is also in build/hyperkube/go.mod.
const Kubernetes = "v1.35.4"

const containerdVersion = "2.2.9"

// Result is where the programs and images are.
type Result struct{ Bin, Images string }

type step struct {
	dir      string // below the module
	out      string // a file, or a folder with a slash
	tags     string
	ldflags  string
	packages []string
}

func steps() []step {
	version := "k8s.io/component-base/version"
	minor := strings.Split(Kubernetes, ".")[1]
	return []step{
		{dir: "build/hyperkube", out: "bin/hyperkube", packages: []string{"."}, ldflags: strings.Join([]string{
			"-X", version + ".gitVersion=" + Kubernetes, "-X", version + ".gitMajor=1", "-X", version + ".gitMinor=" + minor,
			"-X", version + ".gitTreeState=clean", "-X", version + ".buildDate=2026-01-01T00:00:00Z",
		}, " ")},
		{
			dir: "build/containerd", out: "bin/", tags: "no_btrfs,no_devmapper,no_zfs,no_aufs,no_tracing",
			ldflags: "-X github.com/containerd/containerd/v2/version.Version=" + containerdVersion,
			packages: []string{
				"github.com/containerd/containerd/v2/cmd/containerd",
				"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
				"github.com/containerd/containerd/v2/cmd/ctr",
			},
		},
		{dir: "build/containerd", out: "bin/cni/", packages: []string{
			"github.com/containernetworking/plugins/plugins/ipam/host-local",
			"github.com/containernetworking/plugins/plugins/main/loopback",
			"github.com/containernetworking/plugins/plugins/main/ptp",
			"github.com/containernetworking/plugins/plugins/meta/portmap",
		}},
		{dir: "build/coredns", out: "pods/coredns", packages: []string{"."}},
		{dir: ".", out: "pods/", packages: []string{"./pods/pause", "./pods/echo"}},
	}
}

// components are the names by which hyperkube is called.
func components() []string {
	return []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"}
}

// Ensure builds what is missing. The source is the folder of this module.
func Ensure(ctx context.Context, source, cache string, log *slog.Logger) (Result, error) {
	key, err := Key(ctx, source)
	if err != nil {
		return Result{}, err
	}
	dir := filepath.Join(cache, key)
	built := Result{Bin: dir + "/bin", Images: dir + "/images"}
	if _, err = os.Stat(dir); err == nil {
		return built, nil
	}
	if err = os.MkdirAll(cache, 0o755); err != nil {
		return Result{}, fmt.Errorf("making the cache: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(cache, "lock"))
	if err != nil {
		return Result{}, err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return built, nil
	}
	log.Info("building Kubernetes, containerd and CoreDNS: ten minutes of CPU time if nothing is cached", "into", dir)
	half := filepath.Join(cache, "half")
	if err := os.RemoveAll(half); err != nil {
		return Result{}, fmt.Errorf("removing a half-made build: %w", err)
	}
	if err := all(ctx, source, half, log); err != nil {
		return Result{}, err
	}
	if err := os.Rename(half, dir); err != nil {
		return Result{}, fmt.Errorf("naming the build: %w", err)
	}
	return built, nil
}

func all(ctx context.Context, source, dir string, log *slog.Logger) error {
	for _, s := range steps() {
		begun := time.Now()
		if err := compile(ctx, source, dir, s); err != nil {
			return err
		}
		log.Info("built", "what", s.dir, "into", s.out, "seconds", int(time.Since(begun).Seconds()))
	}
	for _, name := range components() {
		if err := os.Symlink("hyperkube", filepath.Join(dir, "bin", name)); err != nil {
			return fmt.Errorf("linking %s: %w", name, err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "images"), 0o755); err != nil {
		return fmt.Errorf("making a folder for images: %w", err)
	}
	for _, name := range []string{"pause", "coredns", "echo"} {
		binary, err := os.ReadFile(filepath.Join(dir, "pods", name))
		if err != nil {
			return fmt.Errorf("reading a pod's program: %w", err)
		}
		if err := writeImage(filepath.Join(dir, "images", name+".tar"), name, binary); err != nil {
			return err
		}
	}
	return nil
}

func writeImage(path, name string, binary []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("making an image: %w", err)
	}
	err = image.Write(f, "local.test/"+name+":1", name, binary)
	return errors.Join(err, f.Close())
}

func compile(ctx context.Context, source, dir string, s step) error {
	out := filepath.Join(dir, s.out)
	if strings.HasSuffix(s.out, "/") {
		out += "/"
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return fmt.Errorf("making a folder for programs: %w", err)
	}
	args := append([]string{
		"build", "-C", filepath.Join(source, s.dir), "-trimpath", "-buildvcs=false", "-tags", s.tags,
		"-ldflags", strings.TrimSpace("-s -w " + s.ldflags), "-o", out,
	}, s.packages...)
	// A build is long and nobody waits for it at the keyboard: others go first.
	command := exec.CommandContext(ctx, "nice", append([]string{"-n", "10", "go"}, args...)...)
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if text, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", s.dir, err, text)
	}
	return nil
}

// Key identifies what Ensure would build: the sources, the steps, and Go.
func Key(ctx context.Context, source string) (string, error) {
	version, err := exec.CommandContext(ctx, "go", "env", "GOVERSION", "GOARCH").Output()
	if err != nil {
		return "", fmt.Errorf("asking for Go's version (is it installed, and in PATH?): %w", err)
	}
	parts := fmt.Appendf(nil, "%s%+v%v", version, steps(), components())
	files, err := sources(source)
	if err != nil {
		return "", err
	}
	for _, name := range files {
		data, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return "", fmt.Errorf("reading the sources: %w", err)
		}
		parts = fmt.Appendf(parts, "%s %d\n%s", name, len(data), data)
	}
	sum := sha256.Sum256(parts)
	return hex.EncodeToString(sum[:])[:16], nil
}

// sources lists what the programs are built from: the modules below build and
// the programs below pods.
func sources(source string) ([]string, error) {
	var files []string
	for _, dir := range []string{"build", "pods"} {
		err := filepath.WalkDir(filepath.Join(source, dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			name, err := filepath.Rel(source, path)
			files = append(files, name)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("%s is not the folder test/kubelab (set KUBELAB_SOURCE, or run this where the repository is): %w", source, err)
		}
	}
	slices.Sort(files)
	return files, nil
}

// lock waits until no other build runs with this cache.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the cache's lock: %w", err)
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("locking the cache: %w", err), f.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), f.Close())
		case <-time.After(time.Second):
		}
	}
}
