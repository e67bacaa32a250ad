package bookinfo

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/hop"
	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestParse(t *testing.T) {
	t.Parallel()
	labtest.Configs(t, Plugin(), map[string]string{
		`{}`: "",
		`{"mode": "original", "reviews": ["v3"], "pool": {"fresh": true}}`: "",
		`{"mode": "x", "reviews": ["v1", "v4"], "pool": {"idle": -1}}`:     "pool.idle is -1; it can be 0 to 10000\nmode is \"x\"; it can be honest or original\nreviews[1] is \"v4\"; it can be v1, v2 or v3",
		`{"reviews": []}`: "reviews names no version; they are v1, v2, v3",
		`{"modes": "x"}`:  "unknown field",
	})
}

func FuzzParse(f *testing.F) {
	f.Add(`{"mode": "original", "reviews": ["v3"], "pool": {"fresh": true}}`)
	f.Fuzz(func(t *testing.T, raw string) {
		a, err := parse(json.RawMessage(raw))
		if err != nil {
			return
		}
		for _, v := range a.versions {
			if v < 1 || v > 3 {
				t.Errorf("%q was accepted: %v", raw, a.versions)
			}
		}
	})
}

func TestCheckTopology(t *testing.T) {
	t.Parallel()
	a, err := parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	four := preset(1)
	if err = a.CheckTopology(four); err != nil {
		t.Error(err)
	}
	four.Services[2].Pods = four.Services[2].Pods[:2]
	if err = a.CheckTopology(four); err == nil || err.Error() != "reviews has 3 versions, and the topology 2 pods for them: some would not run" {
		t.Error(err)
	}
	err = a.CheckTopology(model.Topology{Services: []model.Service{{Name: "server"}}})
	if err == nil || !strings.HasSuffix(err.Error(), "and the topology has server; topology: {preset: bookinfo} has them") {
		t.Error(err)
	}
}

// alone asks a server that reaches nobody.
func alone(t *testing.T, h hop.Handler, method, path, body string) hop.Answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return h(t.Context(), &hop.Exchange{Request: r, Body: []byte(body)})
}

const goodReviews = `{"id":"0","reviews":[{"reviewer":"Reviewer1","text":"An extremely entertaining play by Shakespeare. The slapstick humour is refreshing!"},` +
	`{"reviewer":"Reviewer2","text":"Absolutely fun and entertaining. The play lacks thematic depth when compared to other plays by Shakespeare."}]}`

func TestAlone(t *testing.T) {
	t.Parallel()
	sorry := func(what string) string {
		return `{"error":"Sorry, product ` + what + ` are currently unavailable for this book."}`
	}
	for _, test := range []struct {
		service, method, path, body string
		version, status             int
		want                        string
	}{
		{"details", "GET", "/details/0", "", 0, 200, `{"id":0,"author":"William Shakespeare","year":1595,"type":"paperback","pages":200,"publisher":"PublisherA","language":"English","ISBN-10":"1234567890","ISBN-13":"123-1234567890"}`},
		{"details", "GET", "/details/x", "", 0, 400, `{"error":"please provide numeric product id"}`},
		{"details", "GET", "/health", "", 0, 200, `{"status":"Details is healthy"}`},
		{"ratings", "GET", "/ratings/7", "", 0, 200, `{"id":7,"ratings":{"Reviewer1":5,"Reviewer2":4}}`},
		{"ratings", "POST", "/ratings/7", `{"Reviewer1": 1}`, 0, 200, `{"id":7,"ratings":{"Reviewer1":1}}`},
		{"ratings", "POST", "/ratings/7", `no`, 0, 400, `{"error":"please provide valid ratings JSON"}`},
		{"ratings", "GET", "/ratings/-1", "", 0, 400, `{"error":"please provide numeric product ID"}`},
		{"ratings", "GET", "/health", "", 0, 200, `{"status":"Ratings is healthy"}`},
		{"reviews", "GET", "/reviews/0", "", 1, 200, goodReviews},
		{"reviews", "GET", "/health", "", 1, 200, `{"status":"Reviews is healthy"}`},
		{"reviews", "GET", "/reviews/", "", 1, 404, "no such product\n"},
		{"productpage", "GET", "/health", "", 0, 200, "Product page is healthy"},
		{"productpage", "GET", "/", "", 0, 200, index},
		{"productpage", "GET", "/api/v1/products/0", "", 0, 500, sorry("details")},
		{"productpage", "GET", "/api/v1/products/0/reviews", "", 0, 500, sorry("reviews")},
		{"productpage", "GET", "/api/v1/products/0/ratings", "", 0, 500, sorry("ratings")},
		{"productpage", "GET", "/api/v1/products/0/more", "", 0, 404, "there is no such page\n"},
		{"productpage", "GET", "/api/v1/products/+1", "", 0, 404, "there is no such page\n"},
		{"productpage", "GET", "/nothing", "", 0, 404, "there is no such page\n"},
		{"productpage", "POST", "/login", "username=a+b", 0, 400, "a username is missing, or has other characters than a cookie can\n"},
		{"productpage", "POST", "/login", "username=jason&passwd=x", 0, 302, ""},
		{"productpage", "GET", "/logout", "", 0, 302, ""},
	} {
		a := alone(t, settings{Honest: true, Version: test.version}.handler(test.service), test.method, test.path, test.body)
		if a.Status != test.status || string(a.Body) != test.want {
			t.Errorf("%s %s %s: %d %s", test.service, test.method, test.path, a.Status, a.Body)
		}
	}
	if a := alone(t, newFront(settings{}).answer, "POST", "/login", "username=jason"); a.Header.Get("Set-Cookie") != "session=jason; Path=/; HttpOnly; SameSite=Lax" || a.Header.Get("Location") != "/productpage" {
		t.Errorf("%v", a.Header)
	}
	if (settings{}).handler("stranger") != nil {
		t.Error("a server of no service")
	}
}

func TestProductsAreAList(t *testing.T) {
	t.Parallel()
	a := alone(t, newFront(settings{}).answer, "GET", "/api/v1/products", "")
	var all []map[string]any
	if err := json.Unmarshal(a.Body, &all); err != nil || a.Status != 200 || len(all) != 1 || all[0]["title"] != "The Comedy of Errors" || all[0]["id"] != 0.0 {
		t.Errorf("%s, %v", a.Body, err)
	}
}

// A page without its parts: an error if it is honest.
func TestNothingToShow(t *testing.T) {
	t.Parallel()
	for honest, status := range map[bool]int{true: 503, false: 200} {
		a := alone(t, newFront(settings{Honest: honest}).answer, "GET", "/productpage", "")
		if a.Status != status || !strings.Contains(string(a.Body), "Error fetching product details!") || !strings.Contains(string(a.Body), "Sorry, product reviews are currently unavailable") {
			t.Errorf("honest %t: %d %s", honest, a.Status, a.Body)
		}
	}
}

func TestReviewsWithoutRatings(t *testing.T) {
	t.Parallel()
	a := alone(t, settings{Version: 2}.handler(reviews), "GET", "/reviews/0", "")
	var all opinions
	if err := json.Unmarshal(a.Body, &all); err != nil || a.Status != 200 || all.whole() || len(all.Reviews) != 2 {
		t.Errorf("%d %s, %v", a.Status, a.Body, err)
	}
	want := &stars{Error: "Ratings service is currently unavailable"}
	if diff := cmp.Diff(want, all.Reviews[0].Rating); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzBelow(f *testing.F) {
	f.Add("/details/0")
	f.Add("/details/99999999999999999999")
	f.Fuzz(func(t *testing.T, path string) {
		if id, ok := below(path, "/details/"); ok && id < 0 {
			t.Errorf("%q is %d", path, id)
		}
	})
}
