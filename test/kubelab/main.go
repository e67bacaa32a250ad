// Command kubelab runs real Kubernetes clusters on one Linux host.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/windtunnel/windtunnel/test/kubelab/internal/build"
	"github.com/windtunnel/windtunnel/test/kubelab/internal/initd"
	"github.com/windtunnel/windtunnel/test/kubelab/internal/lab"
	"github.com/windtunnel/windtunnel/test/kubelab/internal/plan"
	"github.com/windtunnel/windtunnel/test/kubelab/internal/unit"
)

const usage = `usage: kubelab COMMAND

  build                          build the programs and images, if they are not in the cache
  up                             start what does not run, and wait until it is usable
  down                           remove everything but the cache
  status                         what runs
  kubeconfig                     print the path of the kubeconfig; its contexts are the clusters' names
  kubectl ARGUMENT...            kubectl with that kubeconfig
  load IMAGE.tar [NAME:TAG]      import images (docker archive or OCI layout) into every node
  pause PROCESS UNIT DURATION    stop a process for a while: api, etcd, controllers, scheduler of a cluster (a);
                                 kubelet, proxy, containerd of a node (a1)
  link A B DELAY                 delay what goes between two clusters, each way, until it is interrupted (link a b 40ms)
  in UNIT COMMAND...             run a command inside a control plane (a) or a node (a1)
  left                           list what is left on this host; fails if anything is

environment: KUBELAB_NAME (kubelab), KUBELAB_NODES (2,1), KUBELAB_STATE (/var/lib/NAME),
             KUBELAB_CACHE (~/.cache/windtunnel/kubelab), KUBELAB_SOURCE (test/kubelab),
             WINDTUNNEL (windtunnel beside this program): the program whose delay line makes links
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	var ended status
	switch {
	case errors.As(err, &ended):
		os.Exit(int(ended))
	case err != nil:
		fmt.Fprintln(os.Stderr, "kubelab:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if len(args) == 0 {
		return errors.New(strings.TrimSpace(usage))
	}
	if args[0] == "init" {
		return first(context.WithoutCancel(ctx), args[1:], log)
	}
	s, err := read(os.Getenv)
	if err != nil {
		return err
	}
	l := lab.Lab{Name: s.plan.Name, State: s.state, Log: log}
	args, command := args[1:], args[0]
	if command != "build" && command != "kubeconfig" && os.Geteuid() != 0 {
		return errors.New("only root can make network namespaces and control groups: run it as root")
	}
	switch command {
	case "build":
		_, err := build.Ensure(ctx, s.source, s.cache, log)
		return err
	case "up":
		return up(ctx, l, s)
	case "down":
		return l.Down(ctx)
	case "status":
		return l.Status(os.Stdout)
	case "kubeconfig":
		_, err := fmt.Println(l.Kubeconfig())
		return err
	case "left":
		return left(l)
	default:
		return use(ctx, l, command, args)
	}
}

func up(ctx context.Context, l lab.Lab, s settings) error {
	built, err := build.Ensure(ctx, s.source, s.cache, l.Log)
	if err != nil {
		return err
	}
	begun := time.Now()
	if err = l.Up(ctx, s.plan, built); err != nil {
		return err
	}
	var contexts []string
	for _, c := range s.plan.Clusters {
		contexts = append(contexts, c.Name)
	}
	_, err = fmt.Printf("export KUBECONFIG=%s  # contexts %s; usable after %.1f s\n",
		l.Kubeconfig(), strings.Join(contexts, ", "), time.Since(begun).Seconds())
	return err
}

func left(l lab.Lab) error {
	found, err := l.Left()
	if err != nil {
		return err
	}
	if len(found) > 0 {
		return fmt.Errorf("left on this host:\n  %s", strings.Join(found, "\n  "))
	}
	return nil
}

// use runs the commands that need a running lab.
func use(ctx context.Context, l lab.Lab, command string, args []string) error {
	switch {
	case command == "kubectl":
		c, err := l.Kubectl(ctx, args...)
		return attached(c, err)
	case command == "load" && (len(args) == 1 || len(args) == 2):
		return l.Load(ctx, args[0], strings.Join(args[1:], ""))
	case command == "pause" && len(args) == 3:
		d, err := time.ParseDuration(args[2])
		if err != nil || d <= 0 {
			return fmt.Errorf("%q is no duration: 30s, 2m and the like are", args[2])
		}
		return l.Pause(ctx, processName(args[0]), args[1], d)
	case command == "link" && len(args) == 3:
		return link(ctx, l, args[0], args[1], args[2])
	case command == "in" && len(args) >= 2:
		c, err := l.Inside(ctx, args[0], args[1:]...)
		return attached(c, err)
	default:
		return fmt.Errorf("unknown command, or wrong number of arguments: %s\n%s", command, usage)
	}
}

func link(ctx context.Context, l lab.Lab, a, b, delay string) error {
	d, err := time.ParseDuration(delay)
	if err != nil || d <= 0 || d > time.Second {
		return fmt.Errorf("%q is no delay of one way: 40ms and the like are, up to 1s", delay)
	}
	program := os.Getenv("WINDTUNNEL")
	if program == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("finding the own program: %w", err)
		}
		program = filepath.Join(filepath.Dir(self), "windtunnel")
	}
	return l.Link(ctx, a, b, d, []string{program, "delay-line"}, func(now lab.Linked) error {
		_, err := fmt.Printf("link %s %s: asked %s each way; round trip %.2f ms, without it %.2f ms\n",
			now.A, now.B, d, float64(now.Now.Microseconds())/1000, float64(now.Before.Microseconds())/1000)
		return err
	})
}

func attached(c *exec.Cmd, err error) error {
	if err != nil {
		return err
	}
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = c.Run()
	if ended := (&exec.ExitError{}); errors.As(err, &ended) {
		return status(max(ended.ExitCode(), 1))
	}
	return err
}

// status is how a command ended that has said why itself.
type status int

// Error is what nobody prints.
func (s status) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

func processName(short string) string {
	long := map[string]string{"api": unit.APIServer, "controllers": unit.Controllers, "scheduler": unit.Scheduler, "proxy": unit.Proxy}
	if name := long[short]; name != "" {
		return name
	}
	return short
}

// first is the life of a unit's first process. SIGTERM does not end it: only
// `kubelab down` does, with SIGKILL.
func first(ctx context.Context, args []string, log *slog.Logger) error {
	if len(args) != 4 || os.Getpid() != 1 {
		return errors.New("init is how kubelab calls itself inside a unit")
	}
	return initd.Run(ctx, initd.Folders{Root: args[0], Bin: args[1], Images: args[2], Log: args[3]}, log)
}

type settings struct {
	plan                 plan.Lab
	state, cache, source string
}

func read(env func(string) string) (settings, error) {
	or := func(name, usual string) string {
		if value := env(name); value != "" {
			return value
		}
		return usual
	}
	var sizes []int
	for size := range strings.SplitSeq(or("KUBELAB_NODES", "2,1"), ",") {
		n, wrong := strconv.Atoi(strings.TrimSpace(size))
		if wrong != nil {
			return settings{}, fmt.Errorf("KUBELAB_NODES=%s: numbers of nodes, with commas, as in 2,1", env("KUBELAB_NODES"))
		}
		sizes = append(sizes, n)
	}
	p, err := plan.New(or("KUBELAB_NAME", "kubelab"), sizes)
	if err != nil {
		return settings{}, err
	}
	s := settings{plan: p, state: or("KUBELAB_STATE", "/var/lib/"+p.Name), source: or("KUBELAB_SOURCE", "test/kubelab"), cache: env("KUBELAB_CACHE")}
	if s.cache == "" {
		home, missing := os.UserCacheDir()
		if missing != nil {
			return settings{}, fmt.Errorf("looking for a cache folder (set KUBELAB_CACHE): %w", missing)
		}
		s.cache = filepath.Join(home, "windtunnel", "kubelab")
	}
	for _, path := range []*string{&s.state, &s.cache, &s.source} {
		if *path, err = filepath.Abs(*path); err != nil {
			return settings{}, fmt.Errorf("finding a folder: %w", err)
		}
	}
	return s, nil
}
