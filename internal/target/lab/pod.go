package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sample/cgroup"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// searchPath is where pods' processes find programs.
const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// pod is a namespace with one device.
type pod struct {
	site *site
	node *node
	name string
	ns   *sys.Netns
	addr netip.Addr
}

func (p *pod) configure() error {
	net, err := sys.OpenNet(p.ns)
	if err != nil {
		return err
	}
	defer net.Close()
	if err := net.LoopbackUp(); err != nil {
		return err
	}
	eth0, err := net.Configure("eth0", netip.PrefixFrom(p.addr, podBits))
	if err != nil {
		return err
	}
	return net.Route(eth0, netip.Prefix{}, hostAddr(p.node.pods, 1))
}

// Name is the pod's name in the topology.
func (p *pod) Name() string { return p.name }

// Addr is the pod's address.
func (p *pod) Addr() netip.Addr { return p.addr }

// InNetwork runs f inside the pod's namespace.
func (p *pod) InNetwork(f func() error) error { return p.ns.Do(f) }

// Start runs a process in the pod; see model.Process.
func (p *pod) Start(_ context.Context, spec model.Process) (model.Running, error) {
	s := p.site
	group, err := s.group(p.name, spec)
	if err != nil {
		return nil, err
	}
	log := &ring{max: maxLogBytes}
	r := &running{}
	if r.dir, err = s.writeFiles(spec.Files); err != nil {
		return nil, err
	}
	cmd := sys.Command{
		Argv: s.expand(spec.Command, r.dir), Env: append([]string{searchPath}, s.expand(spec.Env, r.dir)...),
		Netns: p.ns, CPUs: s.cpus(spec.Exclusive), Group: group, Output: log, Piped: spec.Piped,
	}
	if r.Process, err = sys.Start(cmd); err != nil {
		return nil, errors.Join(fmt.Errorf("pod %s, process %s: %w", p.name, spec.Name, err), r.removeFiles())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.procs = append(s.procs, r)
	s.logs[p.name+"/"+spec.Name] = log
	return r, nil
}

// group returns the component's control group, making it on first use; nil
// where this host has none.
func (s *site) group(podName string, spec model.Process) (*sys.Cgroup, error) {
	if s.target.cgroups == nil {
		return nil, nil //nolint:nilnil // no group is a valid group
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := podName + "/" + string(spec.Component)
	if g := s.groups[key]; g != nil {
		return g, nil
	}
	g, err := s.target.cgroups.New(filepath.Join(s.target.id, s.name, podName, string(spec.Component)), s.cpus(spec.Exclusive))
	if err != nil {
		return nil, err
	}
	s.groups[key] = g
	return g, g.Limit(spec.Limits.CPU, spec.Limits.Memory)
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
func (s *site) expand(args []string, dir string) []string {
	self, err := os.Executable()
	if err != nil {
		self = "/proc/self/exe"
	}
	out := slices.Clone(args)
	for i := range out {
		out[i] = strings.NewReplacer("{self}", self, "{dir}", dir).Replace(out[i])
	}
	return out
}

func componentSamplers(groups map[string]*sys.Cgroup) []model.Sampler {
	var all []model.Sampler
	for subject, g := range groups {
		all = append(all, cgroup.Sampler{Subject: subject, Group: g})
	}
	slices.SortFunc(all, func(a, b model.Sampler) int { return strings.Compare(subject(a), subject(b)) })
	return all
}

func subject(s model.Sampler) string {
	if c, ok := s.(cgroup.Sampler); ok {
		return c.Subject
	}
	return ""
}

// running is a process with its files.
type running struct {
	*sys.Process
	dir string
}

var _ model.Running = (*running)(nil)

// Stop ends the process and removes its files.
func (r *running) Stop(ctx context.Context) error {
	return errors.Join(r.Process.Stop(ctx), r.removeFiles())
}

func (r *running) removeFiles() error {
	if r.dir == "" {
		return nil
	}
	return os.RemoveAll(r.dir)
}

// maxLogBytes is how much of a process's output is kept: its end.
const maxLogBytes = 256 << 10

// ring keeps the last max bytes written to it.
type ring struct {
	mu  sync.Mutex
	max int
	buf []byte
}

var _ io.Writer = (*ring)(nil)

// Write keeps the end of what was written; it never fails.
func (r *ring) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buf = append(r.buf, b...)
	if len(r.buf) > 2*r.max {
		r.buf = append(r.buf[:0], r.buf[len(r.buf)-r.max:]...)
	}
	return len(b), nil
}

// Bytes is a copy of what is kept.
func (r *ring) Bytes() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.buf[max(0, len(r.buf)-r.max):])
}
