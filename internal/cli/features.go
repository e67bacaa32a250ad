package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/command"
	"github.com/windtunnel/windtunnel/internal/feature"
	"github.com/windtunnel/windtunnel/internal/model"
)

// usualStudies are those whose variants can be named without their study; those
// of the first are checked if nothing is named.
func usualStudies() []string { return []string{"bookinfo", "quick"} }

type featureOptions struct {
	format         string
	only, required []string
	quiet          bool
}

func (a *app) featuresCommand() *cobra.Command {
	var o featureOptions
	c := &cobra.Command{
		Use:   "features [STUDY|VARIANT] [VARIANT...]",
		Short: "Prove what variants can do: execute a check for each feature",
		Long: `Deploys each variant's stack on a small site of its own, gives its layers the rules
of each feature, sends requests that the rules are about, and prints what was seen.
A layer that takes no rules is sent the same requests. Only the stacks of a study
are used, not its topology, app and loads.

  windtunnel features                     all variants of the study bookinfo
  windtunnel features service envoy       variants of bookinfo or quick
  windtunnel features FILE VARIANT...     variants of a study of one's own
  windtunnel features --list              what is checked`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.features(cmd.Context(), args, o) },
	}
	list := c.Flags().Bool("list", false, "print what is checked, and check nothing")
	c.Flags().StringVar(&o.format, "format", "text", "one of text, md, json")
	c.Flags().StringArrayVar(&o.only, "only", nil, "check this `feature` only; may be given again")
	c.Flags().StringArrayVar(&o.required, "require", nil, "exit with 3 unless every variant has this `feature`; may be given again")
	c.Flags().BoolVar(&o.quiet, "quiet", false, "no progress, only the result")
	check := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if *list {
			return a.listFeatures()
		}
		return check(cmd, args)
	}
	return c
}

func (a *app) listFeatures() error {
	for _, c := range feature.Checks() {
		a.printf("%-18s  %-26s  %s\n", c.Group, c.Name, c.Asks)
	}
	return nil
}

// features is the whole of `windtunnel features`.
func (a *app) features(ctx context.Context, args []string, o featureOptions) error {
	checks, err := chosen(o)
	if err != nil {
		return wrong(err)
	}
	if !slices.Contains([]string{"text", "md", "json"}, o.format) {
		return wrong(fmt.Errorf("no format %q; there are text, md, json", o.format))
	}
	s, err := a.featureStudy(args)
	if err != nil {
		return err
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
	table, err := feature.Prove(ctx, a.catalog.Lab, a.stacks(s), checks, func(stack, check string) {
		if !o.quiet {
			a.complain("%s: %s\n", stack, check)
		}
	})
	if err = errors.Join(err, a.catalog.Lab.Close()); err != nil {
		return err
	}
	if err = a.writeFeatures(table, o.format); err != nil {
		return err
	}
	return missingFeatures(table, o.required)
}

func (a *app) writeFeatures(t feature.Table, format string) error {
	switch format {
	case "json":
		return t.WriteJSON(a.env.Stdout)
	case "md":
		return t.WriteMarkdown(a.env.Stdout)
	}
	return t.WriteText(a.env.Stdout)
}

// chosen are the checks that were asked for, with those that are required.
func chosen(o featureOptions) ([]feature.Check, error) {
	all := feature.Checks()
	wanted := slices.Concat(o.only, o.required)
	var known []string
	for _, c := range all {
		known = append(known, c.Name)
	}
	for _, name := range wanted {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("no feature %q; there are %s", name, strings.Join(known, ", "))
		}
	}
	if len(o.only) > 0 {
		all = slices.DeleteFunc(all, func(c feature.Check) bool { return !slices.Contains(wanted, c.Name) })
	}
	return all, nil
}

// featureStudy is a study with the variants that were asked for: of the study
// that the first argument names, or else of the usual ones, each of the first
// that has it.
func (a *app) featureStudy(args []string) (model.Study, error) {
	if len(args) == 0 || !a.isVariant(args[0]) {
		name, variants := usualStudies()[0], args
		if len(args) > 0 {
			name, variants = args[0], args[1:]
		}
		s, err := a.featureVariants(name)
		if err != nil || len(variants) == 0 {
			return s, err
		}
		return narrowed(s, variants)
	}
	var pool model.Study
	for _, name := range usualStudies() {
		s, err := a.featureVariants(name)
		if err != nil {
			return s, err
		}
		for _, v := range pool.Variants {
			s.Variants = slices.DeleteFunc(s.Variants, func(o model.Variant) bool { return o.Name == v.Name })
		}
		s.Variants = append(pool.Variants, s.Variants...)
		pool = s
	}
	pool.Name = strings.Join(usualStudies(), " or ")
	return narrowed(pool, args)
}

// featureVariants reads a study for its variants.
func (a *app) featureVariants(name string) (model.Study, error) {
	j, err := a.prepare([]string{name}, runOptions{})
	if err != nil {
		return model.Study{}, err
	}
	s := j.plan.Study
	if s.Target != model.TargetLab {
		return s, &model.UnsupportedError{What: "checking features on the target " + s.Target, Missing: "the checks send from places outside the mesh, which only the lab has"}
	}
	s.Variants = slices.DeleteFunc(s.Variants, func(v model.Variant) bool { return v.Control })
	return s, nil
}

// narrowed leaves only the variants that were asked for, in that order.
func narrowed(s model.Study, variants []string) (model.Study, error) {
	var kept []model.Variant
	for _, want := range variants {
		i := slices.IndexFunc(s.Variants, func(v model.Variant) bool { return v.Name == want })
		if i < 0 {
			known := names(s.Variants, func(v model.Variant) string { return v.Name })
			return s, wrong(fmt.Errorf("study %s has no variant %q; it has %s", s.Name, want, known))
		}
		kept = append(kept, s.Variants[i])
	}
	s.Variants = kept
	return s, nil
}

// isVariant says whether one of the usual studies has such a variant, and no
// built-in study is called that.
func (a *app) isVariant(name string) bool {
	if slices.ContainsFunc(a.catalog.Studies, func(s Study) bool { return s.Name == name }) {
		return false
	}
	for _, study := range usualStudies() {
		s, err := a.featureVariants(study)
		if err == nil && slices.ContainsFunc(s.Variants, func(v model.Variant) bool { return v.Name == name }) {
			return true
		}
	}
	return false
}

func (a *app) stacks(s model.Study) []feature.Stack {
	var all []feature.Stack
	for _, v := range s.Variants {
		one := feature.Stack{Name: v.Name, Make: func() ([]model.Layer, error) { return a.stack(v) }}
		for _, ref := range v.Stack {
			one.Layers = append(one.Layers, ref.Kind)
		}
		all = append(all, one)
	}
	return all
}

// missingFeatures is an error where a variant lacks what is required.
func missingFeatures(t feature.Table, required []string) error {
	var errs []error
	for _, l := range t.Lines {
		for i, r := range l.Results {
			if slices.Contains(required, l.Feature) && r.Verdict != feature.Yes {
				errs = append(errs, fmt.Errorf("%s: %s: %s", t.Variants[i].Name, l.Feature, r.Verdict))
			}
		}
	}
	if len(errs) > 0 {
		return command.Exit(command.ExitGate, errors.Join(errs...))
	}
	return nil
}

// featureScoutCommand is what sends and receives for the checks.
func (a *app) featureScoutCommand() *cobra.Command {
	return &cobra.Command{
		Use: feature.Command, Short: "Send, receive and tell, on command over standard input", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return feature.Serve(cmd.Context(), a.env.Stdin, a.env.Stdout)
		},
	}
}
