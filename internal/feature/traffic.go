package feature

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// groupTraffic, groupSecurity and groupObservability are the groups of the
// published table.
const (
	groupTraffic       = "traffic management"
	groupSecurity      = "security"
	groupObservability = "observability"
)

// Checks are all features, in the order of the table.
func Checks() []Check {
	return slices.Concat(routing(), faults(), resilience(), edges(), identity(), encryption(), observability())
}

func to(subset string) []model.Weighted { return []model.Weighted{{Subset: subset, Weight: 100}} }

// routes are rules of routes over the service's versions.
func routes(all ...model.Route) func(Addresses) model.Rules {
	return func(Addresses) model.Rules { return model.Rules{Subsets: Subsets(), Routes: all} }
}

// ask20 is a burst of 20 requests from the client to the service, a few at a
// time and each over a connection of its own, unless it says otherwise.
func ask20(more Burst) Burst {
	const usual, few = 20, 4
	if more.Parallel == 0 {
		more.Parallel = few
	}
	if more.Count == 0 {
		more.Count = usual
	}
	if more.From == "" {
		more.From = Client
	}
	if more.To == "" {
		more.To = ToService
	}
	if more.Path == "" {
		more.Path = "/"
	}
	more.Fresh = true
	return more
}

func routing() []Check {
	const many, share, low, high = 300, 10, 4, 18
	user := map[string]string{"end-user": "jason"}
	return []Check{
		{
			Group: groupTraffic, Name: "request routing by header", Asks: "end-user: jason goes to v2, all else to v1",
			Rules:  routes(model.Route{Header: user, To: to("v2")}, model.Route{To: to("v1")}),
			Bursts: []Burst{ask20(Burst{Header: user}), ask20(Burst{})},
			Judge:  func(s Seen) Result { return routed(s, "with the header", "without") },
		}, {
			Group: groupTraffic, Name: "request routing by path", Asks: "/v2 goes to v2, all else to v1",
			Rules:  routes(model.Route{PathPrefix: "/v2", To: to("v2")}, model.Route{To: to("v1")}),
			Bursts: []Burst{ask20(Burst{Path: "/v2"}), ask20(Burst{})},
			Judge:  func(s Seen) Result { return routed(s, "/v2", "others") },
		}, {
			Group: groupTraffic, Name: "weighted shifting", Asks: "v1 90 %, v2 10 %, over 2 pods of v1 and 1 of v2",
			Rules:  routes(model.Route{To: []model.Weighted{{Subset: "v1", Weight: 100 - share}, {Subset: "v2", Weight: share}}}),
			Bursts: []Burst{ask20(Burst{Count: many})},
			Judge: func(s Seen) Result {
				all, v2 := answered(s.Replies[0]), from(s.Replies[0], Subsets()["v2"])
				r := Result{Verdict: No, Sent: sent(s), Seen: fmt.Sprintf("v2 %d of %d (%s)", v2, all, percent(v2, all))}
				if all == many && v2*100 >= low*all && v2*100 <= high*all {
					r.Verdict = Yes
				}
				return r
			},
		}, {
			Group: groupTraffic, Name: "mirroring", Asks: "v1 answers, v2 gets a copy of every request",
			Rules:  routes(model.Route{To: to("v1"), Mirror: "v2"}),
			Bursts: []Burst{ask20(Burst{Count: 50})},
			Judge:  mirrored,
		},
	}
}

// routed judges two bursts: the first is v2's, the second v1's.
func routed(s Seen, first, second string) Result {
	a, b := from(s.Replies[0], Subsets()["v2"]), from(s.Replies[1], Subsets()["v1"])
	r := Result{Verdict: No, Sent: sent(s), Seen: fmt.Sprintf("%s: v2 %s; %s: v1 %s", first, of(a, s.Replies[0]), second, of(b, s.Replies[1]))}
	if a == len(s.Replies[0]) && b == len(s.Replies[1]) {
		r.Verdict = Yes
	}
	return r
}

// mirrored counts what v2 has got that somebody else has answered.
func mirrored(s Seen) Result {
	elsewhere := map[string]bool{}
	for _, one := range s.Replies[0] {
		elsewhere[one.Name] = slices.Contains(Subsets()["v1"], one.From)
	}
	copies := 0
	for _, one := range s.Got["v2-a"].Requests {
		if elsewhere[one.Name] {
			copies++
		}
	}
	v1 := from(s.Replies[0], Subsets()["v1"])
	r := Result{Verdict: No, Sent: sent(s), Seen: fmt.Sprintf("v1 answered %s; copies at v2: %d", of(v1, s.Replies[0]), copies)}
	switch {
	case v1 == len(s.Replies[0]) && copies == v1:
		r.Verdict = Yes
	case copies > 0:
		r.Verdict = Partly
	}
	return r
}

const (
	injected  = 400 * time.Millisecond
	teapot    = http.StatusTeapot
	slow      = time.Second
	bound     = 300 * time.Millisecond
	most      = 4  // requests under way
	crowd     = 40 // requests at once
	failures  = 3  // in a row
	tolerated = 2  // times the limit: each of a proxy's threads may have one more
)

func faults() []Check {
	chosen := map[string]string{"x-fault": "on"}
	faulty := func(r model.Route) func(Addresses) model.Rules {
		r.Header = chosen
		return routes(r, model.Route{})
	}
	both := []Burst{ask20(Burst{Header: chosen, Parallel: 10}), ask20(Burst{Parallel: 10})}
	return []Check{
		{
			Group: groupTraffic, Name: "fault injection: delay", Asks: "requests with a header are held up for " + injected.String(),
			Rules: faulty(model.Route{Delay: injected}), Bursts: both,
			Judge: func(s Seen) Result {
				a, b := median(s.Replies[0]), median(s.Replies[1])
				r := Result{Verdict: No, Sent: sent(s), Seen: fmt.Sprintf("with the header: median %s; without: %s", short(a), short(b))}
				if answered(s.Replies[0]) == len(s.Replies[0]) && quickest(s.Replies[0]) >= injected*9/10 && b < injected {
					r.Verdict = Yes
				}
				return r
			},
		}, {
			Group: groupTraffic, Name: "fault injection: abort", Asks: fmt.Sprintf("requests with a header are answered with %d, and reach no server", teapot),
			Rules: faulty(model.Route{Abort: teapot}), Bursts: both,
			Judge: func(s Seen) Result {
				a, b := status(s.Replies[0], teapot), answered(s.Replies[1])
				reached := received(s, s.Replies[0])
				r := Result{Verdict: No, Sent: sent(s), Seen: fmt.Sprintf(
					"with the header: %d for %s, %d reached a server; without: 200 for %s", teapot, of(a, s.Replies[0]), reached, of(b, s.Replies[1]))}
				if a == len(s.Replies[0]) && reached == 0 && b == len(s.Replies[1]) {
					r.Verdict = Yes
				}
				return r
			},
		},
	}
}

// all is a behaviour of all of the service's pods.
func all(b Behaviour) map[string]Behaviour {
	how := map[string]Behaviour{}
	for _, name := range Pods() {
		how[name] = b
	}
	return how
}

func resilience() []Check {
	return []Check{
		{
			Group: groupTraffic, Name: "timeout", Asks: fmt.Sprintf("requests end after %s; the servers take %s", bound, slow),
			Rules: routes(model.Route{Timeout: bound}), Behave: all(Behaviour{Delay: slow}), Bursts: []Burst{ask20(Burst{Parallel: 20})},
			Judge: func(s Seen) Result {
				n := status(s.Replies[0], http.StatusGatewayTimeout)
				r := Result{Verdict: No, Sent: sent(s), Seen: fmt.Sprintf(
					"504 for %s, 200 for %s; median %s", of(n, s.Replies[0]), of(answered(s.Replies[0]), s.Replies[0]), short(median(s.Replies[0])))}
				if n == len(s.Replies[0]) && median(s.Replies[0]) < slow {
					r.Verdict = Yes
				}
				return r
			},
		}, {
			Group: groupTraffic, Name: "retry", Asks: "status 500 is retried up to 3 times; every server answers so at its first try of a request",
			Rules:  routes(model.Route{Retries: 3, RetryOn: []int{http.StatusInternalServerError}}),
			Behave: all(Behaviour{Status: http.StatusInternalServerError, First: 1}), Bursts: []Burst{ask20(Burst{})},
			Judge: func(s Seen) Result {
				ok, got := answered(s.Replies[0]), received(s, s.Replies[0])
				r := Result{Verdict: No, Sent: sent(s), Seen: fmt.Sprintf("200 for %s; the servers got %d", of(ok, s.Replies[0]), got)}
				switch {
				case ok == len(s.Replies[0]) && got > ok:
					r.Verdict = Yes
				case got > len(s.Replies[0]):
					r.Verdict = Partly
				}
				return r
			},
		}, {
			Group: groupTraffic, Name: "circuit breaking", Asks: fmt.Sprintf("at most %d requests of a client under way, the rest refused at once", most),
			Rules:  func(Addresses) model.Rules { return model.Rules{Limit: most} },
			Behave: all(Behaviour{Delay: slow / 2}), Bursts: []Burst{ask20(Burst{Count: crowd, Parallel: crowd})},
			Judge: broken,
		}, {
			Group: groupTraffic, Name: "outlier ejection", Asks: fmt.Sprintf("a pod that has failed %d times in a row gets no more; v1-a always fails", failures),
			Rules: func(Addresses) model.Rules {
				return model.Rules{Eject: &model.Eject{Failures: failures, For: time.Minute}}
			},
			Behave: map[string]Behaviour{"v1-a": {Status: http.StatusInternalServerError}}, Bursts: []Burst{ask20(Burst{Count: 100})},
			Judge: ejected,
		},
	}
}

// broken tells requests that were refused at once from those that were held up.
func broken(s Seen) Result {
	refused, ok, under := 0, answered(s.Replies[0]), 0
	for _, one := range s.Replies[0] {
		if one.Status == http.StatusServiceUnavailable || one.Status == 0 && one.Took < patience/2 {
			refused++
		}
	}
	for _, name := range Pods() {
		under += s.Got[name].Most
	}
	r := Result{Verdict: No, Sent: sent(s) + " at once", Seen: fmt.Sprintf(
		"refused: %s%s; at most %d under way at the servers", of(refused, s.Replies[0]), others(s.Replies[0]), under)}
	switch {
	case refused > 0 && ok > 0 && under <= most*tolerated:
		r.Verdict = Yes
	case refused > 0:
		r.Verdict = Partly
	}
	return r
}

func ejected(s Seen) Result {
	later := s.Replies[0][len(s.Replies[0])/2:]
	early, late := from(s.Replies[0], []string{"v1-a"}), from(later, []string{"v1-a"})
	r := Result{Verdict: No, Sent: sent(s), Seen: fmt.Sprintf("v1-a answered %s, of the second half %s", of(early, s.Replies[0]), of(late, later))}
	if late == 0 && answered(later) == len(later) {
		r.Verdict = Yes
	}
	return r
}

func edges() []Check {
	asked := func(host string, at To) Burst { return ask20(Burst{From: Outside, To: at, Host: host}) }
	return []Check{
		{
			Group: groupTraffic, Name: "ingress", Asks: "from outside, requests for " + hostDoor + " reach the service, others are refused",
			Rules: func(Addresses) model.Rules {
				return model.Rules{Ingress: &model.Ingress{Node: gatewayOn, Port: portDoor, Host: hostDoor}}
			},
			Bursts: []Burst{asked(hostDoor, ToDoor), asked("other.example", ToDoor), asked(hostDoor, ToFront)},
			Judge: func(s Seen) Result {
				right, wrong, front := answered(s.Replies[0]), answered(s.Replies[1]), answered(s.Replies[2])
				r := Result{Verdict: No, Sent: sent(s), Seen: fmt.Sprintf(
					"at the ingress: %s, for another host %s; at the service's own address: %s", of(right, s.Replies[0]), of(wrong, s.Replies[1]), of(front, s.Replies[2]))}
				switch {
				case right == len(s.Replies[0]) && wrong == 0:
					r.Verdict = Yes
				case right == len(s.Replies[0]) || front == len(s.Replies[2]):
					r.Verdict = Partly
				}
				return r
			},
		}, {
			Group: groupTraffic, Name: "egress control", Asks: "one address outside may be reached, others may not",
			Rules: func(at Addresses) model.Rules {
				return model.Rules{Egress: &model.Egress{Allowed: []netip.AddrPort{at.Allowed}}}
			},
			Bursts: []Burst{ask20(Burst{To: ToAllowed}), ask20(Burst{To: ToRefused})},
			Judge: func(s Seen) Result {
				right, wrong := answered(s.Replies[0]), answered(s.Replies[1])
				r := Result{Verdict: No, Sent: sent(s), Seen: fmt.Sprintf("the allowed address: %s; another: %s", of(right, s.Replies[0]), of(wrong, s.Replies[1]))}
				if right == len(s.Replies[0]) && wrong == 0 {
					r.Verdict = Yes
				}
				return r
			},
		},
	}
}
