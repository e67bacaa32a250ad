package echo

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/impair"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestPlantedConfiguration(t *testing.T) {
	t.Parallel()
	good, err := parse(json.RawMessage(`{"planted": [{"pods": ["a", "b"], "delay": "200us", "fail": "1%"}, {"pods": ["c"], "burn": "1ms"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := (Plant{Delay: 200 * time.Microsecond, Fail: 0.01}); len(good) != 3 || good["a"] != want || good["b"] != want || good["c"].Burn != time.Millisecond {
		t.Errorf("got %+v", good)
	}
	if got := strings.Join(good["a"].arguments(), " "); got != "--plant-delay 200µs --plant-fail 0.01" {
		t.Errorf("arguments %q", got)
	}
	if all, err := parse(nil); err != nil || len(all) != 0 {
		t.Errorf("nothing: %v, %v", all, err)
	}
	for config, wants := range map[string][]string{
		`{"planted": [{"pods": ["a"], "delay": "-1s", "fail": "101%", "burn": "x"}]}`: {"planted[0].delay", "planted[0].fail", "planted[0].burn"},
		`{"planted": [{"pods": ["a"], "fail": "0.01"}]}`:                              {"such as 1%"},
		`{"planted": [{"delay": "1ms"}]}`:                                             {"planted[0].pods names no pod"},
		`{"planted": [{"pods": ["a"]}, {"pods": ["a"]}]}`:                             {"planted[1].pods names a again"},
		`{"plant": 1}`: {"plant"},
	} {
		_, err := parse(json.RawMessage(config))
		for _, want := range wants {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", config, err, want)
			}
		}
	}
}

func FuzzPlantedConfiguration(f *testing.F) {
	f.Add([]byte(`{"planted": [{"pods": ["a"], "delay": "200us", "fail": "1%", "burn": "1ms"}]}`))
	f.Add([]byte(`{"planted": [{"pods": ["a"], "fail": "NaN%"}]}`))
	f.Fuzz(func(t *testing.T, config []byte) {
		all, err := parse(config)
		for pod, p := range all {
			if err == nil && (p.Delay < 0 || p.Delay > maxPlanted || p.Burn < 0 || p.Burn > maxPlanted || !(p.Fail >= 0 && p.Fail <= 1)) {
				t.Errorf("%s has %+v", pod, p)
			}
		}
	})
}

// planted starts a server and returns its URL.
func planted(t *testing.T, p Plant) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		done <- Serve(ctx, Options{Listen: "127.0.0.1:0", Identity: "me", Plant: p, Ready: func(a net.Addr) { ready <- a }})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "http://" + (<-ready).String() + "/"
}

// answers asks so often, over HTTP/1.1 or HTTP/2, and counts.
func answers(t *testing.T, url string, n int, second bool) map[int]int {
	t.Helper()
	p := new(http.Protocols)
	p.SetHTTP1(!second)
	p.SetUnencryptedHTTP2(second)
	transport := &http.Transport{Protocols: p}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport}
	got := map[int]int{}
	for range n {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if id := resp.Header.Get("X-Windtunnel-Identity"); id != "me" {
			t.Errorf("identity %q", id)
		}
		got[resp.StatusCode]++
	}
	return got
}

func TestPlantedFailures(t *testing.T) {
	t.Parallel()
	for _, second := range []bool{false, true} {
		got := answers(t, planted(t, Plant{Fail: 0.05}), 200, second)
		if got[http.StatusOK] != 190 || got[http.StatusServiceUnavailable] != 10 {
			t.Errorf("HTTP/2 %v: %v, want 10 of 200 failed", second, got)
		}
	}
	if got := answers(t, planted(t, Plant{}), 50, false); got[http.StatusOK] != 50 {
		t.Errorf("nothing planted: %v", got)
	}
}

func TestPlantedDelayIsNeverTooShort(t *testing.T) {
	t.Parallel()
	p := impair.NewServer(model.Impairment{Delay: 3 * time.Millisecond, Burn: time.Millisecond})
	for range 20 {
		began := time.Now()
		if p.Meet() {
			t.Error("a request fails")
		}
		if took := time.Since(began); took < 4*time.Millisecond {
			t.Errorf("took %s, want 4ms at least", took)
		}
	}
	if impair.NewServer(model.Impairment{}).Meet() {
		t.Error("nothing planted fails a request")
	}
}
