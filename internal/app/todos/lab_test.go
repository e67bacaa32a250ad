package todos

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/hop"
	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
)

func TestMain(m *testing.M) { labtest.Main(m, labtest.AppServer(Name, Serve)) }

// clusters has a client, and in each of two clusters a server and a database.
func clusters() model.Topology {
	pod := func(name, role string) model.PodSpec { return model.PodSpec{Name: name, Role: role} }
	here := []model.Node{{Name: "node-0", Pods: []model.PodSpec{pod("client-0", "client")}}, {Name: "node-1", Pods: []model.PodSpec{pod("server-0", "server"), pod("redis-0", "server")}}}
	there := []model.Node{{Name: "node-2", Pods: []model.PodSpec{pod("server-1", "server"), pod("redis-1", "server")}}}
	return model.Topology{
		Regions: []model.Region{{Name: "r", Clusters: []model.Cluster{{Name: "here", Nodes: here}, {Name: "there", Nodes: there}}}},
		Services: []model.Service{
			{Name: "server", Port: 80, TargetPort: 8080, Pods: []string{"server-0", "server-1"}},
			{Name: "redis", Port: 6379, TargetPort: 6379, Pods: []string{"redis-0", "redis-1"}},
		},
	}
}

// deploy skips the test where there is no Redis.
func deploy(t *testing.T, config string) (model.Site, []model.Backend) {
	t.Helper()
	app, err := parse(json.RawMessage(config))
	if err != nil {
		t.Fatal(err)
	}
	if err = app.Check(t.Context()); err != nil && sys.Required("redis") {
		t.Fatalf("$WINDTUNNEL_REQUIRE says that there must be a Redis: %v", err)
	} else if err != nil {
		t.Skip(err)
	}
	site := labtest.Site(t, clusters())
	ends, err := app.Deploy(t.Context(), site)
	if err != nil {
		t.Fatal(err)
	}
	if ends.Service != "server" || len(ends.Backends) != 2 || ends.Backends[1].Identity != "server-1" {
		t.Errorf("%+v", ends)
	}
	// A stack whose service has the databases of all clusters.
	all, err := hop.Direct(site)("", "redis")
	if err != nil {
		t.Fatal(err)
	}
	if err := app.Connect(t.Context(), site, func(string) []netip.AddrPort { return all }); err != nil {
		t.Fatal(err)
	}
	return site, ends.Backends
}

// ask asks a server: "status hops body".
func ask(t *testing.T, site model.Site, at netip.AddrPort, method, body string) (string, error) {
	t.Helper()
	r, err := labtest.Get(t, site, "client-0", method, at, "/todos", body)
	return fmt.Sprintf("%d %s %s", r.Status, r.Header.Get(hop.HeaderHops), r.Body), err
}

func answers(t *testing.T, site model.Site, at netip.AddrPort, want string) {
	t.Helper()
	labtest.Eventually(t, func() error {
		got, err := ask(t, site, at, http.MethodGet, "")
		if err == nil && got != want {
			err = fmt.Errorf("%q, want %q", got, want)
		}
		return err
	})
}

const list = `["write","measure","report"]`

// Each server uses the database of its own cluster, whatever the service has.
func TestLocal(t *testing.T) {
	t.Parallel()
	site, servers := deploy(t, `{}`)
	for range 5 {
		answers(t, site, servers[0].Addr, `200 server-0,redis-0 `+list)
		answers(t, site, servers[1].Addr, `200 server-1,redis-1 `+list)
	}
	for _, b := range servers {
		if who, err := labtest.Ask(t, site, "client-0", b.Addr, ""); err != nil || who != b.Identity {
			t.Errorf("%q answered /: %v", who, err)
		}
	}
	if got, err := ask(t, site, servers[0].Addr, "POST", `{"title": "rest"}`); err != nil || got != `200 server-0,redis-0 {"title":"rest"}` {
		t.Errorf("%q, %v", got, err)
	}
	answers(t, site, servers[0].Addr, `200 server-0,redis-0 ["rest","write","measure","report"]`)
	answers(t, site, servers[1].Addr, `200 server-1,redis-1 `+list)
}

// A merged service sends new connections to the other cluster's database, too.
func TestMerged(t *testing.T) {
	t.Parallel()
	site, servers := deploy(t, `{"database": "merged", "idle": 0}`)
	var order []string
	labtest.Eventually(t, func() error {
		got, err := ask(t, site, servers[0].Addr, "GET", "")
		if err != nil || !strings.HasPrefix(got, "200") {
			return fmt.Errorf("%s %w", got, err)
		}
		if order = append(order, strings.Fields(got)[1]); len(order) < 4 {
			return fmt.Errorf("so far %v", order)
		}
		return nil
	})
	if order[0] == order[1] || order[1] == order[2] || order[2] == order[3] {
		t.Errorf("connections went to %v, not in turn", order)
	}
}

// A database that comes back is filled again.
func TestDeadDatabase(t *testing.T) {
	t.Parallel()
	site, servers := deploy(t, `{"todos": []}`)
	answers(t, site, servers[0].Addr, "200 server-0,redis-0 null")
	mortal, ok := labtest.Pod(t, site, "redis-0").(model.Mortal)
	if !ok {
		t.Fatal("pods cannot be killed here")
	}
	revive, err := mortal.Kill(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	labtest.Eventually(t, func() error {
		got, err := ask(t, site, servers[0].Addr, "GET", "")
		if err == nil && (!strings.HasPrefix(got, "500 server-0 ") || !strings.Contains(got, "connecting to the database")) {
			err = fmt.Errorf("%q", got)
		}
		return err
	})
	answers(t, site, servers[1].Addr, "200 server-1,redis-1 null")
	if err := revive(t.Context()); err != nil {
		t.Fatal(err)
	}
	answers(t, site, servers[0].Addr, "200 server-0,redis-0 null")
}
