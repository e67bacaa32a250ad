package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/fault/server"
	"github.com/windtunnel/windtunnel/internal/impair"
	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestMain(m *testing.M) {
	labtest.Main(m, labtest.Commands{labtest.CommandServe: serve})
}

// serve is labtest.Serve with a server that can suffer.
func serve(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	suffers := impair.NewServer(model.Impairment{})
	s := &http.Server{Addr: ":8080", ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Windtunnel-Identity", args[0])
		if suffers.Meet() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})}
	context.AfterFunc(ctx, func() { _ = s.Close() })
	if err := suffers.Listen(ctx); err != nil {
		return 1
	}
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return 1
	}
	return 0
}

func TestConformance(t *testing.T) {
	t.Parallel()
	labtest.Fault(t, labtest.FaultSuite{
		Plugin: server.Plugin(),
		Cases: map[string]labtest.FaultCase{
			"failing": {Config: `{"pods": ["server-1"], "fail": "100%"}`, Unreachable: []string{"server-1"}},
			"slow":    {Config: `{"nodes": ["node-1"], "delay": "20ms", "burn": "100us"}`},
		},
	})
}

// What is asked must be seen in answers.
func TestMeasuredBack(t *testing.T) {
	t.Parallel()
	site := labtest.TwoNodes(t)
	f := labtest.New(t, server.Plugin(), `{"pods": ["server-0"], "delay": "30ms", "fail": "50%"}`)
	if _, err := f.Inject(t.Context(), site); err == nil || !strings.Contains(err.Error(), "pod server-0 has no server that can be impaired") {
		t.Errorf("without a server: %v", err)
	}
	_, err := labtest.Pod(t, site, "server-0").Start(t.Context(), model.Process{
		Name: "serve", Component: model.ComponentApp, Command: []string{"{self}", labtest.CommandServe, "server-0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var heal func(context.Context) error
	labtest.Eventually(t, func() (err error) {
		heal, err = f.Inject(t.Context(), site)
		return err
	})
	observer, ok := f.(model.FaultObserver)
	if !ok {
		t.Fatal("it does not observe")
	}
	labtest.Eventually(t, func() error {
		facts, err := observer.Observe(t.Context(), site)
		if err != nil || len(facts) != 1 {
			return fmt.Errorf("%v: %w", facts, err)
		}
		var took string
		var failed int
		if _, err = fmt.Sscanf(facts[0].Value, "asked delay 30ms, fail 50%%; observed p50 %s %d of 10 failed", &took, &failed); err != nil {
			return fmt.Errorf("%q: %w", facts[0].Value, err)
		}
		if d, err := time.ParseDuration(strings.TrimSuffix(took, ",")); err != nil || d < 30*time.Millisecond || failed != 5 {
			return fmt.Errorf("%q: %w", facts[0].Value, err)
		}
		return nil
	})
	if err := heal(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	labtest.Configs(t, server.Plugin(), map[string]string{
		`{"delay": "1s"}`:                     "names nothing",
		`{"pods": ["a"]}`:                     "does nothing",
		`{"pods": ["a"], "delay": "1m"}`:      "delay is",
		`{"pods": ["a"], "fail": "0.1"}`:      "fail is",
		`{"pods": ["a"], "burn": "x"}`:        "burn is",
		`{"pods": ["a"], "status": "x"}`:      "unknown field",
		`{"pods": ["a"], "fail": "NaN%"}`:     "fail is",
		`{"regions": ["a"], "delay": "-1ms"}`: "delay is",
	})
}
