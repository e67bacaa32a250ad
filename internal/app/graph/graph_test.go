package graph

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/hop"
	"github.com/windtunnel/windtunnel/internal/model"
)

const chain = `{"services": [
	{"name": "front", "routes": [{"calls": [{"service": "back", "path": "/x", "timeout": "1s", "attempts": 2, "optional": true}], "order": "parallel", "work": "200us", "spread": "exponential"}],
	 "pool": {"connections": 8, "idle": 0, "idle_timeout": "1s", "fresh": true}},
	{"name": "back", "routes": [{"path": "/x", "delay": "1ms", "size": 0, "errors": "25%", "status": 500}]}]}`

func TestParse(t *testing.T) {
	t.Parallel()
	got, err := parse(json.RawMessage(chain))
	if err != nil {
		t.Fatal(err)
	}
	want := []service{
		{
			Name: "front", Pool: hop.Pool{Connections: 8, IdleTimeout: time.Second, Fresh: true},
			Routes: []route{{
				Path: "/", Work: 200 * time.Microsecond, Exponential: true, Size: 64, Status: 503, Parallel: true,
				Calls: []call{{Service: "back", Path: "/x", Timeout: time.Second, Attempts: 2, Optional: true}},
			}},
		},
		{
			Name: "back", Pool: hop.Pool{Idle: 100, IdleTimeout: 90 * time.Second},
			Routes: []route{{Path: "/x", Delay: time.Millisecond, Errors: 0.25, Status: 500}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAllProblems(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{}`:                     "services has 0 entries; it can have 1 to 100",
		`{"service": []}`:        "unknown field",
		`{"services": [{}, {}]}`: "services[0].name is missing: the name of a service of the topology\nservices[1].name is missing: the name of a service of the topology",
		`{"services": [{"name": "a", "pool": {"connections": -1, "idle": 10001, "idle_timeout": "2h"}}, {"name": "a"}]}`: `services[0].pool.idle_timeout is "2h"; it must be a time such as 200us, at most 1h0m0s
services[0].pool.connections is -1; it can be 0 (no bound) to 10000
services[0].pool.idle is 10001; it can be 0 to 10000
services[1].name is "a", as that of an earlier one`,
		`{"services": [{"name": "a", "routes": [
			{"path": "x?", "work": "11s", "delay": "-1s", "spread": "even", "size": -1, "errors": "1", "status": 200, "order": "random"},
			{"path": "/y"}, {"path": "/y", "calls": [{"service": "b"}, {"service": "a", "path": "/z", "timeout": "0s", "attempts": 11}]}]}]}`: `services[0].routes[0].path is "x?"; it must begin with / and have no query, spaces or escapes
services[0].routes[0].work is "11s"; it must be a time such as 200us, at most 10s
services[0].routes[0].delay is "-1s"; it must be a time such as 200us, at most 1m0s
services[0].routes[0].spread is "even"; it can be fixed or exponential
services[0].routes[0].errors is "1"; it must be a share such as 1%
services[0].routes[0].order is "random"; it can be sequential or parallel
services[0].routes[0].size is -1; it can be 0 to 8388608
services[0].routes[0].status is 200; it can be 400 to 599
services[0].routes[2].calls[1].timeout is 0; a call needs some time
services[0].routes[2].calls[1].attempts is 11; it can be 1 to 10
services[0].routes[2].path is "/y", as that of an earlier one
services[0].routes[2].calls[0].service is "b", which is no service of the graph
services[0].routes[2].calls[1].path is "/z", which the service a has no route for`,
		`{"services": [{"name": "a", "routes": [{"calls": [{"service": "b"}]}]}, {"name": "b", "routes": [{"calls": [{"service": "c"}]}]}, {"name": "c", "routes": [{"calls": [{"service": "b"}]}]}]}`: "services call each other without end: b/ -> c/ -> b/",
	} {
		_, err := parse(json.RawMessage(raw))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n%v\nwant\n%s", raw, err, want)
		}
	}
}

// Services may call each other where no route comes back to itself.
func TestNoCycle(t *testing.T) {
	t.Parallel()
	raw := `{"services": [{"name": "a", "routes": [{"calls": [{"service": "b"}, {"service": "b"}]}, {"path": "/leaf"}]}, {"name": "b", "routes": [{"calls": [{"service": "a", "path": "/leaf"}]}]}]}`
	if _, err := parse(json.RawMessage(raw)); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(chain)
	f.Add(`{"services": [{"name": "a", "routes": [{"calls": [{"service": "a"}]}]}]}`)
	f.Fuzz(func(t *testing.T, raw string) {
		all, err := parse(json.RawMessage(raw))
		if err != nil {
			return
		}
		for _, s := range all {
			for _, r := range s.Routes {
				if r.Size < 0 || r.Size > maxSize || r.Errors < 0 || r.Errors > 1 || r.Work > maxWork || len(r.Path) == 0 {
					t.Errorf("%q was accepted: %+v", raw, r)
				}
			}
		}
	})
}

func TestCheckTopology(t *testing.T) {
	t.Parallel()
	app, err := Plugin().New(json.RawMessage(chain))
	if err != nil {
		t.Fatal(err)
	}
	err = app.(model.TopologyChecker).CheckTopology(model.Topology{Services: []model.Service{{Name: "server"}}}) //nolint:forcetypeassert,errcheck // a compile-time fact
	if err == nil || err.Error() != "kind serves exactly the services front, back, and the topology has server" {
		t.Errorf("%v", err)
	}
}

// ask asks a server that calls nobody.
func ask(t *testing.T, s *server, path string) hop.Answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return s.answer(t.Context(), &hop.Exchange{Request: r})
}

func TestErrorsAreExact(t *testing.T) {
	t.Parallel()
	all, err := parse(json.RawMessage(chain))
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(all[1], "back-0")
	counts := map[int]int{}
	for range 100 {
		counts[ask(t, s, "/x").Status]++
	}
	if diff := cmp.Diff(map[int]int{200: 75, 500: 25}, counts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := ask(t, s, "/").Status; got != http.StatusNotFound {
		t.Errorf("status %d of a path without route", got)
	}
}

func TestCallsThatFail(t *testing.T) {
	t.Parallel()
	for optional, want := range map[string]int{"true": http.StatusOK, "false": http.StatusBadGateway} {
		for _, order := range []string{"parallel", "sequential"} {
			raw := strings.NewReplacer(`"optional": true`, `"optional": `+optional, "parallel", order).Replace(chain)
			all, err := parse(json.RawMessage(raw))
			if err != nil {
				t.Fatal(err)
			}
			if a := ask(t, newServer(all[0], "front-0"), "/"); a.Status != want {
				t.Errorf("optional %s, %s: status %d, %s", optional, order, a.Status, a.Body)
			}
		}
	}
}

func TestServeNeedsAFile(t *testing.T) {
	t.Parallel()
	if err := Serve(t.Context(), t.TempDir()+"/none"); err == nil {
		t.Error("no error")
	}
}
