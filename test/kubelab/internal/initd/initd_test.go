package initd

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/test/kubelab/internal/unit"
)

func TestAsk(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			http.Error(w, "not ready", http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	socket := filepath.Join(t.TempDir(), "socket")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	tests := []struct {
		what  string
		ready bool
	}{
		{server.URL + "/readyz", true},
		{server.URL + "/else", false},
		{socket, true},
		{socket + "-else", false},
		{server.Listener.Addr().String(), true},
		{"127.0.0.1:1", false},
	}
	for _, test := range tests {
		if err := ask(t.Context(), test.what); (err == nil) != test.ready {
			t.Errorf("%s: %v, want ready %t", test.what, err, test.ready)
		}
	}
}

func TestAwaitWaits(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	s := &supervisor{log: slog.New(slog.DiscardHandler)}
	if err := s.await(t.Context(), unit.Process{Name: "x", Ready: server.URL}); err != nil || asked.Load() != 3 {
		t.Errorf("asked %d times, %v", asked.Load(), err)
	}
}

// TestReap does what PID 1 does; as the tests have no other children it does
// not take them away from anybody.
func TestReap(t *testing.T) {
	t.Parallel()
	s := &supervisor{log: slog.New(slog.DiscardHandler), running: map[int]chan<- syscall.WaitStatus{}}
	go s.reap(t.Context())
	for code, script := range map[int]string{0: "true", 7: "exit 7"} {
		ended, err := s.start("/bin/sh", []string{"sh", "-c", script}, nil)
		if err != nil {
			t.Fatal(err)
		}
		select {
		case status := <-ended:
			if status.ExitStatus() != code {
				t.Errorf("%s: %d", script, status.ExitStatus())
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%s was not reaped", script)
		}
	}
}
