// Package initd is the first process of a unit, PID 1 of its PID namespace: it
// enters the unit's root, starts the unit's processes, keeps them running, and
// takes everything with it when it is killed.
package initd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/windtunnel/windtunnel/test/kubelab/internal/cgroup"
	"github.com/windtunnel/windtunnel/test/kubelab/internal/unit"
)

// Run is the life of a unit's first process.
func Run(ctx context.Context, f Folders, log *slog.Logger) error {
	spec, err := unit.Read(f.Root)
	if err != nil {
		return err
	}
	groups, err := cgroup.Find()
	if err != nil {
		return err
	}
	if err := groups.Join(spec.Cgroup); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(spec.Name)); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	if err := enter(f); err != nil {
		return err
	}
	if err := os.Setenv("PATH", unit.Path); err != nil {
		return fmt.Errorf("setting PATH: %w", err)
	}
	s := &supervisor{log: log, running: map[int]chan<- syscall.WaitStatus{}}
	go s.reap(ctx)
	for _, p := range spec.Processes {
		if err := s.step(ctx, p); err != nil {
			return err
		}
	}
	log.Info("everything is started")
	<-ctx.Done()
	return nil
}

type supervisor struct {
	log     *slog.Logger
	mu      sync.Mutex
	running map[int]chan<- syscall.WaitStatus
}

func (s *supervisor) step(ctx context.Context, p unit.Process) error {
	switch {
	case len(p.Args) == 0:
	case p.Once:
		status, err := s.run(p)
		if err != nil {
			return err
		}
		if status.ExitStatus() != 0 {
			return fmt.Errorf("%s failed: see its log", strings.Join(p.Args, " "))
		}
	default:
		go s.keep(ctx, p)
	}
	if p.Ready == "" {
		return nil
	}
	return s.await(ctx, p)
}

// keep runs a process for ever.
func (s *supervisor) keep(ctx context.Context, p unit.Process) {
	for ctx.Err() == nil {
		status, err := s.run(p)
		s.log.Warn("a process ended; it is started again", "process", p.Name, "status", status.ExitStatus(), "signal", status.Signal(), "error", err)
		sleep(ctx, time.Second)
	}
}

// run runs a process to its end.
func (s *supervisor) run(p unit.Process) (syscall.WaitStatus, error) {
	path, err := exec.LookPath(p.Args[0])
	if err != nil {
		return 0, fmt.Errorf("looking for a program: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(unit.Log, p.Name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, fmt.Errorf("opening a log: %w", err)
	}
	defer func() { _ = log.Close() }()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, fmt.Errorf("opening %s: %w", os.DevNull, err)
	}
	defer func() { _ = null.Close() }()
	ended, err := s.start(path, p.Args, []uintptr{null.Fd(), log.Fd(), log.Fd()})
	if err != nil {
		return 0, fmt.Errorf("starting %s: %w", p.Name, err)
	}
	return <-ended, nil
}

// start holds the lock until the process is known, so that reap does not miss it.
func (s *supervisor) start(path string, args []string, files []uintptr) (<-chan syscall.WaitStatus, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pid, err := syscall.ForkExec(path, args, &syscall.ProcAttr{
		Dir: "/", Files: files, Env: []string{"PATH=" + unit.Path, "HOME=/root"},
	})
	if err != nil {
		return nil, err
	}
	ended := make(chan syscall.WaitStatus, 1)
	s.running[pid] = ended
	s.log.Info("started", "process", filepath.Base(path), "pid", pid)
	return ended, nil
}

// reap waits for every child: PID 1 inherits those whose parents ended.
func (s *supervisor) reap(ctx context.Context) {
	for ctx.Err() == nil {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err != nil {
			// Nobody is there to wait for.
			sleep(ctx, 100*time.Millisecond)
			continue
		}
		s.mu.Lock()
		ended := s.running[pid]
		delete(s.running, pid)
		s.mu.Unlock()
		if ended != nil {
			ended <- status
		}
	}
}

// await waits until something answers, for as long as it takes.
func (s *supervisor) await(ctx context.Context, p unit.Process) error {
	begun, said := time.Now(), time.Now()
	for {
		err := ask(ctx, p.Ready)
		if err == nil {
			s.log.Info("ready", "process", p.Name, "after", time.Since(begun).Round(time.Millisecond))
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Since(said) > 10*time.Second {
			s.log.Warn("not ready yet", "process", p.Name, "asked", p.Ready, "error", err)
			said = time.Now()
		}
		sleep(ctx, 100*time.Millisecond)
	}
}

func ask(ctx context.Context, what string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if !strings.HasPrefix(what, "https://") {
		network := "tcp"
		if strings.HasPrefix(what, "/") {
			network = "unix"
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, network, what)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, what, nil)
	if err != nil {
		return err
	}
	// Anonymous and unverified: it only asks whether somebody is ready.
	client := http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	if err := response.Body.Close(); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
