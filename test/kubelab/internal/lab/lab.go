// Package lab starts, repairs and removes a lab.
package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"syscall"
	"time"

	"github.com/windtunnel/windtunnel/test/kubelab/internal/build"
	"github.com/windtunnel/windtunnel/test/kubelab/internal/cgroup"
	"github.com/windtunnel/windtunnel/test/kubelab/internal/network"
	"github.com/windtunnel/windtunnel/test/kubelab/internal/pki"
	"github.com/windtunnel/windtunnel/test/kubelab/internal/plan"
	"github.com/windtunnel/windtunnel/test/kubelab/internal/proc"
	"github.com/windtunnel/windtunnel/test/kubelab/internal/unit"
)

// Lab is a lab with its folder.
type Lab struct {
	Name  string
	State string // its folder
	Log   *slog.Logger
}

// record is what a lab was started with.
type record struct {
	Plan  plan.Lab
	Built build.Result
}

// Kubeconfig is the path of the kubeconfig, with a context a cluster.
func (l Lab) Kubeconfig() string { return filepath.Join(l.State, "kubeconfig") }

func (l Lab) unit(name, part string) string { return filepath.Join(l.State, "units", name, part) }

// Plan is what the lab was started with.
func (l Lab) read() (record, error) {
	var r record
	data, err := os.ReadFile(filepath.Join(l.State, "lab.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, fmt.Errorf("no lab in %s: start one with `kubelab up` (make kubelab)", l.State)
	}
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		return record{}, fmt.Errorf("reading what the lab was started with: %w", err)
	}
	return r, nil
}

func (l Lab) write(r record) error {
	data, err := json.Marshal(r)
	if err == nil {
		err = os.WriteFile(filepath.Join(l.State, "lab.json"), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("noting what the lab is started with: %w", err)
	}
	return nil
}

// Up starts what does not run of a lab, and waits until it is usable.
func (l Lab) Up(ctx context.Context, want plan.Lab, built build.Result) error {
	if err := os.MkdirAll(l.State, 0o700); err != nil {
		return fmt.Errorf("making the lab's folder: %w", err)
	}
	unlock, err := l.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if old, missing := l.read(); missing == nil && !reflect.DeepEqual(old, record{want, built}) {
		l.Log.Info("the lab there is another one: removing it")
		if err = l.remove(ctx); err != nil {
			return err
		}
	}
	var specs []unit.Spec
	for _, step := range []func() error{
		func() error { return l.write(record{want, built}) },
		func() error { return saveSysctls(filepath.Join(l.State, "sysctls.json")) },
		func() error { return l.credentials(want) },
		func() error { specs, err = l.specs(want, built); return err },
		// What still runs in a namespace that lost its name would keep its links.
		func() error { return l.stopBroken(ctx, specs) },
		func() error { return network.Ensure(want) },
		func() error { return l.ensure(ctx, specs, built) },
		func() error { return l.await(ctx, want, built) },
	} {
		if err = step(); err != nil {
			return err
		}
	}
	return nil
}

// credentials makes the certificates and the kubeconfig.
func (l Lab) credentials(want plan.Lab) error {
	if err := os.MkdirAll(filepath.Join(l.State, "pki"), 0o700); err != nil {
		return fmt.Errorf("making a folder for certificates: %w", err)
	}
	var all []unit.Access
	for _, c := range want.Clusters {
		if err := pki.Ensure(l.pki(c), c, time.Now()); err != nil {
			return err
		}
		ca, err := pki.Read(l.pki(c), pki.CA)
		if err != nil {
			return err
		}
		admin, err := pki.Read(l.pki(c), pki.Admin)
		if err != nil {
			return err
		}
		all = append(all, unit.Access{Context: c.Name, Server: c.Server(), CA: ca.Cert, User: admin})
	}
	config, err := unit.Kubeconfig(all...)
	if err != nil {
		return err
	}
	if err := os.WriteFile(l.Kubeconfig(), config, 0o600); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return nil
}

func (l Lab) pki(c plan.Cluster) string { return filepath.Join(l.State, "pki", c.Name) }

func (l Lab) specs(want plan.Lab, built build.Result) ([]unit.Spec, error) {
	host, err := thisHost(built)
	if err != nil {
		return nil, err
	}
	var specs []unit.Spec
	for _, c := range want.Clusters {
		s, err := unit.ControlPlane(want, c, l.pki(c))
		if err != nil {
			return nil, err
		}
		specs = append(specs, s)
		for _, n := range c.Nodes {
			s, err := unit.Node(want, c, n, l.pki(c), host)
			if err != nil {
				return nil, err
			}
			specs = append(specs, s)
		}
	}
	return specs, nil
}

// Down removes everything of the lab. It needs nothing but the lab's name: what
// a crash has left goes, too.
func (l Lab) Down(ctx context.Context) error {
	if _, err := os.Stat(l.State); err == nil {
		unlock, err := l.lock(ctx)
		if err != nil {
			return err
		}
		defer unlock()
	}
	if err := l.remove(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(l.State); err != nil {
		return fmt.Errorf("removing the lab's folder: %w", err)
	}
	return nil
}

// remove leaves the empty folder, which is the lock.
func (l Lab) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	groups, err := cgroup.Find()
	if err != nil {
		return err
	}
	ids, err := l.processes(groups)
	if err != nil {
		return err
	}
	if err = proc.Kill(ctx, ids); err != nil {
		return err
	}
	if err = errors.Join(
		groups.Remove(ctx, l.Name),
		network.Remove(l.Name),
		restoreSysctls(filepath.Join(l.State, "sysctls.json")),
	); err != nil {
		return err
	}
	entries, err := os.ReadDir(l.State)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("listing the lab's files: %w", err)
	}
	var problems []error
	for _, entry := range entries {
		problems = append(problems, os.RemoveAll(filepath.Join(l.State, entry.Name())))
	}
	return errors.Join(problems...)
}

// processes lists the units' first processes, and whatever else runs in the
// lab's control groups and network namespaces.
func (l Lab) processes(groups cgroup.Tree) ([]proc.ID, error) {
	var ids []proc.ID
	files, err := filepath.Glob(l.unit("*", "pid"))
	if err != nil {
		return nil, fmt.Errorf("listing units: %w", err)
	}
	for _, file := range files {
		id, unread := proc.Read(file)
		if unread != nil {
			return nil, unread
		}
		if id.PID != 0 {
			ids = append(ids, id)
		}
	}
	names, _, err := network.Left(l.Name)
	if err != nil {
		return nil, err
	}
	strays, err := proc.InLab(groups.Processes(l.Name), names)
	return append(ids, strays...), err
}

// lock waits until no other command changes the lab.
func (l Lab) lock(ctx context.Context) (unlock func(), err error) {
	for {
		dir, err := os.Open(l.State)
		if err != nil {
			return nil, fmt.Errorf("locking the lab: %w", err)
		}
		err = syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = dir.Close() }, nil
		}
		if err := dir.Close(); err != nil {
			return nil, fmt.Errorf("locking the lab: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for another kubelab command on %s: %w", l.State, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}
