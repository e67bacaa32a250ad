package feature

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/model"
)

// traceID and parentID are of the trace context (W3C) that clients send.
const (
	traceID     = "4bf92f3577b34da6a3ce929d0e0e4736"
	parentID    = "00f067aa0ba902b7"
	headerTrace = "traceparent"
)

func observability() []Check {
	const right, wrong = 30, 12
	context := map[string]string{headerTrace: "00-" + traceID + "-" + parentID + "-01"}
	return []Check{
		{
			Group: groupObservability, Name: "request metrics", Asks: "requests are counted for the service, by status",
			Meter: true, Bursts: []Burst{ask20(Burst{Count: right}), ask20(Burst{Count: wrong, Path: fmt.Sprintf("/status/%d", http.StatusNotFound)})},
			Judge: func(s Seen) Result { return metered(s, right, wrong) },
		}, {
			Group: groupObservability, Name: "access logs", Asks: "a line for every request",
			Rules: func(Addresses) model.Rules { return model.Rules{Log: true} }, Logs: true, Bursts: []Burst{ask20(Burst{})},
			Judge: logged,
		}, {
			Group: groupObservability, Name: "tracing", Asks: "a client's trace context is carried on, one is begun where there is none, and spans are told",
			Rules:  func(at Addresses) model.Rules { return model.Rules{Spans: at.Spans} },
			Bursts: []Burst{ask20(Burst{Header: context}), ask20(Burst{})},
			Judge:  traced,
		},
	}
}

func metered(s Seen, right, wrong int) Result {
	r := Result{Verdict: No, Sent: sent(s), Seen: "no layer of the stack counts requests"}
	if s.Translated {
		r.Verdict, r.Seen = Partly, "connections are counted, not requests"
	}
	good, bad := s.Counted[http.StatusOK/100], s.Counted[http.StatusNotFound/100]
	if n := s.Counted[0]; n > 0 && good+bad == 0 {
		r.Verdict, r.Seen = Partly, fmt.Sprintf("%d connections are counted, not requests", n)
		return r
	}
	if s.Counted == nil {
		return r
	}
	r.Verdict, r.Seen = Partly, fmt.Sprintf("counted: 2xx %d of %d, 4xx %d of %d", good, right, bad, wrong)
	if good == right && bad == wrong {
		r.Verdict = Yes
	}
	return r
}

func logged(s Seen) Result {
	named := 0
	for _, one := range s.Replies[0] {
		if slices.ContainsFunc(s.Lines, func(line string) bool { return mentions(line, one.Name) }) {
			named++
		}
	}
	r := Result{Verdict: No, Sent: sent(s), Seen: fmt.Sprintf("requests with a line: %s; lines: %d", of(named, s.Replies[0]), len(s.Lines))}
	switch {
	case named == len(s.Replies[0]):
		r.Verdict = Yes
	case named > 0:
		r.Verdict = Partly
	}
	return r
}

// mentions says whether a line has the name, and not as the beginning of another.
func mentions(line, name string) bool {
	for {
		_, after, found := strings.Cut(line, name)
		if !found {
			return false
		}
		if after == "" || after[0] < '0' || after[0] > '9' {
			return true
		}
		line = after
	}
}

// span is one of Zipkin's, as far as it matters.
type span struct {
	Trace string `json:"traceId"`
	Kind  string `json:"kind"`
}

func traced(s Seen) Result {
	carried, anew, begun := contexts(s)
	told := 0
	for _, body := range s.Got[outsiders()[portSpans]].Bodies {
		var spans []span
		if json.Unmarshal(body, &spans) == nil {
			told += len(spans)
		}
	}
	r := Result{Verdict: No, Sent: sent(s), Seen: fmt.Sprintf(
		"the client's trace arrived with %s, with a span of a proxy %d; begun for %s; spans told: %d",
		of(carried, s.Replies[0]), anew, of(begun, s.Replies[1]), told)}
	whole := carried == len(s.Replies[0]) && anew == carried && begun == len(s.Replies[1])
	switch {
	case whole && told > 0:
		r.Verdict = Yes
	case begun > 0 || told > 0:
		r.Verdict = Partly
	}
	return r
}

// contexts counts requests of the first burst that came with the client's trace
// context, those of them with another span than the client's, and requests of
// the second burst that came with any.
func contexts(s Seen) (carried, anew, begun int) {
	first := map[string]bool{}
	for _, one := range s.Replies[0] {
		first[one.Name] = true
	}
	for _, pod := range Pods() {
		for _, one := range s.Got[pod].Requests {
			trace, parent := traceOf(one)
			if !first[one.Name] && trace != "" {
				begun++
			}
			if !first[one.Name] || trace != traceID {
				continue
			}
			carried++
			if parent != parentID {
				anew++
			}
		}
	}
	return carried, anew, begun
}

// traceOf is the trace context that a server was sent, by W3C's header or else
// by Zipkin's.
func traceOf(r Request) (trace, parent string) {
	const parts = 4
	if p := strings.Split(r.Header[headerTrace], "-"); len(p) == parts {
		return p[1], p[2]
	}
	return r.Header["x-b3-traceid"], r.Header["x-b3-spanid"]
}
