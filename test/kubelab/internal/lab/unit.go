package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/windtunnel/windtunnel/test/kubelab/internal/build"
	"github.com/windtunnel/windtunnel/test/kubelab/internal/cgroup"
	"github.com/windtunnel/windtunnel/test/kubelab/internal/network"
	"github.com/windtunnel/windtunnel/test/kubelab/internal/proc"
	"github.com/windtunnel/windtunnel/test/kubelab/internal/unit"
)

// shares is the CPU share of the whole lab beside the rest of the host, whose
// groups usually have 1024: tests that run beside it must not starve it.
const shares = 8192

func thisHost(built build.Result) (unit.Host, error) {
	runc, err := exec.LookPath("runc")
	if err != nil {
		return unit.Host{}, fmt.Errorf("looking for runc (the Debian package of that name): %w", err)
	}
	images, err := filepath.Glob(filepath.Join(built.Images, "*.tar"))
	if err != nil {
		return unit.Host{}, fmt.Errorf("listing images: %w", err)
	}
	host := unit.Host{Runc: runc}
	for _, i := range images {
		host.Images = append(host.Images, filepath.Base(i))
	}
	var data [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]); err != nil {
		return unit.Host{}, fmt.Errorf("reading this process' capabilities: %w", err)
	}
	host.OOMScores = data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
	return host, nil
}

// running says whether a unit runs, in the network namespace of its name.
func (l Lab) running(s unit.Spec) (first proc.ID, running bool, err error) {
	id, err := proc.Read(l.unit(s.Name, "pid"))
	if err != nil {
		return proc.ID{}, false, err
	}
	return id, id.Alive() && network.IDOfProcess(id.PID) == network.IDOf(s.Namespace), nil
}

// ensure starts the units that do not run. What is stopped goes on.
func (l Lab) ensure(ctx context.Context, specs []unit.Spec, built build.Result) error {
	for _, s := range specs {
		id, running, err := l.running(s)
		if err != nil {
			return err
		}
		if !running {
			if err = l.start(ctx, s, built); err != nil {
				return err
			}
			continue
		}
		inside, err := proc.Inside(id, "")
		if err != nil {
			return err
		}
		if err = proc.Signal(inside, syscall.SIGCONT); err != nil {
			return err
		}
	}
	return nil
}

// stopBroken ends what is left of the units that do not run.
func (l Lab) stopBroken(ctx context.Context, specs []unit.Spec) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	groups, err := cgroup.Find()
	if err != nil {
		return err
	}
	for _, s := range specs {
		first, running, err := l.running(s)
		if err != nil {
			return err
		}
		if running {
			continue
		}
		group := strings.TrimSuffix(s.Cgroup, "/sys")
		strays, err := proc.InLab(groups.Processes(group), []string{s.Namespace})
		if err != nil {
			return err
		}
		if err = proc.Kill(ctx, append(strays, first)); err != nil {
			return err
		}
		if err = groups.Remove(ctx, group); err != nil {
			return err
		}
	}
	return nil
}

// start starts a unit's first process, in namespaces of its own, and does not
// wait for more.
func (l Lab) start(ctx context.Context, s unit.Spec, built build.Result) error {
	groups, err := cgroup.Find()
	if err != nil {
		return err
	}
	if err = groups.Create(s.Cgroup); err != nil {
		return err
	}
	if err = groups.Shares(l.Name, shares); err != nil {
		return err
	}
	root, logs := l.unit(s.Name, "root"), l.unit(s.Name, "log")
	for _, dir := range []string{root, logs} {
		if err = os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making a folder of the unit %s: %w", s.Name, err)
		}
	}
	if err = s.Write(root); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(logs, "init.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log of the unit %s: %w", s.Name, err)
	}
	defer func() { _ = log.Close() }()
	l.Log.Info("starting", "unit", s.Name)
	return network.In(s.Namespace, func() error {
		// It outlives this command.
		command := exec.CommandContext(context.WithoutCancel(ctx), "/proc/self/exe", "init", root, built.Bin, built.Images, logs)
		command.Stdout, command.Stderr = log, log
		command.Dir = "/"
		command.SysProcAttr = &syscall.SysProcAttr{
			Setsid:     true,
			Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		}
		if err := command.Start(); err != nil {
			return fmt.Errorf("starting the unit %s: %w", s.Name, err)
		}
		id, running := proc.Of(command.Process.Pid)
		if !running {
			return fmt.Errorf("the unit %s ended at once: see %s", s.Name, log.Name())
		}
		return errors.Join(id.Write(l.unit(s.Name, "pid")), command.Process.Release())
	})
}

// first is a unit's first process.
func (l Lab) first(name string) (proc.ID, error) {
	id, err := proc.Read(l.unit(name, "pid"))
	if err != nil {
		return proc.ID{}, err
	}
	if !id.Alive() {
		return proc.ID{}, fmt.Errorf("%s does not run: `kubelab up` starts it again", name)
	}
	return id, nil
}

// Pause stops a process of a unit for a while, as if its machine hung: what
// connects to it waits. It goes on when the time is over or the context ends.
func (l Lab) Pause(ctx context.Context, process, name string, d time.Duration) error {
	id, err := l.first(name)
	if err != nil {
		return err
	}
	ids, err := proc.Inside(id, process)
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return fmt.Errorf("no process %s runs in %s", process, name)
	}
	if err := proc.Signal(ids, syscall.SIGSTOP); err != nil {
		return errors.Join(err, proc.Signal(ids, syscall.SIGCONT))
	}
	l.Log.Info("stopped", "process", process, "unit", name, "for", d)
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return proc.Signal(ids, syscall.SIGCONT)
}

// Inside is a command that runs in a unit.
func (l Lab) Inside(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	id, err := l.first(name)
	if err != nil {
		return nil, err
	}
	args = append([]string{"-t", strconv.Itoa(id.PID), "-m", "-n", "-p", "-u", "-i", "--"}, args...)
	command := exec.CommandContext(ctx, "nsenter", args...)
	command.Env = append(os.Environ(), "PATH="+unit.Path)
	return command, nil
}
