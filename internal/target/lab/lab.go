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
	"hash/fnv"
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

	mu      sync.Mutex
	inside  bool
	id      string
	dir     string // of this lab, inside stateDir
	lock    *os.File
	cgroups *sys.Cgroups
	group   *sys.Cgroup // of this lab; nil: none
	noGroup string      // why there are no cgroups
	sites   int
	present *site // made last, if it is still there

	measured measured // links

	bring   func() (*os.File, error)
	brought *os.File

	awake *sys.Awake // nil: idle CPUs do as they like
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

// Bring makes Enter open a file outside and hand it on to the inside, where
// Brought returns it: a listener of the host's network, which the inside has not.
func (t *Target) Bring(open func() (*os.File, error)) { t.bring = open }

// Brought is what was brought to the inside; nil: nothing was.
func (t *Target) Brought() *os.File { return t.brought }

// Enter runs this whole program again inside namespaces of its own, or says
// that it is there already. What killed runs have left is swept before and
// after.
func (t *Target) Enter(ctx context.Context) (inside bool, code int, err error) {
	if h, inside := sys.Inside(); inside {
		return true, 0, t.settle(h)
	}
	if err = sys.PrivateDir(t.stateDir); err != nil {
		return false, 0, fmt.Errorf("making the lab's state folder: %w", err)
	}
	if _, err = t.Sweep(); err != nil {
		return false, 0, err
	}
	cpus, err := sys.Affinity()
	if err != nil {
		return false, 0, err
	}
	_, others := splitCPUs(cpus)
	h := sys.Handover{CPUs: cpus, StateDir: t.stateDir, Rootless: sys.Rootless()}
	if t.bring != nil {
		if h.Bring, err = t.bring(); err != nil {
			return false, 0, err
		}
		defer h.Bring.Close() //nolint:errcheck // the inside has its own
	}
	code, err = sys.Reexec(ctx, h, others)
	if err != nil {
		return false, 0, &model.UnsupportedError{
			What: "the lab", Missing: err.Error(),
			Hint: namespacesHint,
		}
	}
	_, err = t.Sweep()
	return false, code, err
}

const namespacesHint = "run as root, or allow user namespaces: sysctl kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000, " +
	"and on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0"

// settle makes the inside usable: mounts, loopback, cgroups, state.
func (t *Target) settle(h sys.Handover) error {
	t.brought = h.File()
	notes, err := sys.SettleInside()
	if err != nil {
		return err
	}
	t.stateDir = h.StateDir // found by who knew the user's real name
	t.host = describeHost(h.CPUs, h.Rootless)
	t.host.Notes = append(t.host.Notes, notes...)
	if err = t.claim(); err != nil {
		return err
	}
	if t.cgroups, err = sys.FindCgroups(); err == nil {
		t.group, err = t.cgroups.Lab(t.id)
	}
	if err != nil {
		t.noGroup = err.Error()
		t.host.Cgroups = "none: " + t.noGroup
	} else {
		t.host.Cgroups = "v" + strconv.Itoa(t.cgroups.Version)
	}
	t.inside = true
	return nil
}

// Host is what the trials run on: of this lab inside it, else what a lab would find.
func (t *Target) Host() model.Host {
	if t.inside {
		return t.host
	}
	cpus, err := sys.Affinity()
	h := describeHost(cpus, sys.Rootless())
	if err != nil {
		h.Notes = append(h.Notes, err.Error())
	}
	groups, err := sys.FindCgroups()
	if err != nil {
		h.Cgroups = "none: " + err.Error()
		return h
	}
	groups.RemoveParent()
	h.Cgroups = "v" + strconv.Itoa(groups.Version)
	return h
}

// KeepAwake keeps the host's idle CPUs from sleeping deeply until the lab is
// closed, or, where they may be drowsy, records that they were not. Inside only.
func (t *Target) KeepAwake(drowsy bool) {
	t.awake = sys.KeepAwake(drowsy)
	t.host.IdleCPUs = t.awake.String()
	if !t.awake.Held() && t.host.Virtualised != "" {
		t.host.Notes = append(t.host.Notes, "idle CPUs sleep: a virtual CPU that sleeps gives its place to others, and wakes up up to milliseconds late")
	}
}

// CPUDistance is how long the generator's CPU takes to read what another of a
// virtual machine has just written; 0: not known, or CPUs that stay where they are.
func (t *Target) CPUDistance() time.Duration {
	if t.host.Virtualised == "" {
		return 0
	}
	return sys.CPUDistance(t.host.GeneratorCPUs[0], t.host.OtherCPUs)
}

// Rest lets idle CPUs sleep for a while, as deep as they like. Inside only, once
// it is settled whether they are kept awake.
func (t *Target) Rest(ctx context.Context, d time.Duration) error { return t.awake.Rest(ctx, d) }

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
	return errors.Join(t.awake.Close(), t.removeGroups(), os.RemoveAll(t.dir), t.lock.Close())
}

// Provision makes every node and pod of the topology, in parallel over nodes.
func (t *Target) Provision(ctx context.Context, topology model.Topology) (model.Site, error) {
	if !t.inside {
		return nil, errors.New("provisioning a lab site from outside the lab: call Enter first")
	}
	if err := supported(topology); err != nil {
		return nil, err
	}
	s, err := t.newSite(topology)
	if err != nil {
		return nil, err
	}
	if err := s.build(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("making the site: %w", err), s.Close(context.WithoutCancel(ctx)))
	}
	t.show(s)
	return s, nil
}

func (t *Target) newSite(topology model.Topology) (*site, error) {
	t.mu.Lock()
	t.sites++
	name := "s" + strconv.Itoa(t.sites)
	t.mu.Unlock()
	s := &site{
		target: t, name: name, topology: topology, logs: map[string]*sys.Tail{},
		pods: map[string]*pod{}, services: map[string]model.Service{}, groups: map[string]*sys.Cgroup{},
	}
	var err error
	if s.cgroup, err = t.group.Sub(name); err != nil {
		return nil, fmt.Errorf("making the site's cgroup: %w", err)
	}
	pods := 0
	for _, n := range topology.Nodes() {
		pods += len(n.Pods)
	}
	return s, errors.Join(t.group.Weigh(pods), s.cgroup.Weigh(pods))
}

func (t *Target) removeGroups() error {
	if t.group == nil {
		return nil
	}
	var errs []error
	for _, dir := range t.cgroups.Dirs(t.id) {
		errs = append(errs, sys.RemoveCgroup(dir))
	}
	t.cgroups.RemoveParent()
	return errors.Join(errs...)
}

// Sweep removes what killed labs have left in the state folder and among the
// cgroups, and says what it removed. Labs that live are not touched.
func (t *Target) Sweep() (removed []string, err error) {
	entries, err := os.ReadDir(t.stateDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for what killed runs left: %w", err)
	}
	lock, err := t.lockState()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	live := map[string]bool{}
	var errs []error
	for _, e := range entries {
		dir := filepath.Join(t.stateDir, e.Name())
		if !e.IsDir() {
			continue
		}
		if sys.Locked(filepath.Join(dir, lockFile)) {
			live[e.Name()] = true
			continue
		}
		errs = append(errs, os.RemoveAll(dir))
		removed = append(removed, dir)
	}
	groups, err := t.sweepGroups(live)
	return append(removed, groups...), errors.Join(append(errs, err)...)
}

func (t *Target) sweepGroups(live map[string]bool) (removed []string, err error) {
	groups, err := sys.FindCgroups()
	if err != nil {
		return nil, nil //nolint:nilerr // no cgroups: nothing can have been left there
	}
	var errs []error
	for _, name := range groups.Names() {
		if live[name] || !strings.HasPrefix(name, t.prefix()) {
			continue
		}
		for _, dir := range groups.Dirs(name) {
			errs = append(errs, sys.RemoveCgroup(dir))
		}
		removed = append(removed, "cgroup "+name)
	}
	groups.RemoveParent()
	return removed, errors.Join(errs...)
}

// lockState keeps others from sweeping a lab that is being claimed.
func (t *Target) lockState() (*os.File, error) {
	return sys.Lock(filepath.Join(t.stateDir, ".lock"))
}

// prefix begins the names of this state folder's labs, so that labs of other
// users and folders are left alone.
func (t *Target) prefix() string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(t.stateDir)) // never fails
	return fmt.Sprintf("lab-%08x-", sum.Sum32())
}

// claim makes the lab's own folder and holds its lock.
func (t *Target) claim() error {
	lock, err := t.lockState()
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // only a lock
	t.id = t.prefix() + strconv.FormatInt(time.Now().UnixNano(), 36)
	t.dir = filepath.Join(t.stateDir, t.id)
	if err = os.Mkdir(t.dir, 0o700); err != nil {
		return fmt.Errorf("making the lab's state folder: %w", err)
	}
	t.lock, err = sys.Lock(filepath.Join(t.dir, lockFile))
	return err
}

const lockFile = "lock"
