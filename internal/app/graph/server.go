package graph

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/windtunnel/windtunnel/internal/hop"
)

// Serve is a server as a pod's process.
func Serve(ctx context.Context, file string) error {
	return hop.Main(ctx, file, func(j hop.Job) (hop.Handler, hop.Pool, error) {
		var s service
		if err := json.Unmarshal(j.Config, &s); err != nil {
			return nil, hop.Pool{}, fmt.Errorf("reading its routes: %w", err)
		}
		return newServer(s, j.Identity).answer, s.Pool, nil
	})
}

// server answers for one service.
type server struct {
	routes map[string]*live
	worker *hop.Worker
}

// live is a route with what it remembers.
type live struct {
	route

	body     []byte
	requests atomic.Uint64
}

func newServer(s service, identity string) *server {
	all := &server{routes: map[string]*live{}, worker: hop.NewWorker(identity)}
	for _, r := range s.Routes {
		all.routes[r.Path] = &live{route: r, body: bytes.Repeat([]byte("w"), r.Size)}
	}
	return all
}

func (s *server) answer(ctx context.Context, e *hop.Exchange) hop.Answer {
	r := s.routes[e.Request.URL.Path]
	if r == nil {
		return hop.Text(http.StatusNotFound, "no route has this path\n")
	}
	if r.fails() {
		return hop.Text(r.Status, "an error that the study asks for\n")
	}
	work, delay := r.Work, r.Delay
	if r.Exponential {
		work, delay = s.worker.Exponential(work), s.worker.Exponential(delay)
	}
	if err := hop.Burn(ctx, work); err != nil {
		return hop.Text(http.StatusInternalServerError, err.Error()+"\n")
	}
	hop.Wait(ctx, delay)
	if problem := r.call(ctx, e); problem != "" {
		return hop.Text(http.StatusBadGateway, problem+"\n")
	}
	return hop.Answer{Status: http.StatusOK, Body: r.body}
}

// fails says whether a request shall fail: exactly the share, evenly spread.
func (r *live) fails() bool {
	n := r.requests.Add(1)
	return uint64(float64(n)*r.Errors) > uint64(float64(n-1)*r.Errors)
}

// call makes the route's calls, and says what is wrong with the first that
// must not fail.
func (r *live) call(ctx context.Context, e *hop.Exchange) (problem string) {
	if len(r.Calls) == 0 {
		return ""
	}
	calls := make([]hop.Call, len(r.Calls))
	for i, c := range r.Calls {
		calls[i] = hop.Call{Service: c.Service, Path: c.Path, Timeout: c.Timeout, Attempts: c.Attempts}
	}
	if !r.Parallel {
		for i, c := range calls {
			result := e.Call(ctx, c)
			if problem := r.Calls[i].judge(&result); problem != "" {
				return problem // what comes after it is not asked any more
			}
		}
		return ""
	}
	for i, result := range e.CallAll(ctx, calls) {
		if problem := r.Calls[i].judge(&result); problem != "" {
			return problem
		}
	}
	return ""
}

func (c call) judge(r *hop.Result) string {
	if r.OK() || c.Optional {
		return ""
	}
	return "asking " + c.Service + ": " + r.Problem()
}
