package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/command"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/placement"
	"github.com/windtunnel/windtunnel/internal/plan"
	"github.com/windtunnel/windtunnel/internal/report"
	"github.com/windtunnel/windtunnel/internal/runner"
	"github.com/windtunnel/windtunnel/internal/store"
	"github.com/windtunnel/windtunnel/internal/study"
)

// sampleEvery is the time between resource readings: often enough to see a
// peak of memory, seldom enough to cost under 0.1 % of a CPU.
const sampleEvery = 200 * time.Millisecond

type runOptions struct {
	out, resume string
	seed        uint64
	blocks      int
	quiet       bool
	metrics     string
	remoteWrite string
	deepIdle    bool
	target      targetFlags
}

func (a *app) runCommand() *cobra.Command {
	var o runOptions
	c := &cobra.Command{
		Use:   "run STUDY",
		Short: "Run a study: a built-in name or a file",
		Long:  "Runs every trial of a study, keeps what it measured in a run folder, and reports.\nctrl-C ends the trial in flight, cleans up, and leaves a run that --resume continues.",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == (o.resume != "") {
				return wrong(errors.New("run takes a study, or --resume RUN; the built-in studies are " + a.studyNames()))
			}
			if err := errors.Join(checkMetrics(o.metrics), checkRemoteWrite(&o)); err != nil {
				return err
			}
			return a.run(cmd.Context(), args, o)
		},
	}
	c.Flags().StringVar(&o.out, "out", "", "run folder to create (default runs/TIME-NAME)")
	c.Flags().StringVar(&o.resume, "resume", "", "run folder to continue")
	c.Flags().Uint64Var(&o.seed, "seed", 0, "seed of the random order, instead of the study's")
	c.Flags().IntVar(&o.blocks, "blocks", 0, "number of blocks, instead of the study's (at least 6)")
	c.Flags().BoolVar(&o.quiet, "quiet", false, "no progress, only the result")
	c.Flags().StringVar(&o.metrics, "metrics", "", "address at which Prometheus may ask how the run is doing, e.g. :9464 (of loopback unless a host is given)")
	c.Flags().StringVar(&o.remoteWrite, "remote-write", "", "URL to which the same is written every 5 s, by Prometheus' remote write, e.g. http://HOST:9090/api/v1/write")
	c.Flags().BoolVar(&o.deepIdle, "deep-idle", false, "let the host's idle CPUs sleep as deep as the kernel chooses: less power, later wake-ups (only the lab keeps them awake)")
	o.target.add(c)
	return c
}

// run is the whole of `windtunnel run`.
func (a *app) run(ctx context.Context, args []string, o runOptions) error {
	j, err := a.prepare(args, o)
	if err != nil {
		return err
	}
	if j.plan.Study.Target == model.TargetKube {
		return a.runKube(ctx, j, o)
	}
	if err = a.check(ctx, j.plan.Study); err != nil {
		return err
	}
	outside := forwarding{app: a, to: o.remoteWrite}
	if o.metrics != "" {
		a.catalog.Lab.Bring(func() (*os.File, error) { return a.listenerFile(ctx, o.metrics, &outside) })
	}
	inside, code, err := a.catalog.Lab.Enter(ctx)
	outside.finish()
	if err != nil {
		return err
	}
	if !inside {
		return silent(code) // the same command has run inside
	}
	a.catalog.Lab.KeepAwake(o.deepIdle)
	at := place{target: a.catalog.Lab, host: a.catalog.Lab.Host(), witness: a.catalog.Witness, listener: a.catalog.Lab.Brought()}
	if at.placement, err = placement.New(ctx, a.catalog.Lab); err != nil {
		return errors.Join(err, a.catalog.Lab.Close())
	}
	return errors.Join(a.runInside(ctx, j, o, at), a.catalog.Lab.Close())
}

// job is a run to be made or continued.
type job struct {
	dir     string
	source  string // of the study, for people
	study   []byte
	plan    plan.Plan
	earlier *store.Run // set when resuming
}

func (a *app) prepare(args []string, o runOptions) (job, error) {
	if o.resume != "" {
		return a.prepareResume(o.resume)
	}
	source, data, err := a.readStudy(args[0])
	if err != nil {
		return job{}, err
	}
	s, err := a.parse(source, data, filepath.Dir(args[0]), o)
	if err != nil {
		return job{}, err
	}
	p, err := plan.Expand(s)
	if err != nil {
		return job{}, wrong(err)
	}
	dir := o.out
	if dir == "" {
		dir = filepath.Join("runs", a.env.Now().UTC().Format("2006-01-02T15-04-05")+"-"+s.Name)
	}
	return job{dir: dir, source: source, study: data, plan: p}, nil
}

// parse reads a study; files that it names are in the folder or below it.
func (a *app) parse(source string, data []byte, folder string, o runOptions) (model.Study, error) {
	known := a.known()
	known.ReadFile = a.fileReader(source, folder)
	s, err := study.Parse(source, data, known)
	if err != nil {
		return s, wrong(err)
	}
	if o.blocks != 0 {
		if o.blocks < 6 {
			return s, wrong(fmt.Errorf("--blocks %d: a 95 %% interval by Wilcoxon's signed ranks needs at least 6", o.blocks))
		}
		s.Design.Blocks, s.Design.MaxBlocks = o.blocks, max(o.blocks, s.Design.MaxBlocks)
		if s.Design.StopInterval == 0 {
			s.Design.MaxBlocks = o.blocks
		}
	}
	if o.seed != 0 {
		s.Design.Seed = o.seed
	}
	if s, err = o.target.apply(s); err != nil {
		return s, wrong(err)
	}
	return s, nil
}

func (a *app) prepareResume(dir string) (job, error) {
	run, err := store.Open(dir)
	if err != nil {
		return job{}, wrong(err)
	}
	if run.End != nil && run.End.Complete {
		return job{}, wrong(fmt.Errorf("%s is complete (%s); see windtunnel report %s", dir, run.End.Reason, dir))
	}
	var p plan.Plan
	if err := json.Unmarshal(run.Plan, &p); err != nil {
		return job{}, fmt.Errorf("reading the run's plan: %w", err)
	}
	if err := p.Verify(); err != nil {
		return job{}, fmt.Errorf("reading the run's plan: %w", err)
	}
	return job{dir: dir, source: run.Meta.StudySource, study: run.Study, plan: p, earlier: run}, nil
}

// readStudy finds a built-in study by name, or reads a file.
func (a *app) readStudy(name string) (source string, data []byte, err error) {
	for _, s := range a.catalog.Studies {
		if s.Name == name {
			return name, s.Data, nil
		}
	}
	data, err = os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil, wrong(fmt.Errorf("no study %q: neither a file nor one of the built-in studies (%s)", name, a.studyNames()))
	}
	if err != nil {
		return "", nil, wrong(fmt.Errorf("reading the study: %w", err))
	}
	return filepath.Base(name), data, nil
}

// maxStudyFile bounds what is read of a file that a study names: a little more
// than a study may use.
const maxStudyFile = 2 << 20

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	return io.ReadAll(io.LimitReader(f, maxStudyFile))
}

func (a *app) studyNames() string {
	return names(a.catalog.Studies, func(s Study) string { return s.Name })
}

// checker is a plug-in that can say, before anything is made, that it cannot
// work here.
type checker interface {
	Check(ctx context.Context) error
}

// check builds every plug-in once and asks those that can tell whether they
// will work here.
func (a *app) check(ctx context.Context, s model.Study) error {
	all, err := a.newApp(s)
	if err != nil {
		return err
	}
	plugins := []any{all}
	for _, v := range s.Variants {
		layers, err := a.stack(v)
		if err != nil {
			return err
		}
		for _, l := range layers {
			plugins = append(plugins, l)
		}
	}
	errs := []error{a.checkDrivers(ctx, s)}
	for _, p := range plugins {
		if c, ok := p.(checker); ok {
			if err := c.Check(ctx); err != nil && !slices.ContainsFunc(errs, func(e error) bool { return e != nil && e.Error() == err.Error() }) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

func (a *app) newApp(s model.Study) (model.App, error) {
	for _, p := range a.catalog.Apps {
		if p.Name == s.App.Kind {
			return p.New(s.App.Config)
		}
	}
	return nil, wrong(fmt.Errorf("no app %q; known: %s", s.App.Kind, names(a.catalog.Apps, func(p model.Plugin[model.App]) string { return p.Name })))
}

func (a *app) stack(v model.Variant) ([]model.Layer, error) {
	var layers []model.Layer
	for _, ref := range v.Stack {
		i := slices.IndexFunc(a.catalog.Layers, func(p model.Plugin[model.Layer]) bool { return p.Name == ref.Kind })
		if i < 0 {
			return nil, wrong(fmt.Errorf("no layer %q; known: %s", ref.Kind, names(a.catalog.Layers, func(p model.Plugin[model.Layer]) string { return p.Name })))
		}
		l, err := a.catalog.Layers[i].New(ref.Config)
		if err != nil {
			return nil, fmt.Errorf("variant %s, layer %s: %w", v.Name, ref.Kind, err)
		}
		layers = append(layers, l)
	}
	return layers, nil
}

// place is where a run's trials are made.
type place struct {
	target  model.Target
	host    model.Host
	witness runner.Witness // nil: nobody watches the wire there
	// placement is where a hypervisor has the host's CPUs; nil: not seen.
	placement runner.Placement
	// listener is for --metrics, from outside; nil: there is no outside.
	listener *os.File
}

// runInside carries the plan out; on the lab, from within it.
func (a *app) runInside(ctx context.Context, j job, o runOptions, at place) error {
	w, finished, err := a.open(j, at.host)
	if err != nil {
		return err
	}
	theApp, err := a.newApp(j.plan.Study)
	if err != nil {
		return err
	}
	if !o.quiet {
		a.printf("%s: %s\n%d trials in %s, about %s\n", j.plan.Study.Name, j.plan.Study.Question, len(j.plan.Trials), j.dir, expected(j.plan).Round(time.Second))
	}
	var calibrated, broken []model.Outcome
	var frozen *model.Frozen
	if j.earlier != nil {
		calibrated, frozen, broken = j.earlier.Calibration, j.earlier.Frozen, j.earlier.Broken
	}
	progress := newProgress(a.env, o.quiet, j.plan)
	watched, err := a.watch(ctx, j, o, at, progress)
	if err != nil {
		return errors.Join(err, w.Close(nil))
	}
	defer watched.close(ctx)
	var end runner.End
	runErr := a.serveLive(ctx, at, j.dir, watched.doing.say, func() (err error) {
		end, err = runner.Run(ctx, runner.Settings{
			Plan: j.plan, Target: at.target, App: theApp, Stack: a.stack, Driver: a.driver, Fault: a.fault, Witness: at.witness, Sink: w,
			Finished: finished, Calibrated: calibrated, Frozen: frozen, Broken: broken, Stop: a.stopRule(j), Progress: watched, Cores: at.host.Cores, Placement: at.placement, SampleEvery: sampleEvery,
		})
		return err
	})
	progress.close()
	var last *store.End
	if runErr == nil || errors.Is(runErr, model.ErrUnsupported) {
		last = &store.End{At: a.env.Now().UTC(), Reason: end.Reason, Complete: end.Complete}
	}
	if err := w.Close(last); err != nil {
		return errors.Join(runErr, err)
	}
	if runErr != nil {
		return a.stopped(j, runErr)
	}
	return a.conclude(ctx, j.dir)
}

// stopped explains a run that ended early.
func (a *app) stopped(j job, err error) error {
	if errors.Is(err, context.Canceled) {
		a.complain("windtunnel: interrupted; nothing is left running, and what was measured is kept.\nContinue with: windtunnel run --resume %s\n", j.dir)
		return silent(command.ExitFailed)
	}
	if errors.Is(err, model.ErrTarget) {
		a.complain("windtunnel: the target failed; what was measured is kept.\nContinue with: windtunnel run --resume %s\n", j.dir)
	}
	return err
}

func (a *app) open(j job, host model.Host) (w *store.Writer, finished []model.Outcome, err error) {
	session := store.Session{Started: a.env.Now().UTC(), Version: a.env.Version, Host: host, Resumed: j.earlier != nil}
	if j.earlier != nil {
		if w, err = store.Resume(j.earlier); err != nil {
			return nil, nil, err
		}
		return w, j.earlier.Outcomes, w.Session(session)
	}
	frozen, err := json.MarshalIndent(j.plan, "", " ")
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the plan: %w", err)
	}
	meta := store.Meta{
		ID: filepath.Base(j.dir), Dir: j.dir, Created: session.Started, Study: j.plan.Study.Name, StudySource: j.source,
		PlanDigest: j.plan.Digest, Command: "windtunnel " + strings.Join(a.env.Args, " "),
	}
	if w, err = store.Create(j.dir, meta, j.study, append(frozen, '\n')); err != nil {
		return nil, nil, err
	}
	return w, nil, w.Session(session)
}

// stopRule is the study's: narrow enough intervals of the primary metrics.
func (a *app) stopRule(j job) func([]model.Outcome) (string, bool) {
	d := j.plan.Study.Design
	if d.StopInterval == 0 {
		return nil
	}
	return func(outcomes []model.Outcome) (string, bool) {
		if !report.FromOutcomes(j.plan, outcomes).Narrow(d.StopInterval) {
			return "", false
		}
		return fmt.Sprintf("every primary interval is narrower than ±%g %%", d.StopInterval*100), true
	}
}

// conclude derives the results, writes the reports, prints the answer.
func (a *app) conclude(ctx context.Context, dir string) error {
	m, err := a.writeResults(ctx, dir)
	if err != nil {
		return err
	}
	if err := a.format("text").Write(ctx, a.env.Stdout, m); err != nil {
		return err
	}
	a.printf("report: %s\n", filepath.Join(dir, "report.html"))
	if m.Failed() {
		return silent(command.ExitGate)
	}
	return nil
}

func (a *app) writeResults(ctx context.Context, dir string) (*report.Model, error) {
	run, err := store.Open(dir)
	if err != nil {
		return nil, err
	}
	m, err := report.Build(run)
	if err != nil {
		return nil, err
	}
	for name, file := range derived() {
		if err := a.writeReport(ctx, m, name, filepath.Join(dir, file)); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// derived are the files that a finished run holds, by format; verify derives
// them again.
func derived() map[string]string {
	return map[string]string{"json": store.FileResults, "html": "report.html", "md": "report.md", "csv": "report.csv"}
}

// overhead is what a trial takes besides its warm-up and its load, measured on
// two cores; it is replaced by the run's own figure as soon as there is one.
const overhead = time.Second

func expected(p plan.Plan) time.Duration { return plan.Duration(p, overhead) }
