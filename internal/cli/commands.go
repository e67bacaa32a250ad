package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/report"
	"github.com/windtunnel/windtunnel/internal/store"
	"github.com/windtunnel/windtunnel/internal/study"
)

func (a *app) planCommand() *cobra.Command {
	var o runOptions
	var noise, effect string
	c := &cobra.Command{
		Use: "plan STUDY", Short: "Show what a study would run, without running it", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			j, err := a.prepare(args, o)
			if err != nil {
				return err
			}
			if err := j.plan.WriteText(a.env.Stdout); err != nil {
				return err
			}
			if err := a.misplaced(j.plan.Study); err != nil {
				a.complain("windtunnel: as it is, the study cannot be run:\n%v\n", err)
			}
			if noise == "" {
				return nil
			}
			return a.noise(j.plan.Study, noise, effect)
		},
	}
	c.Flags().Uint64Var(&o.seed, "seed", 0, "seed of the random order, instead of the study's")
	c.Flags().IntVar(&o.blocks, "blocks", 0, "number of blocks, instead of the study's (at least 6)")
	c.Flags().StringVar(&noise, "noise", "", "earlier `run` whose noise says how small an effect the planned blocks can show")
	c.Flags().StringVar(&effect, "effect", "5%", "with --noise: the `share` of which to say how many blocks it needs")
	o.target.add(c)
	return c
}

func (a *app) studiesCommand() *cobra.Command {
	return &cobra.Command{
		Use: "studies [NAME]", Short: "List the built-in studies, or print one to start from", Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				_, data, err := a.readStudy(args[0])
				if err == nil {
					_, err = a.env.Stdout.Write(data)
				}
				return err
			}
			for _, s := range a.catalog.Studies {
				a.printf("%-12s %s\n", s.Name, s.Question)
			}
			return nil
		},
	}
}

func (a *app) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of study files", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			s, err := study.Schema(a.known())
			if err != nil {
				return err
			}
			_, err = a.env.Stdout.Write(s)
			return err
		},
	}
}

func (a *app) reportCommand() *cobra.Command {
	var format, out, part string
	c := &cobra.Command{
		Use: "report RUN", Short: "Report on a run, in one of several formats", Args: cobra.ExactArgs(1), Long: a.reportHelp(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.format(format) == nil {
				return wrong(fmt.Errorf("no format %q; known: %s", format, names(a.catalog.Formats, func(f Format) string { return f.Name })))
			}
			run, err := store.Open(args[0])
			if err != nil {
				return wrong(err)
			}
			m, err := report.Build(run)
			if err != nil {
				return err
			}
			files, several := a.format(format).(report.Files)
			switch {
			case several && (out != "" || part != ""):
				return a.writeFiles(cmd.Context(), files, m, out, part)
			case part != "":
				return wrong(fmt.Errorf("--part %s: %s is one file; leave it out", part, format))
			case out == "":
				return a.format(format).Write(cmd.Context(), a.env.Stdout, m)
			}
			return a.writeReport(cmd.Context(), m, format, out)
		},
	}
	c.Flags().StringVar(&format, "format", "text", "one of "+names(a.catalog.Formats, func(f Format) string { return f.Name }))
	c.Flags().StringVarP(&out, "output", "o", "", "file to write instead of standard output; of latex, svg and fortio without --part, a folder")
	c.Flags().StringVar(&part, "part", "", "the one file to write, of a format that has several")
	return c
}

func (a *app) reportHelp() string {
	var b strings.Builder
	b.WriteString("Derives a report from a run's records. The formats are\n\n")
	for _, f := range a.catalog.Formats {
		fmt.Fprintf(&b, "  %-12s %s\n", f.Name, f.Summary)
	}
	return b.String()
}

// writeFiles writes a format's files into a folder, or one of them.
func (a *app) writeFiles(ctx context.Context, f report.Files, m *report.Model, out, part string) error {
	files, err := f.Files(ctx, m)
	if err != nil {
		return err
	}
	if part == "" {
		if err = os.MkdirAll(out, 0o755); err != nil {
			return fmt.Errorf("making the folder of the report: %w", err)
		}
		for _, file := range files {
			if err = store.WriteFile(filepath.Join(out, file.Name), file.Data); err != nil {
				return err
			}
		}
		return nil
	}
	i := slices.IndexFunc(files, func(file report.File) bool { return file.Name == part })
	if i < 0 {
		return wrong(fmt.Errorf("--part %s: there is no such file; there are %s", part, names(files, func(file report.File) string { return file.Name })))
	}
	if out != "" {
		return store.WriteFile(out, files[i].Data)
	}
	_, err = a.env.Stdout.Write(files[i].Data)
	return err
}

// format finds a report format by name; nil if there is none.
func (a *app) format(name string) report.Format {
	i := slices.IndexFunc(a.catalog.Formats, func(f Format) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return a.catalog.Formats[i].Format
}

func (a *app) writeReport(ctx context.Context, m *report.Model, format, path string) error {
	f := a.format(format)
	if f == nil {
		return fmt.Errorf("no report format %q", format)
	}
	var b bytes.Buffer
	if err := f.Write(ctx, &b, m); err != nil {
		return fmt.Errorf("writing the %s report: %w", format, err)
	}
	return store.WriteFile(path, b.Bytes())
}

func (a *app) verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "verify RUN", Short: "Check a run's digests and derive every number again from the raw outcomes", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.verify(cmd.Context(), args[0]) },
	}
}

func (a *app) verify(ctx context.Context, dir string) error {
	run, err := store.Open(dir)
	if err != nil {
		return fmt.Errorf("verifying: %w", err)
	}
	if err = run.CheckFiles(); err != nil {
		return fmt.Errorf("verifying %s: %w", dir, err)
	}
	m, err := report.Build(run)
	if err != nil {
		return fmt.Errorf("verifying %s: %w", dir, err)
	}
	if m.Run.PlanDigest != run.Meta.PlanDigest {
		return fmt.Errorf("verifying %s: the plan is not the one that the run began with", dir)
	}
	for name, file := range derived() {
		if err := a.same(ctx, m, name, filepath.Join(dir, file)); err != nil {
			return fmt.Errorf("verifying %s: %w", dir, err)
		}
	}
	a.printf("%s: %d outcomes, every digest and every derived number agree\n", dir, len(run.Outcomes))
	return nil
}

// same derives a file again and compares; one that does not exist was never
// derived.
func (a *app) same(ctx context.Context, m *report.Model, format, path string) error {
	kept, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var derived bytes.Buffer
	if err := a.format(format).Write(ctx, &derived, m); err != nil {
		return err
	}
	if !bytes.Equal(kept, derived.Bytes()) {
		return fmt.Errorf("%s differs from what the raw outcomes give: it was changed, or written by another version", path)
	}
	return nil
}

func (a *app) upCommand() *cobra.Command {
	return &cobra.Command{
		Use: "up STUDY VARIANT", Short: "Deploy a variant and keep it up until ctrl-C, to look around in it", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return a.up(cmd.Context(), args[0], args[1]) },
	}
}

func (a *app) up(ctx context.Context, name, variant string) error {
	j, err := a.prepare([]string{name}, runOptions{})
	if err != nil {
		return err
	}
	s := j.plan.Study
	i := slices.IndexFunc(s.Variants, func(v model.Variant) bool { return v.Name == variant })
	if i < 0 {
		return wrong(fmt.Errorf("study %s has no variant %q; it has %s", name, variant, names(s.Variants, func(v model.Variant) string { return v.Name })))
	}
	if err = a.check(ctx, s); err != nil {
		return err
	}
	inside, code, err := a.catalog.Lab.Enter(ctx)
	if err != nil {
		return err
	}
	if !inside {
		return silent(code)
	}
	return errors.Join(a.upInside(ctx, s, s.Variants[i]), a.catalog.Lab.Close())
}

func (a *app) upInside(ctx context.Context, s model.Study, v model.Variant) (err error) {
	site, err := a.catalog.Lab.Provision(ctx, s.Topology)
	if err != nil {
		return err
	}
	after := context.WithoutCancel(ctx)
	defer func() { err = errors.Join(err, site.Close(after)) }()
	theApp, err := a.newApp(s)
	if err != nil {
		return err
	}
	endpoints, err := theApp.Deploy(ctx, site)
	if err != nil {
		return err
	}
	layers, err := a.stack(v)
	if err != nil {
		return err
	}
	for _, l := range layers {
		remove, err := l.Deploy(ctx, site)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, remove(after)) }()
	}
	a.describeSite(site, v, endpoints)
	return a.serveLive(ctx, place{target: a.catalog.Lab}, "", func() string { return v.Name }, func() error { return a.catalog.Lab.ServeExec(ctx, site) })
}

func (a *app) describeSite(site model.Site, v model.Variant, e model.Endpoints) {
	a.printf("%s is up.\n", v.Name)
	for _, n := range site.Topology().Nodes() {
		for _, p := range n.Pods {
			if pod, err := site.Pod(p.Name); err == nil {
				a.printf("  %s/%s %s\n", n.Name, p.Name, pod.Addr())
			}
		}
	}
	if svc, err := site.Service(e.Service); err == nil {
		a.printf("  service %s %s:%d -> port %d\n", svc.Name, svc.VIP, svc.Port, svc.TargetPort)
	}
	a.printf("Look around from another terminal, e.g.\n  windtunnel exec client -- curl -si http://%s/\nctrl-C takes it down.\n", e.Backends[0].Addr)
}

func (a *app) execCommand() *cobra.Command {
	return &cobra.Command{
		Use: "exec POD -- COMMAND [ARG...]", Short: "Run a command in a pod of the site that `up` keeps", Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			code, err := a.catalog.Lab.Exec(cmd.Context(), args[0], args[1:])
			if err != nil {
				return err
			}
			if code != 0 {
				return silent(code)
			}
			return nil
		},
	}
}

func (a *app) doctorCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "doctor", Short: "Probe what this host can do", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			probes := a.catalog.Lab.Probes(cmd.Context())
			for _, l := range a.catalog.Layers {
				probes = append(probes, probe(cmd.Context(), "layer "+l.Name, l.New))
			}
			for _, p := range a.catalog.Apps {
				probes = append(probes, probe(cmd.Context(), "app "+p.Name, p.New))
			}
			if asJSON {
				out := json.NewEncoder(a.env.Stdout)
				out.SetIndent("", " ")
				return out.Encode(probes)
			}
			for _, p := range probes {
				a.printProbe(p)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func (a *app) printProbe(p model.Probe) {
	mark := "no "
	if p.OK {
		mark = "yes"
	}
	a.printf("%s  %-24s %s\n", mark, p.Name, p.Detail)
	if !p.OK && p.Hint != "" {
		a.printf("     %-24s -> %s\n", "", p.Hint)
	}
}

// probe asks a plug-in whether it works here.
func probe[T any](ctx context.Context, name string, build func(json.RawMessage) (T, error)) model.Probe {
	p := model.Probe{Name: name, Needed: "studies that use it"}
	plugin, err := build(nil)
	if err == nil {
		if c, ok := any(plugin).(checker); ok {
			err = c.Check(ctx)
		}
	}
	var missing *model.UnsupportedError
	switch {
	case err == nil:
		p.OK, p.Detail = true, "works here"
	case errors.As(err, &missing):
		p.Detail, p.Hint = missing.Missing, missing.Hint
	default:
		p.Detail = err.Error()
	}
	return p
}

func (a *app) cleanCommand() *cobra.Command {
	var f targetFlags
	c := &cobra.Command{
		Use: "clean", Short: "Remove what killed runs have left on this host, or in clusters", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			sweep := func() ([]string, error) { return a.catalog.Lab.Sweep() }
			if f.target == model.TargetKube {
				sweep = func() ([]string, error) { return a.cleanKube(cmd.Context(), f) }
			} else if f.target != "" && f.target != model.TargetLab {
				return wrong(fmt.Errorf("--target %s: there are lab and kube", f.target))
			}
			removed, err := sweep()
			for _, r := range removed {
				a.printf("removed %s\n", r)
			}
			if len(removed) == 0 && err == nil {
				a.printf("nothing to remove\n")
			}
			return err
		},
	}
	f.add(c)
	return c
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Run: func(*cobra.Command, []string) { a.printf("windtunnel %s\n", a.env.Version) },
	}
}
