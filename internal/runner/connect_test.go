package runner

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/model"
)

// tiers is an app of two services that notes what it is told.
type tiers struct {
	app
	told *[]string
	err  error
}

func (a tiers) Connect(_ context.Context, _ model.Site, front func(string) []netip.AddrPort) error {
	var all []string
	for _, service := range []string{"server", "database", "no such"} {
		for _, at := range front(service) {
			all = append(all, service+" "+at.String())
		}
	}
	*a.told = append(*a.told, strings.Join(all, ", "))
	return a.err
}

// fronting is a layer with other addresses than the pods' own.
type fronting struct {
	layer

	server netip.AddrPort // where somebody answers
}

func (f fronting) Front(s model.Service) []netip.AddrPort {
	if s.Name == "server" {
		return []netip.AddrPort{f.server}
	}
	return []netip.AddrPort{netip.MustParseAddrPort("10.96.0.1:80")}
}

func twoTiers(t *testing.T) (Settings, *sink, *[]string) {
	t.Helper()
	s, _, sk := settings(t)
	study := &s.Plan.Study
	study.Topology.Regions[0].Clusters[0].Nodes[0].Pods = append(study.Topology.Regions[0].Clusters[0].Nodes[0].Pods, model.PodSpec{Name: "database-0", Role: "server"})
	study.Topology.Services = append(study.Topology.Services, model.Service{Name: "database", Pods: []string{"database-0"}})
	var told []string
	s.App = tiers{app: app{addr: s.App.(app).addr}, told: &told} //nolint:forcetypeassert,errcheck // settings made it
	return s, sk, &told
}

func TestConnect(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	s, sk, told := twoTiers(t)
	var notes []string
	at := s.App.(tiers).addr //nolint:forcetypeassert,errcheck // twoTiers made it
	s.Stack = func(v model.Variant) ([]model.Layer, error) {
		if v.Name == "direct" {
			return nil, nil
		}
		return []model.Layer{fronting{layer{"a", &notes, nil}, at}, layer{"b", &notes, nil}}, nil
	}
	if _, err := Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, one := range *told {
		counts[one]++
	}
	want := map[string]int{
		"server 127.0.0.1:0, database 127.0.0.1:0":          6, // the pods' own
		"server " + at.String() + ", database 10.96.0.1:80": 6,
	}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	for _, o := range sk.outcomes {
		if o.Failure != nil || len(o.Endpoints.Backends) != 1 {
			t.Errorf("%s: %+v, %+v", o.Trial.Variant, o.Failure, o.Endpoints)
		}
	}
}

func TestConnectFails(t *testing.T) {
	t.Parallel()
	s, sk, told := twoTiers(t)
	s.App = tiers{app: app{addr: s.App.(tiers).addr}, told: told, err: errors.New("boom")} //nolint:forcetypeassert,errcheck // as above
	if _, err := Run(t.Context(), s); err != nil || len(sk.outcomes) != 12 {
		t.Fatalf("%v, %d outcomes", err, len(sk.outcomes))
	}
	for _, o := range sk.outcomes {
		if o.Failure == nil || o.Failure.Step != "deploying the stack" || !strings.Contains(o.Failure.Error, "connecting the app's services: boom") {
			t.Errorf("%+v", o.Failure)
		}
	}
}

func TestEntry(t *testing.T) {
	t.Parallel()
	backends := func(pods ...string) (all []model.Backend) {
		for _, p := range pods {
			all = append(all, model.Backend{Pod: p})
		}
		return all
	}
	topology := model.Topology{Services: []model.Service{{Name: "a", Pods: []string{"a-0", "a-1"}}, {Name: "b", Pods: []string{"b-0"}}}}
	for service, want := range map[string][]model.Backend{"a": backends("a-0", "a-1"), "b": backends("b-0"), "c": backends("a-0", "a-1", "b-0")} {
		e := model.Endpoints{Backends: backends("a-0", "a-1", "b-0")}
		if entry(&e, topology, service); !cmp.Equal(e.Backends, want, cmp.Comparer(func(x, y model.Backend) bool { return x == y })) {
			t.Errorf("%s: %+v", service, e)
		}
	}
}

func TestHopsAreAFact(t *testing.T) {
	t.Parallel()
	got := answers(model.Ready{Headers: map[string]string{"x-windtunnel-hops": "front-0,back-1"}})
	want := model.Ledger{{Layer: "app", Key: "path of hops", Value: "front-0,back-1", Source: model.SourceAnswer}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
