package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// searchPath is where pods' processes find programs.
const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

var errClosed = errors.New("the site is closed")

// pod is a namespace with one device.
type pod struct {
	site *site
	name string
	ns   *sys.Netns
	addr netip.Addr
}

// Name is the pod's name in the topology.
func (p *pod) Name() string { return p.name }

// Addr is the pod's address.
func (p *pod) Addr() netip.Addr { return p.addr }

// InNetwork runs f inside the pod's namespace.
func (p *pod) InNetwork(f func() error) error { return p.ns.Do(f) }

// job is a process to start, with what only the lab itself may ask for.
type job struct {
	model.Process
	stdio [3]*os.File // standard files that the process gets as they are
}

// Start runs a process in the pod; see model.Process.
func (p *pod) Start(ctx context.Context, spec model.Process) (model.Running, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("pod %s, process %s: %w", p.name, spec.Name, err)
	}
	r, err := p.start(job{Process: spec}) //nolint:contextcheck // the process outlives the call
	if err != nil {
		return nil, fmt.Errorf("pod %s, process %s: %w", p.name, spec.Name, err)
	}
	return r, nil
}

func (p *pod) start(j job) (*running, error) {
	s := p.site
	if len(j.Command) == 0 {
		return nil, errors.New("there is no command")
	}
	group, err := s.group(p.name, j.Process)
	if err != nil {
		return nil, err
	}
	r := &running{pod: p.name, name: j.Name, at: p, job: j}
	if r.dir, err = s.writeFiles(j.Files); err != nil {
		return nil, err
	}
	log := sys.NewTail(sys.LogLimit)
	cmd := sys.Command{
		Argv: expand(j.Command, r.dir), Env: append([]string{searchPath}, expand(j.Env, r.dir)...),
		Netns: p.ns, CPUs: s.cpus(j.Exclusive), Group: group, Output: log, Piped: j.Piped, Files: j.stdio,
	}
	if r.Process, err = sys.Start(cmd); err != nil {
		return nil, errors.Join(err, r.removeFiles())
	}
	return r, s.adopt(r, log)
}

// adopt makes a process the site's, to be ended with it.
func (s *site) adopt(r *running, log *sys.Tail) error {
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.procs = append(s.procs, r)
		s.logs[r.pod+"/"+r.name] = log
	}
	s.mu.Unlock()
	if !closed {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // no grace
	return errors.Join(errClosed, r.Stop(ctx))
}

// group returns the process's control group, below that of its component;
// nil where this host has none.
func (s *site) group(podName string, spec model.Process) (*sys.Cgroup, error) {
	ofPod, err := s.cgroup.Sub(podName)
	if err != nil {
		return nil, err
	}
	component, err := ofPod.Sub(string(spec.Component))
	if err != nil {
		return nil, err
	}
	g, err := component.Sub(spec.Name)
	if err != nil || g == nil {
		return nil, err
	}
	s.mu.Lock()
	s.groups[podName+"/"+string(spec.Component)] = component
	limits := s.limits[spec.Component]
	s.mu.Unlock()
	return g, errors.Join(component.Limit(limits.CPU, limits.Memory), g.Limit(spec.Limits.CPU, spec.Limits.Memory), g.Bind(s.cpus(spec.Exclusive)))
}

func (s *site) cpus(exclusive bool) []int {
	if exclusive {
		return s.target.host.GeneratorCPUs
	}
	return s.target.host.OtherCPUs
}

// writeFiles makes a private folder for a process's files; "" if it has none.
func (s *site) writeFiles(files map[string][]byte) (string, error) {
	if len(files) == 0 {
		return "", nil
	}
	s.mu.Lock()
	s.serial++
	dir := filepath.Join(s.target.dir, s.name+"-"+strconv.Itoa(s.serial))
	s.mu.Unlock()
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("making a process's folder: %w", err)
	}
	for name, data := range files {
		data = bytes.ReplaceAll(data, []byte("{dir}"), []byte(dir))
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return "", errors.Join(fmt.Errorf("writing a process's file: %w", err), os.RemoveAll(dir))
		}
	}
	return dir, nil
}

// expand replaces {self} by this program and {dir} by the process's folder.
func expand(args []string, dir string) []string {
	self, err := os.Executable()
	if err != nil {
		self = "/proc/self/exe"
	}
	r := strings.NewReplacer("{self}", self, "{dir}", dir)
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = r.Replace(a)
	}
	return out
}

// running is a process with its files.
type running struct {
	*sys.Process
	pod, name string
	at        *pod // where it was started: a pod, or a node in the form of one
	job       job
	dir       string
}

var (
	_ model.Running  = (*running)(nil)
	_ model.Finisher = (*running)(nil)
	_ model.Rewriter = (*running)(nil)
)

// Stop ends the process and removes its files.
func (r *running) Stop(ctx context.Context) error {
	return errors.Join(r.Process.Stop(ctx), r.removeFiles())
}

// ReadFile reads a file that the process has written to its folder; see
// model.Finisher. Only plain names and regular files: the folder is the
// process's, what a link in it names is not.
func (r *running) ReadFile(name string, limit int64) ([]byte, error) {
	if r.dir == "" || name != filepath.Base(name) {
		return nil, fmt.Errorf("process %s has no file %q in a folder of its own", r.name, name)
	}
	path := filepath.Join(r.dir, name)
	info, err := os.Lstat(path)
	if err != nil {
		return nil, fmt.Errorf("process %s: %w", r.name, err)
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, fmt.Errorf("process %s: %s is no regular file of at most %d bytes, but %s of %d", r.name, name, limit, info.Mode().Type(), info.Size())
	}
	return sys.ReadFile(path)
}

// WriteFile replaces a file of the process's folder by moving another one over
// it; see model.Rewriter.
func (r *running) WriteFile(name string, data []byte) error {
	if r.dir == "" || name != filepath.Base(name) {
		return fmt.Errorf("process %s has no folder of its own for a file %q", r.name, name)
	}
	path := filepath.Join(r.dir, name)
	if err := os.WriteFile(path+".new", bytes.ReplaceAll(data, []byte("{dir}"), []byte(r.dir)), 0o600); err != nil {
		return fmt.Errorf("writing a process's file: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("replacing a process's file: %w", err)
	}
	return nil
}

func (r *running) removeFiles() error {
	if r.dir == "" {
		return nil
	}
	return os.RemoveAll(r.dir)
}
