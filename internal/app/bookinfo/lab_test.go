package bookinfo

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
)

func TestMain(m *testing.M) { labtest.Main(m, labtest.AppServer(Name, Serve)) }

// preset is the topology of that name; package study makes the real one.
func preset(replicas int) model.Topology {
	t := model.Topology{Regions: []model.Region{{Name: "r", Clusters: []model.Cluster{{Name: "c", Nodes: []model.Node{
		{Name: "node-0", Pods: []model.PodSpec{{Name: "client-0", Role: "client"}}}, {Name: "node-1"},
	}}}}}}
	node := &t.Regions[0].Clusters[0].Nodes[1]
	for _, name := range services() {
		svc, n := model.Service{Name: name, Port: 9080, TargetPort: 9080}, replicas
		if name == reviews {
			n *= 3
		}
		for i := range n {
			pod := fmt.Sprintf("%s-%d", name, i)
			svc.Pods, node.Pods = append(svc.Pods, pod), append(node.Pods, model.PodSpec{Name: pod, Role: "server"})
		}
		t.Services = append(t.Services, svc)
	}
	return t
}

type answer struct {
	status int
	hops   string
	body   string
}

func get(t *testing.T, site model.Site, at netip.AddrPort, path string) (answer, error) {
	t.Helper()
	r, err := labtest.Get(t, site, "client-0", http.MethodGet, at, path, "")
	return answer{r.Status, r.Header.Get(hop.HeaderHops), r.Body}, err
}

// ready waits until the page is whole.
func ready(t *testing.T, site model.Site, at netip.AddrPort) answer {
	t.Helper()
	var a answer
	labtest.Eventually(t, func() (err error) {
		a, err = get(t, site, at, "/productpage")
		if err == nil && (a.status != http.StatusOK || strings.Contains(a.body, "unavailable")) {
			err = fmt.Errorf("status %d: %s", a.status, a.body)
		}
		return err
	})
	return a
}

func deploy(t *testing.T, config string) (site model.Site, page netip.AddrPort) {
	t.Helper()
	site = labtest.Site(t, preset(1))
	app, err := parse(json.RawMessage(config))
	if err != nil {
		t.Fatal(err)
	}
	ends, err := app.Deploy(t.Context(), site)
	if err != nil {
		t.Fatal(err)
	}
	if ends.Service != productpage || len(ends.Backends) != 6 || ends.Backends[0].Identity != "productpage-0" {
		t.Errorf("%+v", ends)
	}
	// As after a stack without addresses of its own: nothing changes.
	front := func(service string) (all []netip.AddrPort) {
		for _, b := range ends.Backends {
			if strings.HasPrefix(b.Pod, service+"-") {
				all = append(all, b.Addr)
			}
		}
		return all
	}
	if err := app.Connect(t.Context(), site, front); err != nil {
		t.Fatal(err)
	}
	return site, ends.Backends[0].Addr
}

// All versions of reviews answer, each asks whom it should, and the pages are alike.
func TestVersions(t *testing.T) {
	t.Parallel()
	site, page := deploy(t, `{"pool": {"fresh": true}}`)
	whole := ready(t, site, page)
	missing := map[string]bool{
		"productpage-0,details-0,reviews-0": true, "productpage-0,details-0,reviews-1,ratings-0": true, "productpage-0,details-0,reviews-2,ratings-0": true,
	}
	labtest.Eventually(t, func() error {
		a, err := get(t, site, page, "/productpage")
		if err != nil {
			return err
		}
		if strings.Contains(a.body, "unavailable") {
			return fmt.Errorf("the page is not whole: %s", a.body) // ready may have met a version that asks nobody
		}
		if a.body != whole.body || strings.Contains(a.body, "stars") {
			t.Fatalf("%s has another page:\n%s\nthan %s:\n%s", a.hops, a.body, whole.hops, whole.body)
		}
		if delete(missing, a.hops); len(missing) > 0 {
			return fmt.Errorf("not yet %v", missing)
		}
		return nil
	})
	a, err := get(t, site, page, "/api/v1/products")
	if err != nil || a.status != http.StatusOK || a.hops != "productpage-0" {
		t.Errorf("%+v, %v", a, err)
	}
}

// What dead ratings do: an honest page is an error, the original's is none.
// What the services send each other is the same.
func TestDeadRatings(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]int{"honest": http.StatusServiceUnavailable, "original": http.StatusOK} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			site, page := deploy(t, `{"mode": "`+mode+`", "reviews": ["v3"]}`)
			if a := ready(t, site, page); !strings.Contains(a.body, `<font color="red">5 stars</font>`) {
				t.Errorf("no stars: %s", a.body)
			}
			mortal, ok := labtest.Pod(t, site, "ratings-0").(model.Mortal)
			if !ok {
				t.Fatal("pods cannot be killed here")
			}
			revive, err := mortal.Kill(t.Context(), false)
			if err != nil {
				t.Fatal(err)
			}
			for path, status := range map[string]int{
				"/productpage": want, "/api/v1/products/0/reviews": want, "/api/v1/products/0/ratings": http.StatusInternalServerError,
				"/api/v1/products/0": http.StatusOK, "/api/v1/products": http.StatusOK,
			} {
				labtest.Eventually(t, func() error { // until the kernel has said that nobody is there
					a, failure := get(t, site, page, path)
					if failure == nil && a.status != status {
						failure = fmt.Errorf("%s: status %d, want %d, hops %s: %s", path, a.status, status, a.hops, a.body)
					}
					return failure
				})
			}
			a, err := get(t, site, page, "/productpage")
			if err != nil || !strings.Contains(a.body, "Ratings service is currently unavailable") || !strings.HasPrefix(a.hops, "productpage-0,details-0,reviews-") || strings.Contains(a.hops, ratings) {
				t.Errorf("%+v, %v", a, err)
			}
			if err := revive(t.Context()); err != nil {
				t.Fatal(err)
			}
			ready(t, site, page)
		})
	}
}
