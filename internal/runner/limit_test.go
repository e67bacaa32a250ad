package runner

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/model"
)

// bounded is a target whose sites take limits, and note them.
type bounded struct {
	*target
	set *[]string
	err error
}

func (b bounded) Provision(ctx context.Context, t model.Topology) (model.Site, error) {
	s, err := b.target.Provision(ctx, t)
	return boundedSite{s, b}, err
}

type boundedSite struct {
	model.Site
	of bounded
}

func (b boundedSite) Limit(limits model.ComponentLimits) (model.Ledger, error) {
	*b.of.set = append(*b.of.set, limits.String())
	return model.Ledger{{Layer: "limits", Key: "app", Value: limits.String(), Source: model.SourceConfig}}, b.of.err
}

func TestLimitsAreSet(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	s, tg, sk := settings(t)
	s.Plan.Study.Limits = model.ComponentLimits{model.ComponentApp: {CPU: 1}}
	s.Plan.Study.Variants[1].Limits = model.ComponentLimits{model.ComponentApp: {CPU: 0.5}}
	var set []string
	s.Target = bounded{tg, &set, nil}
	if _, err := Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	slices.Sort(set)
	if got := strings.Join(slices.Compact(set), ", "); got != "app 1000m CPU, app 500m CPU" || len(sk.outcomes) != 12 {
		t.Errorf("set %q in %d trials", got, len(sk.outcomes))
	}
	for _, o := range sk.outcomes {
		want := map[string]string{"direct": "app 1000m CPU", "layered": "app 500m CPU"}[o.Trial.Variant]
		if o.Failure != nil || !slices.ContainsFunc(o.Ledger, func(f model.Fact) bool { return f.Layer == "limits" && f.Value == want }) {
			t.Errorf("%s: %+v, ledger %v", o.Trial.Variant, o.Failure, o.Ledger)
		}
	}
}

func TestLimitThatCannotBeSetFailsItsTrial(t *testing.T) {
	t.Parallel()
	s, tg, sk := settings(t)
	s.Plan.Study.Loads[0].Limits = model.ComponentLimits{model.ComponentApp: {CPU: 1}}
	s.Target = bounded{tg, &[]string{}, errors.New("boom")}
	if _, err := Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	for _, o := range sk.outcomes {
		if o.Failure == nil || !strings.Contains(o.Failure.Error, "limiting components: boom") || o.Load != nil {
			t.Errorf("%+v", o.Failure)
		}
	}
}

// A target without limits says so, and the run ends: no other trial would fare
// better.
func TestLimitsWhereThereAreNone(t *testing.T) {
	t.Parallel()
	s, _, sk := settings(t)
	s.Plan.Study.Limits = model.ComponentLimits{model.ComponentApp: {CPU: 1}}
	_, err := Run(t.Context(), s)
	if !errors.Is(err, model.ErrUnsupported) || !strings.Contains(err.Error(), "a limit of app 1000m CPU is not supported here") || len(sk.outcomes) > 1 {
		t.Errorf("%v, %d outcomes", err, len(sk.outcomes))
	}
}
