package envoy

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/proxy"
)

// everyRule has all rules at once.
func everyRule() model.Rules {
	outside := netip.MustParseAddrPort("172.18.0.9:9001")
	return model.Rules{
		Service: "server", Subsets: map[string][]string{"v1": {"server-0"}, "v2": {"server-1"}},
		Routes: []model.Route{
			{Header: map[string]string{"end-user": "jason"}, To: []model.Weighted{{Subset: "v2", Weight: 100}}, Delay: 400 * time.Millisecond, Abort: http.StatusTeapot},
			{PathPrefix: "/v2", To: []model.Weighted{{Subset: "v1", Weight: 90}, {Subset: "v2", Weight: 10}}, Mirror: "v2"},
			{Timeout: 300 * time.Millisecond, Retries: 3, RetryOn: []int{http.StatusInternalServerError}},
		},
		Limit: 4, Eject: &model.Eject{Failures: 3, For: time.Minute}, Allow: []string{"client"}, Deny: []string{"stranger"},
		Egress: &model.Egress{Allowed: []netip.AddrPort{outside}}, Log: true, Spans: outside,
	}
}

// Under all rules at once a sidecar's configuration is what the golden files say,
// and Envoy finds it valid.
func TestRules(t *testing.T) {
	t.Parallel()
	site := regions("here", "there")
	for i := range site.topology.Regions {
		site.topology.Regions[i].Clusters[0].Network = "flat"
	}
	for i, name := range []string{"client", "server"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := example(t, site, "")
			files, err := m.files(m.sidecars[i])
			if err != nil {
				t.Fatal(err)
			}
			var config object
			if err = json.Unmarshal(files["envoy.json"], &config); err != nil {
				t.Fatal(err)
			}
			if err = m.follow(config, everyRule()); err != nil {
				t.Fatal(err)
			}
			if files["envoy.json"], err = proxy.Encode(config); err != nil {
				t.Fatal(err)
			}
			golden(t, name+".rules.json", files["envoy.json"])
			validate(t, files)
		})
	}
}

// Without rules a configuration stays as it is, but comes from files of xDS.
func TestSplit(t *testing.T) {
	t.Parallel()
	m := example(t, regions("here"), "")
	before, err := m.files(m.sidecars[1])
	if err != nil {
		t.Fatal(err)
	}
	v := live{version: 7}
	files, err := v.split(before)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"envoy.json":    {`"lds_config"`, `"cds_config"`, `"{dir}/lds.json"`, `"admin"`},
		fileListeners:   {`"version_info": "7"`, "envoy.config.listener.v3.Listener", "virtualInbound", "virtualOutbound", `"{dir}/sds-cert.json"`},
		fileClusters:    {`"version_info": "7"`, "envoy.config.cluster.v3.Cluster", "inbound|server", `"{dir}/sds-cert.json"`},
		"sds-cert.json": {`"version_info": "7"`, "{dir}/cert.pem", "{dir}/key.pem"},
	} {
		for _, w := range want {
			if !strings.Contains(string(files[name]), w) {
				t.Errorf("%s: no %s in\n%s", name, w, files[name])
			}
		}
		if strings.Contains(string(files[name]), "static_resources") || strings.Contains(string(files[name]), "tls_certificates\"") {
			t.Errorf("%s holds something for good:\n%s", name, files[name])
		}
	}
	if _, err := v.split(map[string][]byte{"envoy.json": []byte("no")}); err == nil {
		t.Error("nonsense was split")
	}
}

func TestFollowed(t *testing.T) {
	t.Parallel()
	const clusters, listeners = "cluster_manager.cds.version_text: \"3\"\n", "listener_manager.lds.version_text: \"3\"\n"
	for name, c := range map[string]struct {
		file, stats string
		version     int
		done, bad   bool
	}{
		"clusters":      {fileClusters, clusters, 3, true, false},
		"listeners":     {fileListeners, listeners, 3, true, false},
		"the other":     {fileListeners, clusters, 3, false, false},
		"an older one":  {fileClusters, clusters, 4, false, false},
		"warming":       {fileClusters, clusters + "cluster_manager.warming_clusters: 1\n", 3, false, false},
		"warm":          {fileClusters, clusters + "cluster_manager.warming_clusters: 0\n", 3, true, false},
		"refused":       {fileListeners, listeners + "listener_manager.lds.update_rejected: 1\n", 3, false, true},
		"other refused": {fileListeners, listeners + "cluster_manager.cds.update_rejected: 1\n", 3, true, false},
	} {
		if done, err := followed(c.file, c.version, 0)([]byte(c.stats)); done != c.done || (err != nil) != c.bad {
			t.Errorf("%s: %t, %v", name, done, err)
		}
	}
}

func FuzzParseSerials(f *testing.F) {
	f.Add([]byte(`{"certificates": [{"ca_cert": [], "cert_chain": [{"path": "x", "serial_number": "5d8d"}]}]}`))
	f.Add([]byte(`{"certificates": 1}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if serials, err := parseSerials(raw); err != nil && len(serials) > 0 {
			t.Errorf("%q: %v and %v", raw, serials, err)
		}
	})
}

// Rules are refused where sidecars cannot follow them, by what is missing.
func TestTakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		raw     string
		on      bool
		rules   model.Rules
		refusal string
	}{
		"all":                {"", true, everyRule(), ""},
		"not announced":      {"", false, everyRule(), "is static"},
		"requests at L4":     {`{"tcp": ["server"]}`, true, everyRule(), "at L4"},
		"connections at L4":  {`{"tcp": ["server"]}`, true, model.Rules{Service: "server", Limit: 1}, ""},
		"no such service":    {"", true, model.Rules{Service: "nobody"}, `no service "nobody"`},
		"logs of L4":         {`{"tcp": ["server"]}`, true, model.Rules{Service: "server", Log: true}, "at L4"},
		"an ingress into L4": {`{"tcp": ["server"]}`, true, model.Rules{Service: "server", Ingress: &model.Ingress{}}, "at L4"},
	} {
		m := example(t, regions("here"), c.raw)
		err := (&Layer{config: m.config, mesh: m, live: live{on: c.on}}).takes(c.rules)
		if (err == nil) != (c.refusal == "") || err != nil && !strings.Contains(err.Error(), c.refusal) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (&Layer{}).Rotate(t.Context(), nil); !errors.Is(err, model.ErrUnsupported) {
		t.Errorf("rotating static sidecars: %v", err)
	}
}

// A sidecar that refuses what it is told is an error, and the rules are undone:
// requests pass as before.
func TestRefusedRules(t *testing.T) {
	t.Parallel()
	program(t)
	site := labtest.Site(t, labtest.Topology(1))
	to := tells(t, site)
	l := layer(t, Strict)
	l.Routable()
	remove, err := l.Deploy(t.Context(), site)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if failed := remove(context.WithoutCancel(t.Context())); failed != nil {
			t.Error(failed)
		}
	}()
	// Proxies' threads follow a moment after a proxy says that it has followed.
	soon := func(what string, holds func(told string, failed error) bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for {
			told, failed := get(dial(t, site, to, 0))
			if holds(told, failed) {
				return
			}
			if ctx.Err() != nil {
				t.Fatalf("%s: %q, %v", what, told, failed)
			}
		}
	}
	passes := func(told string, failed error) bool { return failed == nil && strings.Contains(told, "sa/client") }
	undo, err := l.Apply(t.Context(), site, model.Rules{Service: "server", Routes: []model.Route{{Abort: 17}}}) // no status
	if err == nil || undo != nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("%v", err)
	}
	soon("after refused rules", passes)
	// What was refused once does not stand in the way of what is right.
	undo, err = l.Apply(t.Context(), site, model.Rules{Service: "server", Routes: []model.Route{{Abort: http.StatusTeapot}}})
	if err != nil {
		t.Fatal(err)
	}
	soon("under rules", func(_ string, failed error) bool { return failed != nil && strings.Contains(failed.Error(), "418") })
	if failed := undo(t.Context()); failed != nil {
		t.Error(failed)
	}
	soon("after the rules", passes)
}

// In ambient mode only waypoints follow rules about requests.
func TestAmbientTakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ways    []*waypoint
		on      bool
		rules   model.Rules
		refusal string
	}{
		"connections":                 {nil, true, model.Rules{Service: "server", Limit: 1, Deny: []string{"client"}}, ""},
		"requests":                    {nil, true, model.Rules{Service: "server", Log: true}, "only waypoints see requests"},
		"requests to a waypoint":      {[]*waypoint{{}}, true, everyRule(), ""},
		"an ingress":                  {[]*waypoint{{}}, true, model.Rules{Service: "server", Ingress: &model.Ingress{}}, "no ingress"},
		"not announced":               {nil, false, model.Rules{Service: "server"}, "is static"},
		"a service that is not there": {nil, true, model.Rules{Service: "nobody"}, `no service "nobody"`},
	} {
		m := example(t, regions("here"), `{"mode": "ambient"}`)
		err := (&ambient{config: m.config, mesh: m, ways: c.ways, live: live{on: c.on}}).takes(c.rules)
		if (err == nil) != (c.refusal == "") || err != nil && !strings.Contains(err.Error(), c.refusal) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
