// Package cli is the command line: commands, flags, exit codes, printing. Main
// is the whole program; everything it needs of the outside comes in Env, and
// every plug-in in Catalog.
package cli

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/command"
	"github.com/windtunnel/windtunnel/internal/driver"
	"github.com/windtunnel/windtunnel/internal/generator"
	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/placement"
	"github.com/windtunnel/windtunnel/internal/report"
	"github.com/windtunnel/windtunnel/internal/runner"
	"github.com/windtunnel/windtunnel/internal/study"
)

// Catalog is everything that can be chosen by name.
type Catalog struct {
	Lab    Lab
	Layers []model.Plugin[model.Layer]
	Apps   []model.Plugin[model.App]
	// Generator is the load generator's part.
	Generator generator.Catalog
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
	KeepAwake(drowsy bool)
	placement.Host
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

// Main runs the command that Env.Args name and returns the exit code.
func Main(ctx context.Context, env command.Env, catalog Catalog) int {
	a := &app{env: env, catalog: catalog}
	return command.Run(ctx, env, a.root()) //nolint:contextcheck // cobra hands the context to the commands
}

// wrong is an error that the input is to blame for.
func wrong(err error) error { return command.Wrong(err) }

// silent ends with a code, with nothing more to say.
func silent(code int) error { return command.Silent(code) }

type app struct {
	env     command.Env
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
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
	}
	root.AddCommand(
		a.runCommand(), a.planCommand(), a.reportCommand(), a.auditCommand(), a.compareCommand(), a.transferCommand(), a.historyCommand(), a.topCommand(), a.verifyCommand(), a.studiesCommand(), a.schemaCommand(),
		a.upCommand(), a.execCommand(), a.featuresCommand(), a.featureScoutCommand(), a.doctorCommand(), a.cleanCommand(), a.versionCommand(), a.podCommand(), a.delayLineCommand(), a.appServerCommand(), a.wireguardCommand(), a.openFlowCommand(), a.burnCommand(),
	)
	root.AddCommand(generator.Commands(a.env, a.catalog.Generator)...)
	return root
}

func (a *app) printf(format string, args ...any)   { a.env.Printf(format, args...) }
func (a *app) complain(format string, args ...any) { a.env.Complain(format, args...) }

func (a *app) known() study.Known {
	return study.Known{
		Layers: a.catalog.Layers, Apps: a.catalog.Apps, Targets: []string{model.TargetLab, model.TargetKube}, Metrics: metric.Names(),
		Protocols: a.protocols(), Drivers: a.driverNames(), Faults: a.catalog.Faults,
	}
}

func (a *app) protocols() []study.Protocol {
	var all []study.Protocol
	for _, p := range a.catalog.Generator.Protocols {
		all = append(all, study.Protocol{Name: p.Name, Summary: p.Summary, Config: p.Config, Check: func(config json.RawMessage) error {
			_, err := p.New(config)
			return err
		}, Numbers: func(config json.RawMessage) bool {
			made, err := p.New(config)
			numbering, ok := made.(load.Numbering)
			return err == nil && ok && numbering.Numbers()
		}})
	}
	return all
}

// names joins names for messages.
func names[T any](all []T, name func(T) string) string {
	var n []string
	for _, x := range all {
		n = append(n, name(x))
	}
	return strings.Join(n, ", ")
}
