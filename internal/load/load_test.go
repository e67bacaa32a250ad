package load_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/load/http1"
	"github.com/windtunnel/windtunnel/internal/model"
)

// serve runs a server on loopback that treats each connection as it likes.
func serve(tb testing.TB, handle func(c net.Conn)) netip.AddrPort {
	tb.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				handle(c)
				_ = c.Close()
			}()
		}
	}()
	return netip.MustParseAddrPort(ln.Addr().String())
}

// answering calls answer for every request that has come in whole; false
// closes the connection.
func answering(answer func(c net.Conn) bool) func(net.Conn) {
	return func(c net.Conn) {
		in := bufio.NewReader(c)
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil || !answer(c) {
				return
			}
		}
	}
}

// says answers every request with the text, in pieces if there are several.
func says(texts ...string) func(net.Conn) {
	return answering(func(c net.Conn) bool {
		for _, t := range texts {
			if _, err := c.Write([]byte(t)); err != nil {
				return false
			}
		}
		return true
	})
}

// once answers one request and closes the connection.
func once(text string) func(net.Conn) {
	return answering(func(c net.Conn) bool {
		_, _ = c.Write([]byte(text))
		return false
	})
}

func after(d time.Duration, text string) func(net.Conn) {
	return answering(func(c net.Conn) bool {
		wait(d)
		_, err := c.Write([]byte(text))
		return err == nil
	})
}

func wait(d time.Duration) { <-time.NewTimer(d).C }

const okAnswer = "HTTP/1.1 200 OK\r\nx-windtunnel-identity: me\r\ncontent-length: 2\r\n\r\nok"

func open(rate float64, conns int, d time.Duration) model.Load {
	return model.Load{Arrival: model.ArrivalOpen, Rate: rate, Connections: conns, Duration: d}
}

func closed(conns int, d time.Duration) model.Load {
	return model.Load{Arrival: model.ArrivalClosed, Connections: conns, Duration: d}
}

func job(l model.Load, to ...netip.AddrPort) load.Job {
	l.Name = "test"
	if l.Timeout == 0 {
		l.Timeout = 5 * time.Second
	}
	p, err := http1.New(nil)
	if err != nil {
		panic(err) // cannot be: it is the zero configuration
	}
	return load.Job{Load: l, Protocol: p, Host: "test", Targets: to}
}

func run(tb testing.TB, j load.Job) *model.LoadResult {
	tb.Helper()
	r, w, err := load.Run(tb.Context(), j)
	if err != nil {
		tb.Fatal(err)
	}
	balance(tb, r, j.Load.Pace > 0)
	if w.Duration() != j.Load.Duration || r.Elapsed != j.Load.Duration {
		tb.Errorf("window of %s, elapsed %s, want %s", w.Duration(), r.Elapsed, j.Load.Duration)
	}
	return r
}

// calm runs a load, and again while the host stalled during it, as hypervisors
// make it do: for checks that cannot tell a stall of the host from a defect.
// stalls is how many there were in the last try.
func calm(tb testing.TB, j load.Job) (r *model.LoadResult, stalls uint64) {
	tb.Helper()
	const tries, stall = 5, 30 * time.Millisecond
	for range tries {
		stop, done := make(chan struct{}), make(chan struct{})
		stalls = 0
		go func() {
			defer close(done)
			for last := time.Now(); ; last = time.Now() {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
					if time.Since(last) > stall {
						stalls++
					}
				}
			}
		}()
		r = run(tb, j)
		close(stop)
		if <-done; stalls == 0 {
			break
		}
	}
	return r, stalls
}

// balance checks what must be true of every result.
func balance(tb testing.TB, r *model.LoadResult, paced bool) {
	tb.Helper()
	var slotOK, slotFailed, cells, statuses, responders uint64
	for _, s := range r.Timeline.Slots {
		slotOK, slotFailed = slotOK+s.Succeeded, slotFailed+s.Failed
		for _, c := range s.Cells {
			cells += uint64(c[1])
		}
	}
	for _, n := range r.Statuses {
		statuses += n
	}
	for _, n := range r.Responders {
		responders += n
	}
	type books struct{ Due, Given, Response, Service, FailedResponse, Lateness, SlotOK, SlotFailed, Cells, Responders uint64 }
	late := r.Sent - r.Blocked
	if r.Arrival == model.ArrivalClosed && !paced {
		late = 0
	}
	want := books{r.Due, r.Sent, r.Succeeded, r.Succeeded, r.FailedTotal(), late, r.Succeeded, r.FailedTotal() + r.Unsent, r.Succeeded, r.Succeeded}
	got := books{
		r.Succeeded + r.FailedTotal() + r.Unsent, r.Due - r.Unsent, r.Response.Count(), r.Service.Count(), r.FailedResponse.Count(), r.Lateness.Count(),
		slotOK, slotFailed, cells, responders + r.Unidentified,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		tb.Errorf("the books do not balance (-want +got):\n%s", diff)
	}
	if bad := r.Failed[model.CauseStatus]; len(r.Statuses) > 0 && statuses != r.Succeeded+bad {
		tb.Errorf("%d statuses, of %d successes and %d bad ones", statuses, r.Succeeded, bad)
	}
}

func TestOpenLoopSendsEveryRequestOfItsSchedule(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	to := serve(t, says(okAnswer))
	for _, workers := range []int{1, 2} {
		j := job(open(500, 64, 400*time.Millisecond), to)
		j.Warmup, j.Workers, j.Identities = 100*time.Millisecond, workers, []string{"me", "silent"}
		var window model.Window
		j.OnWindow = func(w model.Window) { window = w }
		r := run(t, j)
		if r.Due != 200 || r.Succeeded+r.Unsent != 200 || r.WarmupDue != 50 || r.WarmupFailed != 0 || window.Duration() != 400*time.Millisecond {
			t.Errorf("due %d, succeeded %d, warm-up %d of which %d failed, window %s", r.Due, r.Succeeded, r.WarmupDue, r.WarmupFailed, window.Duration())
		}
		if diff := cmp.Diff(map[string]uint64{"me": r.Succeeded}, r.Responders); diff != "" {
			t.Errorf("responders (-want +got):\n%s", diff)
		}
		header := int64(len(okAnswer) - 2)
		if r.HeaderBytesMin != header || r.HeaderBytesMax != header || r.BodyBytesMin != 2 || r.BodyBytesMax != 2 {
			t.Errorf("headers of %d to %d bytes, bodies of %d to %d", r.HeaderBytesMin, r.HeaderBytesMax, r.BodyBytesMin, r.BodyBytesMax)
		}
		if r.Sockets != 64 || r.BytesSent == 0 || r.BytesReceived == 0 || r.FirstSuccess <= 0 || r.FailedPrefix != 0 || r.Rate != 500 {
			t.Errorf("sockets %d, bytes %d and %d, first success %s, prefix %d, rate %g", r.Sockets, r.BytesSent, r.BytesReceived, r.FirstSuccess, r.FailedPrefix, r.Rate)
		}
		if r.GeneratorCPU <= 0 || r.GeneratorIdle <= 0 || r.GeneratorIdle > 1 || r.Workers != workers || r.Clock == "" {
			t.Errorf("generator: CPU %s, idle %g, %d workers, clock %q", r.GeneratorCPU, r.GeneratorIdle, r.Workers, r.Clock)
		}
	}
}

func TestClosedLoopObeysLittlesLaw(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	for name, answer := range map[string]func(net.Conn){
		"kept alive": after(5*time.Millisecond, okAnswer),
		"at once":    after(0, okAnswer), // the generator, too, takes a part of the time
		"closing":    after(5*time.Millisecond, strings.Replace(okAnswer, "\r\n", "\r\nconnection: close\r\n", 1)),
	} {
		j := job(closed(4, 500*time.Millisecond), serve(t, answer))
		j.Warmup = 50 * time.Millisecond
		r, _ := calm(t, j)
		inFlight := float64(r.Succeeded) / r.Elapsed.Seconds() * r.Service.Mean().Seconds()
		turning := r.Turnaround.Seconds() / r.Elapsed.Seconds()
		if r.FailedTotal() > 0 || turning <= 0 || math.Abs(inFlight+turning-4) > 0.2 {
			t.Errorf("%s: %.2f in flight, %.2f to be sent, with 4 connections; failed %v", name, inFlight, turning, r.Failed)
		}
		if diff := cmp.Diff(r.Response.Mean(), r.Service.Mean()); diff != "" {
			t.Errorf("a closed loop has no other response time than service time:\n%s", diff)
		}
	}
}

// A server that stops for half a second: requests that were due meanwhile have
// waited, and the response time must say so, where service time does not.
func TestStallIsSeenInResponseTime(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	var served, stallUntil atomic.Int64
	to := serve(t, answering(func(c net.Conn) bool {
		if served.Add(1) == 100 {
			stallUntil.Store(time.Now().Add(500 * time.Millisecond).UnixNano())
		}
		if d := time.Until(time.Unix(0, stallUntil.Load())); d > 0 {
			wait(d)
		}
		_, err := c.Write([]byte(okAnswer))
		return err == nil
	}))
	j := job(open(1000, 8, 2*time.Second), to)
	j.OnWindow = func(model.Window) { served.Store(0) } // of each try
	r, stalls := calm(t, j)
	// 400 requests were due in the first 400 ms of the stall and so waited for
	// over 100 ms: the slowest of 2,000 in which p99 is the 20th slowest, which
	// was due 20 ms after the stall began.
	if late := r.Response.Above(100 * time.Millisecond); late < 380 || late > 600 {
		t.Errorf("%d response times over 100 ms, want 400 and what the catching up adds", late)
	}
	if p99, p999 := r.Response.Quantile(0.99), r.Response.Quantile(0.999); p99 < 450*time.Millisecond || p999 < 490*time.Millisecond {
		t.Errorf("response p99 %s, p99.9 %s; want 480 ms and 498 ms at least", p99, p999)
	}
	if seen := r.Service.Above(100 * time.Millisecond); seen > 8*(1+stalls) {
		t.Errorf("%d service times over 100 ms: with 8 connections at most 8 requests can have met the stall, and each of the host's %d", seen, stalls)
	}
	if r.Blocked < 380 {
		t.Errorf("%d blocked, want all that were due in the stall", r.Blocked)
	}
	if r.Lateness.Count() == 0 || r.Lateness.Quantile(0.5) > 50*time.Millisecond {
		t.Errorf("lateness p50 %s of %d: the stall is not the generator's", r.Lateness.Quantile(0.5), r.Lateness.Count())
	}
}

func TestSaturatedOpenLoopHidesNothing(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	r := run(t, job(open(400, 1, 500*time.Millisecond), serve(t, after(50*time.Millisecond, okAnswer))))
	if r.Due != 200 || r.Succeeded < 2 || r.Succeeded > 11 || r.Unsent+r.Succeeded != 200 {
		t.Errorf("due %d, succeeded %d, unsent %d: one connection at 50 ms can send about ten of 200", r.Due, r.Succeeded, r.Unsent)
	}
	if r.Blocked+1 < r.Succeeded {
		t.Errorf("%d blocked: all but the first of %d were", r.Blocked, r.Succeeded)
	}
}

func TestLargeRequestsAndAnswers(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	const size = 3 << 20
	answer := "HTTP/1.1 200 OK\r\ncontent-length: 3145728\r\n\r\n" + strings.Repeat("x", size)
	j := job(closed(2, 300*time.Millisecond), serve(t, says(answer[:100], answer[100:])))
	var err error
	if j.Protocol, err = http1.New([]byte(`{"method": "POST", "body": "` + strings.Repeat("y", size) + `"}`)); err != nil {
		t.Fatal(err)
	}
	want := load.Answer{Sum: load.Sum(0, []byte(answer[len(answer)-size:])), BodyBytes: size}
	j.Expect = want.Digest()
	r := run(t, j)
	if r.Succeeded == 0 || r.FailedTotal() > 0 || r.BodyBytesMin != size || r.PayloadChanged != 0 || r.BytesSent < size || r.BytesReceived < size {
		t.Errorf("succeeded %d, failed %v, body %d bytes, %d changed, %d bytes sent, %d received", r.Succeeded, r.Failed, r.BodyBytesMin, r.PayloadChanged, r.BytesSent, r.BytesReceived)
	}
}

func TestConnectionsAreSpreadOverTargets(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	as := func(id string) netip.AddrPort { return serve(t, says(strings.Replace(okAnswer, ": me", ": "+id, 1))) }
	r := run(t, job(open(400, 32, 250*time.Millisecond), as("a"), as("b"), nobody(t), as("d")))
	// In turn, but for answers that overtake each other.
	for target, n := range map[string]uint64{"a": r.Responders["a"], "b": r.Responders["b"], "nobody": r.Failed[model.CauseRefused], "d": r.Responders["d"]} {
		if n < 15 || n > 35 {
			t.Errorf("%d of 100 requests went to %s, want about 25", n, target)
		}
	}
}

func TestIPv6(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "[::1]:0")
	if err != nil {
		t.Skipf("no IPv6 on loopback: %v", err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go says(okAnswer)(c)
		}
	}()
	if r := run(t, job(open(100, 16, 100*time.Millisecond), netip.MustParseAddrPort(ln.Addr().String()))); r.Succeeded+r.Unsent != 10 || r.Succeeded == 0 {
		t.Errorf("succeeded %d, failed %v", r.Succeeded, r.Failed)
	}
}

func TestProgress(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	var last load.Progress
	j := job(open(500, 4, 700*time.Millisecond), serve(t, after(2*time.Millisecond, okAnswer)))
	j.OnProgress = func(p load.Progress) { last = p }
	r, _ := calm(t, j)
	if last.Due == 0 || last.Due > 350 || last.Succeeded == 0 || last.Failed > r.Unsent || last.P50 < 1700*time.Microsecond || last.P99 < last.P50 {
		t.Errorf("got %+v", last)
	}
}

func TestCancelEndsALoad(t *testing.T) {
	t.Parallel()
	for _, l := range []model.Load{open(10, 1, time.Hour), closed(1, time.Hour)} {
		ctx, cancel := context.WithCancel(t.Context())
		j := job(l, serve(t, after(10*time.Millisecond, okAnswer)))
		j.OnWindow = func(model.Window) { time.AfterFunc(100*time.Millisecond, cancel) }
		if _, _, err := load.Run(ctx, j); !errors.Is(err, context.Canceled) {
			t.Errorf("%s loop: got %v, want %v", l.Arrival, err, context.Canceled)
		}
	}
}

func TestJobsThatCannotRun(t *testing.T) {
	t.Parallel()
	to := netip.MustParseAddrPort("127.0.0.1:1")
	tests := map[string]func(j *load.Job){
		"no target":      func(j *load.Job) { j.Targets = nil },
		"no protocol":    func(j *load.Job) { j.Protocol = nil },
		"no connections": func(j *load.Job) { j.Load.Connections = 0 },
		"no duration":    func(j *load.Job) { j.Load.Duration = 0 },
		"no timeout":     func(j *load.Job) { j.Load.Timeout = 0 },
		"no rate":        func(j *load.Job) { j.Load.Rate = 0 },
		"rate NaN":       func(j *load.Job) { j.Load.Rate = math.NaN() },
		"no arrival":     func(j *load.Job) { j.Load.Arrival = "" },
		"bad host":       func(j *load.Job) { j.Host = "a b" },
		"bad digest":     func(j *load.Job) { j.Expect = "md5:1" },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(open(10, 1, time.Second), to)
			spoil(&j)
			if _, _, err := load.Run(t.Context(), j); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestConstantNeverDrifts(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		rate float64
		k    uint64
		want time.Duration
	}{
		"first":             {3000, 0, 0},
		"a third":           {3000, 1, 333333},
		"an hour of thirds": {3000, 3000 * 3600, time.Hour},
		"a day of sevenths": {7, 7 * 86400, 24 * time.Hour},
		"slow":              {0.1, 3, 30 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if at, ok := (load.Constant{Rate: tt.rate}).Due(tt.k); !ok || at != tt.want {
				t.Errorf("request %d at %g/s is due at %v (%v), want %v", tt.k, tt.rate, at, ok, tt.want)
			}
		})
	}
	if _, ok := (load.Constant{Rate: 1e-9}).Due(math.MaxUint64); ok {
		t.Error("a time beyond all clocks is due never")
	}
}

func TestNoAllocationPerRequest(t *testing.T) { //nolint:paralleltest // counts the process's allocations
	to := serve(t, func(c net.Conn) {
		b, answer := make([]byte, 4096), []byte(okAnswer)
		for {
			if _, err := c.Read(b); err != nil {
				return
			}
			if _, err := c.Write(answer); err != nil {
				return
			}
		}
	})
	for _, l := range []model.Load{open(10_000, 4, 300*time.Millisecond), closed(4, 300*time.Millisecond)} {
		var requests uint64
		j := job(l, to)
		// What Run itself allocates, before and after, is a few hundred.
		if n := testing.AllocsPerRun(1, func() { requests = run(t, j).Sent }); n > float64(requests)/2 {
			t.Errorf("%s loop: %v allocations for %d requests", l.Arrival, n, requests)
		}
	}
}

// BenchmarkClosedLoop is 32 connections against a server that does as little as
// net can; both share the process, so only the engine's own work is compared
// from one version to the next.
func BenchmarkClosedLoop(b *testing.B) {
	to := serve(b, func(c net.Conn) {
		in, answer := make([]byte, 4096), []byte(okAnswer)
		for {
			if _, err := c.Read(in); err != nil {
				return
			}
			if _, err := c.Write(answer); err != nil {
				return
			}
		}
	})
	var requests uint64
	var elapsed time.Duration
	for b.Loop() {
		r := run(b, job(closed(32, 500*time.Millisecond), to))
		requests, elapsed = requests+r.Succeeded, elapsed+r.Elapsed
	}
	b.ReportMetric(float64(requests)/elapsed.Seconds(), "requests/s")
}
