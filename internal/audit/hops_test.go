package audit

import (
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Servers whose database is a round trip away, some of them after opening a
// connection: the modes are told apart by the path.
func TestHopsBetweenRegionsExplainModes(t *testing.T) {
	t.Parallel()
	pods := func(names ...string) []model.Cluster {
		n := model.Node{Name: "node-" + names[0]}
		for _, name := range names {
			n.Pods = append(n.Pods, model.PodSpec{Name: name})
		}
		return []model.Cluster{{Name: "cluster-" + names[0], Nodes: []model.Node{n}}}
	}
	study := model.Study{
		Topology: model.Topology{
			Regions: []model.Region{{Name: "here", Clusters: pods("client", "server-0", "redis-0")}, {Name: "there", Clusters: pods("server-1", "redis-1")}},
			Links:   []model.Link{{A: "here", B: "there", Delay: 50 * time.Millisecond}},
		},
		Loads: []model.Load{{Name: "l", From: "client"}},
	}
	trace := func(hops ...string) *model.Trace {
		tr := &model.Trace{Responders: []string{"server-0"}, Causes: []model.Cause{"timed out"}, Paths: hops}
		return tr
	}
	add := func(tr *model.Trace, path, n int, took time.Duration) {
		for range n {
			tr.Due, tr.Response = append(tr.Due, 0), append(tr.Response, took.Microseconds())
			tr.Who, tr.Path = append(tr.Who, 0), append(tr.Path, path)
		}
	}
	tr := trace("server-0,redis-0", "server-0,redis-1", "server-1,redis-0")
	add(tr, 0, 80, 2*time.Millisecond)
	add(tr, 1, 15, 102*time.Millisecond)
	add(tr, 1, 3, 302*time.Millisecond)
	add(tr, 1, 1, 150*time.Millisecond)
	add(tr, 2, 4, 203*time.Millisecond)
	tr.Due, tr.Response, tr.Who, tr.Path = append(tr.Due, 0), append(tr.Response, 1), append(tr.Who, -2), append(tr.Path, -1)
	o := model.Outcome{Trial: model.Trial{Load: "l", Variant: "v"}, Load: &model.LoadResult{Trace: tr}}
	found := Judge(Evidence{Study: study, Outcomes: []model.Outcome{o}}, []Rule{farHops()})
	if len(found) != 1 || found[0].Severity != model.SeverityNote || found[0].Rule != farHopsName {
		t.Fatalf("%+v", found)
	}
	want := "23 of 103 answers: server-0,redis-1 crosses at server-0>redis-1 (100ms a round trip): 15 took 1 RTT, 3 took 3 RTT, 1 otherwise; " +
		"server-1,redis-0 crosses at client>server-1, server-1>redis-0 (100ms a round trip): 4 took 2 RTT"
	if !strings.Contains(found[0].Evidence, want) {
		t.Errorf("got  %s\nwant %s", found[0].Evidence, want)
	}

	near := trace("server-0,redis-0")
	add(near, 0, 10, time.Millisecond)
	o.Load.Trace = near
	if d := crossings(study, &o); d != nil {
		t.Errorf("nothing crosses: %+v", d)
	}
	// Without paths of hops, who answered tells as much as there is.
	plain := &model.Trace{Responders: []string{"server-1"}, Due: []int64{0}, Response: []int64{101_000}, Who: []int{0}}
	o.Load.Trace = plain
	if d := crossings(study, &o); d == nil || !strings.Contains(d.Evidence, "client>server-1 (100ms a round trip): 1 took 1 RTT") {
		t.Errorf("%+v", d)
	}
}
