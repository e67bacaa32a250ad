package monitor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Bounds on what one who asks may keep the server busy with.
const (
	headerTimeout = 5 * time.Second
	answerTimeout = 20 * time.Second
	atOnce        = 4 // scrapes
	closeTimeout  = 2 * time.Second
)

// Address is where to listen: the loopback address where only a port is given.
func Address(text string) (string, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", fmt.Errorf("--metrics %s: want HOST:PORT or :PORT: %w", text, err)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// Handler answers GET /metrics with everything, as OpenMetrics or Prometheus
// text, whichever is asked for.
func (m *Monitor) Handler() (http.Handler, error) {
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(m); err != nil {
		return nil, fmt.Errorf("making the metrics: %w", err)
	}
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true, MaxRequestsInFlight: atOnce, Timeout: answerTimeout})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		metrics.ServeHTTP(w, r)
		m.read(r.Header.Get(readerHeader) != "")
	})
	return mux, nil
}

// Serve answers on a listener until stop is called.
func (m *Monitor) Serve(l net.Listener) (stop func(context.Context) error, err error) {
	handler, err := m.Handler()
	if err != nil {
		return nil, err
	}
	s := &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout, WriteTimeout: answerTimeout + headerTimeout}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		err := s.Shutdown(ctx)
		if err != nil {
			err = s.Close()
		}
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		if err != nil {
			return fmt.Errorf("ending the metrics' server: %w", err)
		}
		return nil
	}, nil
}
