// Package cli is the command line: commands, flags, exit codes, printing. Main
// is the whole program; everything it needs of the outside comes in Env, and
// every plug-in in Catalog.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/agent"
	"github.com/windtunnel/windtunnel/internal/driver"
	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/report"
	"github.com/windtunnel/windtunnel/internal/runner"
	"github.com/windtunnel/windtunnel/internal/study"
)

// Env is the outside world.
type Env struct {
	Args     []string // without the program's name
	Stdin    io.Reader
	Stdout   io.Writer
	Stderr   io.Writer
	Terminal bool // standard output is one
	// StderrTerminal says that standard error is one.
	StderrTerminal bool
	Lookup         Lookup
	Version        string
	Now            func() time.Time
}

// Catalog is everything that can be chosen by name.
type Catalog struct {
	Lab       Lab
	Layers    []model.Plugin[model.Layer]
	Apps      []model.Plugin[model.App]
	Protocols agent.Protocols
	Drivers   []model.Plugin[driver.Driver]
	Faults    []model.Plugin[model.Fault]
	Formats   []Format
	Readers   []ingest.Format // of other tools' results
	Studies   []Study
	// StudyFiles are what built-in studies may name.
	StudyFiles fs.FS
	Witness    runner.Witness
	// Kube makes the target of real clusters; nil in the program that does
	// without Kubernetes' libraries. There KubeProgram goes on as the one that
	// has them, and returns only if that cannot be found.
	Kube        func(k model.Kube, o KubeOptions) KubeTarget
	KubeProgram func(args []string) error
	// Echo serves until the context ends.
	Echo func(ctx context.Context, o EchoOptions) error
	// AppServers are the servers of apps of several services, by app.
	AppServers map[string]AppServer
	// DelayLine emulates the lab's links until its input ends.
	DelayLine func(in io.Reader, out io.Writer) error
	// WireGuard carries a node's packets until its input ends.
	WireGuard func(in io.Reader, out io.Writer) error
	// OpenFlow tells switches what to do until the context ends.
	OpenFlow func(ctx context.Context, planFile string, log *slog.Logger) error
	// BurnCPU burns CPU time with so many threads until its input ends.
	BurnCPU func(threads string, in io.Reader, out io.Writer) error
}

// Format is a report format.
type Format struct {
	Name    string
	Summary string
	Format  report.Format
}

// Study is a built-in study.
type Study struct {
	Name     string
	Question string
	Data     []byte
}

// Lab is the target that runs on this host: the one implementation that the
// lab's own commands (up, exec, doctor, clean) need all of.
type Lab interface { //nolint:interfacebloat // a target and its commands; splitting it would only hide that
	model.Target
	model.Enterer
	Host() model.Host
	Sweep() (removed []string, err error)
	Probes(ctx context.Context) []model.Probe
	ServeExec(ctx context.Context, s model.Site) error
	Exec(ctx context.Context, pod string, argv []string) (code int, err error)
	// ServeLive answers Watch: what is under way, and what has passed its devices.
	ServeLive(ctx context.Context, run string, doing func() string) error
	Watch(ctx context.Context, run string, every time.Duration, each func(model.Live) (more bool)) error
	Close() error
	// Bring makes Enter hand a file on to the inside, where Brought returns it.
	Bring(open func() (*os.File, error))
	Brought() *os.File
}

// The exit codes.
const (
	ExitDone        = 0
	ExitFailed      = 1
	ExitInput       = 2
	ExitGate        = 3
	ExitUnsupported = 4
)

// exit is an error with the exit code that it asks for.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string { return e.err.Error() }
func (e *exit) Unwrap() error { return e.err }

// silent ends with a code, with nothing more to say.
func silent(code int) error { return &exit{code, nil} }

func wrong(err error) error { return &exit{ExitInput, err} }

// Main runs the command that Env.Args name and returns the exit code.
func Main(ctx context.Context, env Env, catalog Catalog) int {
	ctx, stop := untilInterrupted(ctx)
	defer stop()
	a := &app{env: env, catalog: catalog}
	root := a.root() //nolint:contextcheck // cobra hands the context to the commands
	root.SetArgs(env.Args)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	return a.code(root.ExecuteContext(ctx))
}

// echoes is how long after a first signal others are taken for its echoes: a
// terminal's ctrl-C reaches a program and whoever hands signals on to it, and
// timeout(1) signals a process and then its group. Nobody asks twice as fast.
const echoes = time.Second

// untilInterrupted ends the context at the first SIGINT or SIGTERM; another one,
// when the first can no longer be echoing, kills.
func untilInterrupted(ctx context.Context) (interrupted context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	unhook := func() { signal.Stop(signals) }
	go func() {
		select {
		case <-signals:
			time.AfterFunc(echoes, unhook)
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() { unhook(); cancel() }
}

func (a *app) code(err error) int {
	if err == nil {
		return ExitDone
	}
	var e *exit
	code := ExitFailed
	switch {
	case errors.As(err, &e):
		code = e.code
		if e.err == nil {
			return code
		}
	case errors.Is(err, model.ErrUnsupported):
		code = ExitUnsupported
	}
	a.complain("windtunnel: %s\n", err)
	return code
}

type app struct {
	env     Env
	catalog Catalog
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "windtunnel",
		Short: "A wind tunnel for Kubernetes networks",
		Long: `Windtunnel blows real traffic through service meshes and networks, and reads off
what they cost, what they carry and how they fail, with evidence for every number.

  windtunnel run quick          what do a Service VIP and two mTLS sidecars add to a request?
  windtunnel studies            the built-in studies
  windtunnel doctor             what this host can do

Exit codes: 0 done, 1 failed, 2 the input is wrong, 3 a gate failed or a regression was shown,
4 this host cannot do it.`,
		SilenceUsage: true, SilenceErrors: true, Version: a.env.Version,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return wrong(err) })
	root.AddCommand(
		a.runCommand(), a.planCommand(), a.reportCommand(), a.auditCommand(), a.compareCommand(), a.transferCommand(), a.historyCommand(), a.topCommand(), a.verifyCommand(), a.studiesCommand(), a.schemaCommand(),
		a.loadCommand(), a.upCommand(), a.execCommand(), a.featuresCommand(), a.featureProbeCommand(), a.doctorCommand(), a.cleanCommand(), a.versionCommand(), a.echoCommand(), a.agentCommand(), a.podCommand(), a.delayLineCommand(), a.appServerCommand(), a.wireguardCommand(), a.openFlowCommand(), a.burnCommand(),
	)
	for _, c := range root.Commands() {
		c.Args = inputError(c.Args)
	}
	return root
}

// inputError makes wrong arguments exit with 2.
func inputError(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check == nil {
			return nil
		}
		if err := check(cmd, args); err != nil {
			return wrong(fmt.Errorf("%w (see windtunnel %s --help)", err, cmd.Name()))
		}
		return nil
	}
}

func (a *app) known() study.Known {
	return study.Known{
		Layers: a.catalog.Layers, Apps: a.catalog.Apps, Targets: []string{model.TargetLab, model.TargetKube}, Metrics: metric.Names(),
		Protocols: a.protocols(), Drivers: a.driverNames(), Faults: a.catalog.Faults,
	}
}

func (a *app) protocols() []study.Protocol {
	var all []study.Protocol
	for _, p := range a.catalog.Protocols {
		all = append(all, study.Protocol{Name: p.Name, Summary: p.Summary, Config: p.Config, Check: func(config json.RawMessage) error {
			_, err := p.New(config)
			return err
		}})
	}
	return all
}

// printf prints to standard output; a reader that has gone away is no error.
func (a *app) printf(format string, args ...any) { _, _ = fmt.Fprintf(a.env.Stdout, format, args...) }

// complain prints to standard error.
func (a *app) complain(format string, args ...any) { _, _ = fmt.Fprintf(a.env.Stderr, format, args...) }

// names joins names for messages.
func names[T any](all []T, name func(T) string) string {
	var n []string
	for _, x := range all {
		n = append(n, name(x))
	}
	return strings.Join(n, ", ")
}
