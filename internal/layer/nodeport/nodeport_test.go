package nodeport_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/layer/nodeport"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestMain(m *testing.M) { labtest.Main(m, labtest.Commands{labtest.CommandServe: labtest.Serve}) }

func layer(t *testing.T, config string) *nodeport.Layer {
	t.Helper()
	l, err := nodeport.Plugin().New(json.RawMessage(config))
	if err != nil {
		t.Fatal(err)
	}
	port, ok := l.(*nodeport.Layer)
	if !ok {
		t.Fatalf("it is a %T", l)
	}
	return port
}

func TestConfig(t *testing.T) {
	t.Parallel()
	labtest.Configs(t, nodeport.Plugin(), map[string]string{
		"{}": "services", `{"services": ["a"]}`: "via", `{"via": "n"}`: "services", `{"services": ["a"], "via": "n", "port": 1}`: "port",
	})
}

// site has a host outside, and a server that is not on the node with the port.
func site(t *testing.T) model.Site {
	t.Helper()
	node := func(name, pod, role string) model.Node {
		return model.Node{Name: name, Pods: []model.PodSpec{{Name: pod, Role: role}}}
	}
	return labtest.Site(t, model.Topology{
		Regions: []model.Region{{Name: "r", Clusters: []model.Cluster{
			{Name: "in", Network: "in", Nodes: []model.Node{node("node-0", "client", "client"), node("node-1", "server-0", "server"), node("node-2", "server-1", "server")}},
			{Name: "out", Network: "out", Nodes: []model.Node{node("host", "external", "client")}},
		}}},
		Services: []model.Service{{Name: "server", Port: 80, TargetPort: 8080, Pods: []string{"server-0"}}, {Name: "other", Port: 80, TargetPort: 8080, Pods: []string{"server-1"}}},
	})
}

func TestFromOutside(t *testing.T) {
	t.Parallel()
	for _, via := range []string{"node-0", "node-1"} {
		t.Run(via, func(t *testing.T) {
			t.Parallel()
			s := site(t)
			labtest.StartServers(t, s)
			l := layer(t, `{"services": ["server"], "via": "`+via+`"}`)
			before := labtest.State(t, s)
			remove, err := l.Deploy(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			front := l.Front(model.Service{Name: "server"})
			if len(front) != 1 || front[0].Port() != 30080 || l.Front(model.Service{Name: "other"}) != nil {
				t.Fatalf("fronts are %v and %v", front, l.Front(model.Service{Name: "other"}))
			}
			for _, from := range []string{"external", "client"} {
				var who string
				labtest.Eventually(t, func() (err error) {
					who, err = labtest.Ask(t, s, from, front[0], "server")
					return err
				})
				if who != "server-0" {
					t.Errorf("%s was answered by %q", from, who)
				}
			}
			facts, err := l.Observe(t.Context(), s)
			if err != nil || len(facts) != 2 || !strings.HasPrefix(facts[1].Value, "yes") {
				t.Errorf("%+v, %v", facts, err)
			}
			if err := remove(t.Context()); err != nil {
				t.Fatal(err)
			}
			after := labtest.State(t, s)
			if b, a := before[via], after[via]; strings.Join(a, "\n") != strings.Join(b, "\n") {
				t.Errorf("left behind: %v, was %v", a, b)
			}
		})
	}
}
