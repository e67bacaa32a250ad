package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/study"
)

// KubeTarget is the target of real clusters.
type KubeTarget interface {
	model.Target
	// Open connects, makes the run's namespaces, and tries that a site of the
	// topology can be made.
	Open(ctx context.Context, t model.Topology) error
	Host() model.Host
	// Sweep removes what killed runs have left in the clusters.
	Sweep(ctx context.Context) (removed []string, err error)
	Close(ctx context.Context) error
}

// KubeOptions are what the target of real clusters is told besides the study.
type KubeOptions struct {
	Kubeconfig string
	Version    string
	Run        string
	Earlier    model.Ledger // of a session that is continued
	Meshes     []model.Mesh // of all variants
	Faults     bool         // the study kills pods
}

// targetFlags say where trials run, instead of the study.
type targetFlags struct {
	target     string
	contexts   []string
	namespace  string
	image      string
	kubeconfig string
}

func (f *targetFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.target, "target", "", "where trials run, instead of the study's: lab (this host) or kube (real clusters)")
	c.Flags().StringSliceVar(&f.contexts, "context", nil, "contexts of the kubeconfig, in the order of the topology's clusters (default the current one)")
	c.Flags().StringVar(&f.namespace, "namespace", "", "namespace that exists, to work in (default one of the run's own)")
	c.Flags().StringVar(&f.image, "image", "", "image of the pods (default the one of make image)")
	c.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file (default $KUBECONFIG, then ~/.kube/config)")
}

// apply changes a study to run where the flags say.
func (f *targetFlags) apply(s model.Study) (model.Study, error) {
	if f.target != "" && f.target != s.Target {
		if !slices.Contains([]string{model.TargetLab, model.TargetKube}, f.target) {
			return s, fmt.Errorf("--target %s: there are lab and kube", f.target)
		}
		s.Target, s.Kube = f.target, nil
	}
	if s.Target != model.TargetKube {
		if len(f.contexts) > 0 || f.namespace != "" || f.image != "" || f.kubeconfig != "" {
			return s, errors.New("--context, --namespace, --image and --kubeconfig are for --target kube")
		}
		return study.OnTarget(s)
	}
	k := model.Kube{}
	if s.Kube != nil {
		k = *s.Kube
	}
	if len(f.contexts) > 0 {
		k.Contexts = f.contexts
	}
	if f.namespace != "" {
		k.Namespace = f.namespace
	}
	if f.image != "" {
		k.Image = f.image
	}
	s.Kube = &k
	return study.OnTarget(s)
}

// checkKube says what of a study does not work on real clusters, all at once.
func (a *app) checkKube(s model.Study) error {
	var errs []error
	portable := func(what, instead string, plugin any) {
		p, ok := plugin.(model.Portable)
		if !ok {
			errs = append(errs, &model.UnsupportedError{
				What: what + " on the target kube", Missing: "it works inside this host's network namespaces only",
				Hint: instead + ", or run the study with --target lab",
			})
			return
		}
		if err := p.CheckTarget(model.TargetKube); err != nil {
			errs = append(errs, err)
		}
	}
	app, err := a.newApp(s)
	if err != nil {
		return err
	}
	portable("the app "+s.App.Kind, "use the app echo", app)
	for _, v := range s.Variants {
		layers, err := a.stack(v)
		if err != nil {
			return err
		}
		for i, l := range layers {
			what := fmt.Sprintf("the layer %s of variant %s", v.Stack[i].Kind, v.Name)
			portable(what, "give the variant targets: [lab], so that it is left out on kube", l)
		}
	}
	for _, l := range s.Loads {
		if l.Driver != "" {
			errs = append(errs, &model.UnsupportedError{
				What: "the driver " + l.Driver + " on the target kube", Missing: "outside tools are not in the pods' image",
				Hint: "leave driver out: our own engine then sends the load",
			})
		}
	}
	if s.Limited() {
		errs = append(errs, &model.UnsupportedError{
			What: "limits of components on the target kube", Missing: "they are set on this host's control groups", Hint: "run the study with --target lab",
		})
	}
	return errors.Join(append(errs, a.checkHarms(s, portable))...)
}

// checkHarms looks at the faults of all scenarios.
func (a *app) checkHarms(s model.Study, portable func(what, instead string, plugin any)) error {
	for _, scenario := range s.Faults {
		for _, e := range scenario.Events {
			f, err := a.fault(e.Fault)
			if err != nil {
				return err
			}
			portable(fmt.Sprintf("the fault %s of %s", e.Fault.Kind, scenario.Name), "use kill with power: false", f)
		}
	}
	return nil
}

// misplaced says what of a study is for another target than its own.
func (a *app) misplaced(s model.Study) error {
	if s.Target == model.TargetKube {
		return a.checkKube(s)
	}
	var errs []error
	for _, v := range s.Variants {
		layers, err := a.stack(v)
		if err != nil {
			return err
		}
		for _, l := range layers {
			if p, ok := l.(model.Portable); ok {
				errs = append(errs, p.CheckTarget(s.Target))
			}
		}
	}
	return errors.Join(errs...)
}

// runKube carries a run out on real clusters.
func (a *app) runKube(ctx context.Context, j job, o runOptions) (err error) {
	if err = a.checkKube(j.plan.Study); err != nil {
		return err
	}
	if a.catalog.Kube == nil {
		return a.catalog.KubeProgram(a.env.Args)
	}
	options := KubeOptions{Kubeconfig: o.target.kubeconfig, Version: a.env.Version, Run: j.plan.Study.Name, Faults: len(j.plan.Study.Faults) > 0}
	if j.earlier != nil {
		for i := range j.earlier.Outcomes {
			options.Earlier = append(options.Earlier, j.earlier.Outcomes[i].Ledger...)
		}
	}
	if options.Meshes, err = a.meshes(j.plan.Study); err != nil {
		return err
	}
	target := a.catalog.Kube(*j.plan.Study.Kube, options)
	if !o.quiet {
		a.complain("making the run's place in the clusters, and one site on trial\n")
	}
	if err = target.Open(ctx, j.plan.Study.Topology); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close(context.WithoutCancel(ctx))) }()
	return a.runInside(ctx, j, o, place{target: target, host: target.Host()})
}

// meshes are those of all variants, each configuration once.
func (a *app) meshes(s model.Study) ([]model.Mesh, error) {
	var all []model.Mesh
	seen := map[string]bool{}
	for _, v := range s.Variants {
		layers, err := a.stack(v)
		if err != nil {
			return nil, err
		}
		for i, ref := range v.Stack {
			key := ref.Kind + string(ref.Config)
			if m, ok := layers[i].(model.Meshed); ok && !seen[key] {
				seen[key] = true
				all = append(all, m.Mesh())
			}
		}
	}
	return all, nil
}

// cleanKube removes what killed runs have left in clusters.
func (a *app) cleanKube(ctx context.Context, f targetFlags) ([]string, error) {
	if a.catalog.Kube == nil {
		return nil, a.catalog.KubeProgram(a.env.Args)
	}
	k := model.Kube{Contexts: f.contexts, Namespace: f.namespace, Image: f.image}
	return a.catalog.Kube(k, KubeOptions{Kubeconfig: f.kubeconfig, Version: a.env.Version}).Sweep(ctx)
}
