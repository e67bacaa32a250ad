package envoy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// In a pod without a native sidecar the app may run, and ask others, before its
// sidecar does: the redirection is there from the beginning, and what it leads to
// is not. The clients' pods ask for that while the sidecars start, and what came
// of it is told as a fact; the load itself waits for the ready gate, as always.

// factWindow is the key of that fact.
const factWindow = "requests while sidecars start"

// startWindow is what was asked while sidecars start.
type startWindow struct {
	mu     sync.Mutex
	began  time.Time
	causes map[string]int // of failures
	asked  int
	failed time.Duration // from the beginning to the last failure
}

// How the window is looked through.
const (
	windowPace     = 20 * time.Millisecond // between a pod's requests
	windowPatience = time.Second           // with one of them
	windowLinger   = 3 * time.Second       // at most, after the sidecars are live
	windowStreak   = 3                     // good answers in a row that end it
)

// watchStart begins to ask, from every client's pod, once before it returns. end
// waits for good answers, for a while.
func (m *mesh) watchStart(ctx context.Context) (w *startWindow, end func()) {
	w = &startWindow{began: time.Now(), causes: map[string]int{}}
	ctx, cancel := context.WithCancel(ctx)
	live := make(chan struct{})
	var wg sync.WaitGroup
	for _, sc := range m.sidecars {
		to := m.anyServer()
		if sc.role != model.RoleClient || !to.IsValid() {
			continue
		}
		w.ask(ctx, sc, to)
		wg.Go(func() { w.keepAsking(ctx, sc, to, live) })
	}
	return w, func() {
		close(live)
		timer := time.AfterFunc(windowLinger, cancel)
		wg.Wait()
		timer.Stop()
		cancel()
	}
}

// anyServer is the address of a pod that speaks HTTP.
func (m *mesh) anyServer() netip.AddrPort {
	for _, s := range m.services {
		if !s.http || len(s.addrs) == 0 {
			continue
		}
		if addr, err := netip.ParseAddr(s.addrs[0]); err == nil {
			return netip.AddrPortFrom(addr, s.TargetPort)
		}
	}
	return netip.AddrPort{}
}

// keepAsking asks until so many answers in a row are good after the sidecars are live.
func (w *startWindow) keepAsking(ctx context.Context, sc *sidecar, to netip.AddrPort, live <-chan struct{}) {
	tick := time.NewTicker(windowPace)
	defer tick.Stop()
	for streak := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !w.ask(ctx, sc, to) {
			streak = 0
			continue
		}
		streak++
		select {
		case <-live:
			if streak >= windowStreak {
				return
			}
		default:
		}
	}
}

// ask sends one request over a connection of its own, and keeps what came of it.
func (w *startWindow) ask(ctx context.Context, sc *sidecar, to netip.AddrPort) (good bool) {
	ctx, cancel := context.WithTimeout(ctx, windowPatience)
	defer cancel()
	var status int
	err := sc.Where.InNetwork(func() (err error) {
		status, err = request(ctx, to)
		return err
	})
	if errors.Is(ctx.Err(), context.Canceled) {
		return false // the end, and no answer's fault
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	if cause := failure(status, err); cause != "" {
		w.causes[cause]++
		w.failed = max(w.failed, time.Since(w.began))
		return false
	}
	return true
}

// request gets the status of "/".
func request(ctx context.Context, to netip.AddrPort) (int, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp4", to.String())
	if err != nil {
		return 0, err
	}
	defer conn.Close() //nolint:errcheck // only read
	if deadline, ok := ctx.Deadline(); ok {
		if err = conn.SetDeadline(deadline); err != nil {
			return 0, err
		}
	}
	if _, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: "+to.String()+"\r\nConnection: close\r\n\r\n"); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// failure names what went wrong; "": nothing.
func failure(status int, err error) string {
	timeout, ok := errors.AsType[net.Error](err)
	switch {
	case err == nil && status < http.StatusInternalServerError:
		return ""
	case err == nil:
		return strconv.Itoa(status)
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case ok && timeout.Timeout():
		return "timed out"
	}
	return "connection broken"
}

// String is the window in one line, e.g. "21 of 24 failed, the last after 410 ms:
// refused 20, 503 1".
func (w *startWindow) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asked == 0 {
		return "none: no client, or no service that speaks HTTP"
	}
	n, parts := 0, []string{}
	for _, cause := range slices.Sorted(maps.Keys(w.causes)) {
		n += w.causes[cause]
		parts = append(parts, fmt.Sprintf("%s %d", cause, w.causes[cause]))
	}
	if n == 0 {
		return fmt.Sprintf("none of %d failed", w.asked)
	}
	return fmt.Sprintf("%d of %d failed, the last after %d ms: %s", n, w.asked, w.failed.Milliseconds(), strings.Join(parts, ", "))
}
