package feature

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// replies are n answers with one status by one server.
func replies(n, status int, from string) []Reply {
	all := make([]Reply, n)
	for i := range all {
		all[i] = Reply{Name: fmt.Sprintf("%s-%d-%d", from, status, i), Status: status, From: from, Took: time.Millisecond}
	}
	return all
}

// took gives replies a time.
func took(all []Reply, d time.Duration) []Reply {
	for i := range all {
		all[i].Took = d
	}
	return all
}

// got are requests of those names, with headers.
func got(all []Reply, header map[string]string) Got {
	var g Got
	for _, r := range all {
		g.Requests = append(g.Requests, Request{Name: r.Name, Header: header})
	}
	return g
}

func check(t *testing.T, name string) Check {
	t.Helper()
	i := slices.IndexFunc(Checks(), func(c Check) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("there is no check %q", name)
	}
	return Checks()[i]
}

func TestJudgements(t *testing.T) {
	t.Parallel()
	const ok, bad = http.StatusOK, http.StatusInternalServerError
	v1, v2 := replies(20, ok, "v1-a"), replies(20, ok, "v2-a")
	mixed := slices.Concat(replies(15, ok, "v1-b"), replies(5, ok, "v2-a"))
	trace := map[string]string{headerTrace: "00-" + traceID + "-1111111111111111-01"}
	untouched := map[string]string{headerTrace: "00-" + traceID + "-" + parentID + "-01"}
	client := map[string]string{"x-forwarded-client-cert": "By=spiffe://d/s;Hash=1;URI=spiffe://d/client"}
	refused := Shown{Version: 0x304, Error: "certificate required"}
	plain := Shown{Error: "not TLS"}
	for _, c := range []struct {
		check, called string
		seen          Seen
		want          Verdict
		says          string
	}{
		{"request routing by header", "each to its own", Seen{Replies: [][]Reply{v2, v1}}, Yes, "v2 20 of 20"},
		{"request routing by header", "at random", Seen{Replies: [][]Reply{mixed, mixed}}, No, "v2 5 of 20; without: v1 15 of 20"},
		{"weighted shifting", "a tenth", Seen{Replies: [][]Reply{slices.Concat(replies(270, ok, "v1-a"), replies(30, ok, "v2-a"))}}, Yes, "(10 %)"},
		{"weighted shifting", "a third", Seen{Replies: [][]Reply{slices.Concat(replies(200, ok, "v1-a"), replies(100, ok, "v2-a"))}}, No, "(33 %)"},
		{"weighted shifting", "failures", Seen{Replies: [][]Reply{slices.Concat(replies(269, ok, "v1-a"), replies(1, bad, "v1-a"), replies(30, ok, "v2-a"))}}, No, ""},
		{"mirroring", "all", Seen{Replies: [][]Reply{v1}, Got: map[string]Got{"v2-a": got(v1, nil)}}, Yes, "copies at v2: 20"},
		{"mirroring", "some", Seen{Replies: [][]Reply{v1}, Got: map[string]Got{"v2-a": got(v1[:7], nil)}}, Partly, "copies at v2: 7"},
		{"mirroring", "v2's own are no copies", Seen{Replies: [][]Reply{mixed}, Got: map[string]Got{"v2-a": got(mixed[15:], nil)}}, No, "copies at v2: 0"},
		{"fault injection: delay", "held up", Seen{Replies: [][]Reply{took(replies(5, ok, "v1-a"), injected), v1}}, Yes, "median 400ms"},
		{"fault injection: delay", "all are slow", Seen{Replies: [][]Reply{took(replies(5, ok, "v1-a"), injected), took(replies(5, ok, "v1-b"), injected)}}, No, ""},
		{"fault injection: abort", "by the proxy", Seen{Replies: [][]Reply{replies(5, teapot, ""), v1}, Got: map[string]Got{"v1-a": got(v1, nil)}}, Yes, "0 reached a server"},
		{"fault injection: abort", "by the server", Seen{Replies: [][]Reply{replies(5, teapot, "v1-a"), v1}, Got: map[string]Got{"v1-a": got(replies(5, teapot, "v1-a"), nil)}}, No, "5 reached a server"},
		{"timeout", "in time", Seen{Replies: [][]Reply{took(replies(9, http.StatusGatewayTimeout, ""), bound)}}, Yes, "504 for 9 of 9"},
		{"timeout", "never", Seen{Replies: [][]Reply{took(replies(9, ok, "v1-a"), slow)}}, No, "median 1s"},
		{"retry", "all", Seen{Replies: [][]Reply{v1}, Got: map[string]Got{"v1-a": got(v1, nil), "v1-b": got(v1, nil)}}, Yes, "the servers got 40"},
		{"retry", "none", Seen{Replies: [][]Reply{replies(20, bad, "v1-a")}, Got: map[string]Got{"v1-a": got(replies(20, bad, "v1-a"), nil)}}, No, "the servers got 20"},
		{"retry", "too few tries", Seen{Replies: [][]Reply{slices.Concat(v1[:19], replies(1, bad, "v1-a"))}, Got: map[string]Got{"v1-a": got(v1, nil), "v1-b": got(v1, nil)}}, Partly, ""},
		{"circuit breaking", "held", Seen{Replies: [][]Reply{slices.Concat(replies(30, 503, ""), v1[:10])}, Got: map[string]Got{"v1-a": {Most: 4}}}, Yes, "30 of 40"},
		{"circuit breaking", "too many under way", Seen{Replies: [][]Reply{slices.Concat(replies(1, 503, ""), v1)}, Got: map[string]Got{"v1-a": {Most: 20}}}, Partly, "at most 20"},
		{"circuit breaking", "held up is not refused", Seen{Replies: [][]Reply{slices.Concat(took(replies(30, 0, ""), patience), v1)}}, No, "0 of 50"},
		{"outlier ejection", "out", Seen{Replies: [][]Reply{slices.Concat(replies(3, bad, "v1-a"), replies(17, ok, "v1-b"))}}, Yes, "3 of 20, of the second half 0 of 10"},
		{"outlier ejection", "in", Seen{Replies: [][]Reply{slices.Concat(replies(17, ok, "v1-b"), replies(3, bad, "v1-a"))}}, No, "3 of 20, of the second half 3 of 10"},
		{"ingress", "by host", Seen{Replies: [][]Reply{v1, replies(20, 404, ""), replies(20, 0, "")}}, Yes, ""},
		{"ingress", "any host", Seen{Replies: [][]Reply{v1, v1, replies(20, 0, "")}}, Partly, ""},
		{"ingress", "an address only", Seen{Replies: [][]Reply{replies(20, 0, ""), replies(20, 0, ""), v1}}, Partly, ""},
		{"ingress", "nothing", Seen{Replies: [][]Reply{replies(20, 0, ""), replies(20, 0, ""), replies(20, 0, "")}}, No, ""},
		{"egress control", "one", Seen{Replies: [][]Reply{v1, replies(20, 0, "")}}, Yes, ""},
		{"egress control", "all", Seen{Replies: [][]Reply{v1, v1}}, No, ""},
		{"certificates issued", "each its own", Seen{Shown: []Shown{{Identity: "spiffe://a", Serial: "1"}, {Identity: "spiffe://a", Serial: "2"}}}, Yes, "2 different of spiffe://a"},
		{"certificates issued", "one for all", Seen{Shown: []Shown{{Identity: "spiffe://a", Serial: "1"}, {Identity: "spiffe://a", Serial: "1"}}}, Yes, "1 different"},
		{"certificates issued", "not all", Seen{Shown: []Shown{{Identity: "spiffe://a", Serial: "1"}, {Error: "refused"}}}, Partly, "shown by 1 pods"},
		{"certificates issued", "no identity", Seen{Shown: []Shown{{Version: 0x304, Serial: "1"}}}, No, ""},
		{"certificate rotation", "no failure", Seen{Rotated: true, Replies: [][]Reply{v1}, Shown: []Shown{{Serial: "1"}, {Serial: "2"}}}, Yes, "0 requests failed"},
		{"certificate rotation", "failures", Seen{Rotated: true, Replies: [][]Reply{replies(2, 503, "")}, Shown: []Shown{{Serial: "1"}, {Serial: "2"}}}, Partly, "2 requests failed"},
		{"certificate rotation", "the same", Seen{Rotated: true, Replies: [][]Reply{v1}, Shown: []Shown{{Serial: "1"}, {Serial: "1"}}}, No, "the same"},
		{"certificate rotation", "nobody does it", Seen{Replies: [][]Reply{v1}, Shown: []Shown{{Serial: "1"}, {Serial: "1"}}}, No, "no layer"},
		{"peer authentication", "mutual", Seen{Replies: [][]Reply{v1, replies(20, 0, "")}, Got: map[string]Got{"v1-a": got(v1, client)}, Shown: []Shown{refused}}, Yes, "spiffe://d/client for 20 of 20"},
		{"peer authentication", "permissive", Seen{Replies: [][]Reply{v1, v2}, Got: map[string]Got{"v1-a": got(v1, client)}, Shown: []Shown{refused}}, Partly, "plaintext answered: 20 of 20"},
		{"peer authentication", "nobody is told", Seen{Replies: [][]Reply{v1, replies(20, 0, "")}, Got: map[string]Got{"v1-a": got(v1, nil)}, Shown: []Shown{refused}}, Partly, "told nobody"},
		{"peer authentication", "plaintext", Seen{Replies: [][]Reply{v1, v2}, Got: map[string]Got{"v1-a": got(v1, nil)}, Shown: []Shown{plain}}, No, "TLS: not spoken"},
		{"peer authentication", "nothing answers", Seen{Replies: [][]Reply{replies(20, 0, ""), replies(20, 0, "")}, Shown: []Shown{plain}}, No, ""},
		{"authorization: allow", "by identity", Seen{Replies: [][]Reply{v1, replies(20, 403, "")}}, Yes, "403 for 20"},
		{"authorization: allow", "nobody gets in", Seen{Replies: [][]Reply{replies(20, 403, ""), replies(20, 403, "")}}, No, ""},
		{"authorization: deny", "everybody gets in", Seen{Replies: [][]Reply{v1, v1}}, No, ""},
		{"request metrics", "exact", Seen{Replies: [][]Reply{v1}, Counted: map[int]int{2: 30, 4: 12}}, Yes, "2xx 30 of 30"},
		{"request metrics", "wrong", Seen{Replies: [][]Reply{v1}, Counted: map[int]int{2: 30}}, Partly, "4xx 0 of 12"},
		{"request metrics", "connections by a proxy", Seen{Replies: [][]Reply{v1}, Counted: map[int]int{0: 42}}, Partly, "42 connections"},
		{"request metrics", "connections by rules", Seen{Replies: [][]Reply{v1}, Translated: true}, Partly, "connections are counted"},
		{"request metrics", "nothing", Seen{Replies: [][]Reply{v1}}, No, "no layer"},
		{"access logs", "all", Seen{Replies: [][]Reply{v1[:2]}, Lines: []string{`"GET /?request=v1-a-200-0"`, `"GET /?request=v1-a-200-1"`}}, Yes, "2 of 2"},
		{"access logs", "another's is none", Seen{Replies: [][]Reply{v1[:2]}, Lines: []string{`"GET /?request=v1-a-200-0"`, `"GET /?request=v1-a-200-11"`}}, Partly, "1 of 2"},
		{"tracing", "whole", Seen{Replies: [][]Reply{v1, v2}, Got: map[string]Got{
			"v1-a": got(v1, trace), "v2-a": got(v2, trace), "collector": {Bodies: [][]byte{[]byte(`[{"traceId": "1"}, {"traceId": "2"}]`)}},
		}}, Yes, "spans told: 2"},
		{"tracing", "passed by", Seen{Replies: [][]Reply{v1, v2}, Got: map[string]Got{"v1-a": got(v1, untouched), "v2-a": got(v2, nil)}}, No, "arrived with 20 of 20"},
		{"tracing", "no spans", Seen{Replies: [][]Reply{v1, v2}, Got: map[string]Got{"v1-a": got(v1, trace), "v2-a": got(v2, trace)}}, Partly, "spans told: 0"},
	} {
		t.Run(c.check+"/"+c.called, func(t *testing.T) {
			t.Parallel()
			r := check(t, c.check).Judge(c.seen)
			if r.Verdict != c.want || !strings.Contains(r.Seen, c.says) || r.Sent == "" {
				t.Errorf("%s: sent %s, seen %s; want %s, saying %q", r.Verdict, r.Sent, r.Seen, c.want, c.says)
			}
		})
	}
}

func TestTLSOffers(t *testing.T) {
	t.Parallel()
	good, weak := make([]Shown, len(offers())), make([]Shown, len(offers()))
	for i, o := range offers() {
		if weak[i].Version = o.hello.Highest; o.accepts {
			good[i] = Shown{Version: o.hello.Highest, Cipher: 0x1301}
		}
	}
	for name, c := range map[string]struct {
		shown []Shown
		want  Verdict
	}{"good": {good, Yes}, "weak": {weak, Partly}, "none": {make([]Shown, len(offers())), No}} {
		if r := ciphers(offers(), c.shown); r.Verdict != c.want {
			t.Errorf("%s: %+v, want %s", name, r, c.want)
		}
	}
}

// Every check says what it asks, and sends something.
func TestChecksAreWhole(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, c := range Checks() {
		if names[c.Name] || c.Asks == "" || c.Group == "" || c.Judge == nil || len(c.Bursts)+len(c.Hellos) == 0 {
			t.Errorf("%+v", c)
		}
		names[c.Name] = true
		if c.Rotate && (len(c.Bursts) == 0 || len(c.Hellos) == 0) {
			t.Errorf("%s: rotation without requests, or without handshakes", c.Name)
		}
	}
}
