// Package lab is the target that makes a topology real on this host: nodes
// and pods are network namespaces, joined by veths and bridges, with processes
// in control groups.
//
// It is crash-only by construction. The whole program runs as process 1 of
// namespaces of its own (Enter); nodes' and pods' namespaces are held by its
// file descriptors. Whatever ends it, kill -9 included, the kernel removes
// links, routes, rules and processes; only control groups and a state folder
// are left, and Sweep removes those. The host's own network namespace is never
// touched, so root and rootless are the same code.
package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// Target makes sites on this host. Make one with New, and Enter before use.
type Target struct {
	stateDir string
	host     model.Host
	cpus     []int // all that this program was given

	mu      sync.Mutex
	inside  bool
	id      string
	dir     string // of this lab, inside stateDir
	lock    *os.File
	cgroups *sys.Cgroups
	noGroup string // why there are no cgroups
	notes   []string
	root    *sys.Netns
	sites   int
}

var (
	_ model.Target  = (*Target)(nil)
	_ model.Enterer = (*Target)(nil)
)

// New makes the target. stateDir holds what a killed run may leave; see
// StateDir for the usual one.
func New(stateDir string) *Target { return &Target{stateDir: stateDir} }

// StateDir is the usual state folder: /run/windtunnel for root, else
// windtunnel below runtimeDir ($XDG_RUNTIME_DIR) or a folder of the user's in
// the temporary folder.
func StateDir(uid int, runtimeDir string) string {
	switch {
	case uid == 0:
		return "/run/windtunnel"
	case runtimeDir != "":
		return filepath.Join(runtimeDir, "windtunnel")
	}
	return filepath.Join(os.TempDir(), "windtunnel-"+strconv.Itoa(uid))
}

// Enter runs this whole program again inside namespaces of its own, or says
// that it is there already. What killed runs have left is swept first.
func (t *Target) Enter(ctx context.Context) (inside bool, code int, err error) {
	if sys.Inside() {
		return true, 0, t.settle()
	}
	if err := makeStateDir(t.stateDir); err != nil {
		return false, 0, err
	}
	if _, err := t.Sweep(); err != nil {
		return false, 0, err
	}
	cpus, err := sys.Affinity()
	if err != nil {
		return false, 0, err
	}
	code, err = sys.Reexec(ctx, cpus)
	if err != nil {
		err = &model.UnsupportedError{
			What: "the lab", Missing: err.Error(),
			Hint: "run as root, or allow user namespaces: sysctl kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000",
		}
	}
	return false, code, err
}

// settle makes the inside usable: mounts, loopback, CPUs, cgroups, state.
func (t *Target) settle() error {
	notes, err := sys.SettleInside()
	if err != nil {
		return err
	}
	t.notes = notes
	if t.cpus, err = sys.Affinity(); err != nil {
		return err
	}
	t.host = describeHost(t.cpus)
	if err := sys.PinProcess(t.host.OtherCPUs); err != nil {
		return err
	}
	if err := t.claim(); err != nil {
		return err
	}
	if t.cgroups, err = sys.FindCgroups(); err != nil {
		t.noGroup = err.Error()
		t.host.Cgroups = "none: " + t.noGroup
	} else {
		t.host.Cgroups = "v" + strconv.Itoa(t.cgroups.Version)
	}
	t.host.Notes = append(t.host.Notes, t.notes...)
	if t.root, err = sys.OwnNetns(); err != nil {
		return err
	}
	t.inside = true
	return nil
}

// Host is what this lab runs on; only after Enter.
func (t *Target) Host() model.Host { return t.host }

// ID names this lab in the state folder and among the cgroups.
func (t *Target) ID() string { return t.id }

// Dir is the lab's folder of state; it is removed with the lab.
func (t *Target) Dir() string { return t.dir }

// Close removes the lab's state. Sites must be closed.
func (t *Target) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.inside {
		return nil
	}
	t.inside = false
	var errs []error
	if t.cgroups != nil {
		for _, dir := range t.cgroups.Dirs(t.id) {
			errs = append(errs, sys.RemoveCgroup(dir))
		}
	}
	errs = append(errs, os.RemoveAll(t.dir), t.lock.Close(), t.root.Close())
	return errors.Join(errs...)
}

// Provision makes every node and pod of the topology, in parallel over nodes.
func (t *Target) Provision(ctx context.Context, topology model.Topology) (model.Site, error) {
	if !t.inside {
		return nil, errors.New("provisioning a lab site from outside the lab: call Enter first")
	}
	if err := supported(topology); err != nil {
		return nil, err
	}
	t.mu.Lock()
	t.sites++
	name := "s" + strconv.Itoa(t.sites)
	t.mu.Unlock()
	s := &site{target: t, name: name, topology: topology, logs: map[string]*ring{}}
	if err := s.build(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("making the site: %w", err), s.Close(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// supported says what of a topology this lab cannot make.
func supported(t model.Topology) error {
	for _, l := range t.Links {
		if l.Delay != 0 || l.Jitter != 0 || l.Loss != 0 || l.Rate != 0 {
			return &model.UnsupportedError{
				What: fmt.Sprintf("the link %s-%s", l.A, l.B), Missing: "the lab does not emulate delay, jitter, loss or rate yet",
				Hint: "leave `links` out",
			}
		}
	}
	return nil
}

// Sweep removes what killed labs have left in the state folder and among the
// cgroups, and says what it removed. Labs that live are not touched.
func (t *Target) Sweep() (removed []string, err error) {
	live := map[string]bool{}
	entries, err := os.ReadDir(t.stateDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("looking for what killed runs left: %w", err)
	}
	var errs []error
	for _, e := range entries {
		dir := filepath.Join(t.stateDir, e.Name())
		if sys.Locked(filepath.Join(dir, lockFile)) {
			live[e.Name()] = true
			continue
		}
		errs = append(errs, os.RemoveAll(dir))
		removed = append(removed, dir)
	}
	groups, err := sys.FindCgroups()
	if err != nil {
		return removed, errors.Join(errs...) // no cgroups: nothing can have been left there
	}
	for _, name := range groups.Names() {
		if live[name] || !strings.HasPrefix(name, t.prefix()) {
			continue
		}
		for _, dir := range groups.Dirs(name) {
			errs = append(errs, sys.RemoveCgroup(dir))
		}
		removed = append(removed, "cgroup "+name)
	}
	return removed, errors.Join(errs...)
}

// prefix begins the names of this state folder's labs, so that labs of other
// users and folders are left alone.
func (t *Target) prefix() string {
	sum := uint32(2166136261)
	for _, b := range []byte(t.stateDir) {
		sum = (sum ^ uint32(b)) * 16777619
	}
	return fmt.Sprintf("lab-%08x-", sum)
}

func (t *Target) claim() error {
	t.id = t.prefix() + strconv.FormatInt(time.Now().UnixNano(), 36)
	t.dir = filepath.Join(t.stateDir, t.id)
	if err := os.Mkdir(t.dir, 0o700); err != nil {
		return fmt.Errorf("making the lab's state folder: %w", err)
	}
	var err error
	t.lock, err = sys.Lock(filepath.Join(t.dir, lockFile))
	return err
}

const lockFile = "lock"

func makeStateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the state folder: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("looking at the state folder: %w", err)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("the state folder %s can be written by others; remove it or fix its mode to 0700", dir)
	}
	return nil
}
