package load_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/load/grpc"
	"github.com/windtunnel/windtunnel/internal/load/http1"
	"github.com/windtunnel/windtunnel/internal/load/http2"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Requests carry numbers of which no two are alike, whichever worker or generator
// sends them, and what the server says to have spent is kept beside each.
func TestTraced(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[uint64]int{}
	addr := serve(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			n, ok := model.TracedNumber(r.Header.Get(model.HeaderRequestID))
			if !ok {
				return // a request that is not numbered fails
			}
			mu.Lock()
			seen[n]++
			mu.Unlock()
			if _, err := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nServer-Timing: %s\r\nContent-Length: 0\r\n\r\n", append(model.AppendTiming(nil, model.TimingApp, 1234), ", a.app;dur=1"...)); err != nil {
				return
			}
		}
	})
	var all model.LoadResult
	for shard := range 2 {
		j := job(model.Load{Arrival: model.ArrivalOpen, Rate: 200, Connections: 4, Duration: time.Second, Timeout: 5 * time.Second}, addr)
		j.Traced, j.Workers, j.Shard, j.Shards = true, 2, shard, 2
		result, _, err := load.Run(t.Context(), j)
		if err != nil {
			t.Fatal(err)
		}
		if result.Traced == nil || uint64(len(result.Traced.Number)) != result.Succeeded {
			t.Fatalf("%d succeeded, traced is %+v", result.Succeeded, result.Traced)
		}
		all.AddTraced(result.Traced)
	}
	mu.Lock()
	defer mu.Unlock()
	for i, n := range all.Traced.Number {
		if seen[n] != 1 || all.Traced.App[i] != 1234 || all.Traced.Service[i] <= 0 {
			t.Fatalf("request %d was seen %d times, took %d, and the app %d", n, seen[n], all.Traced.Service[i], all.Traced.App[i])
		}
	}
}

// Of very many requests only some are traced.
func TestTracedAreFew(t *testing.T) {
	t.Parallel()
	addr := serve(t, says("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	j := job(model.Load{Arrival: model.ArrivalClosed, Connections: 4, Duration: 2 * time.Second, Timeout: 5 * time.Second}, addr)
	j.Traced = true
	result, _, err := load.Run(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	n := uint64(len(result.Traced.Number))
	// 500 in each of at most three seconds, and half as many for each doubling of
	// the distance.
	if most := uint64(3*500 + 10*250); n == 0 || n > most {
		t.Errorf("%d of %d requests were traced in 2 s, at most %d are meant to be", n, result.Succeeded, most)
	}
	for _, app := range result.Traced.App {
		if app != model.NoTime {
			t.Fatalf("the app did not say what it spent, and it is %d", app)
		}
	}
}

// A load that sets its own request id is not numbered.
func TestOwnRequestIDIsKept(t *testing.T) {
	t.Parallel()
	for headers, want := range map[string]bool{`{}`: true, `{"headers": {"X-Request-ID": "mine"}}`: false} {
		one, err1 := http1.New([]byte(headers))
		two, err2 := http2.New([]byte(headers))
		if err := errors.Join(err1, err2); err != nil || one.Numbers() != want || two.Numbers() != want {
			t.Errorf("%s: %v, %v, %v", headers, one.Numbers(), two.Numbers(), err)
		}
	}
	for metadata, want := range map[string]bool{`{}`: true, `{"metadata": {"x-request-id": "mine"}}`: false} {
		p, err := grpc.New([]byte(metadata))
		if err != nil || p.Numbers() != want {
			t.Errorf("gRPC, %s: %v, %v", metadata, p.Numbers(), err)
		}
	}
}
