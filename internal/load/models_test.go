package load_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestReplayedLoad(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	l := open(105, 32, 200*time.Millisecond)
	l.Pattern.Times = append(slices.Repeat([]time.Duration{50 * time.Millisecond}, 20), 150*time.Millisecond)
	j := job(l, serve(t, says(okAnswer)))
	j.Workers = 2
	r := run(t, j)
	if r.Due != 21 || r.Succeeded+r.Unsent != 21 || r.Timeline.Slots[5].Succeeded != 20 || r.Timeline.Slots[15].Succeeded+r.Unsent != 1 {
		t.Errorf("due %d, succeeded %d, timeline %v", r.Due, r.Succeeded, r.Timeline.Slots)
	}
}

// Two generators with shards of one Poisson schedule send what one would.
func TestShards(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	l := open(2000, 8, 200*time.Millisecond)
	l.Pattern = model.Pattern{Poisson: true}
	want := uint64(0)
	for k, s := uint64(0), load.NewSchedule(l, 0, 7); ; k++ {
		if at, _ := s.Due(k); at >= l.Duration {
			break
		}
		want++
	}
	to := serve(t, says(okAnswer))
	results := make([]*model.LoadResult, 2)
	var both sync.WaitGroup
	for i := range results {
		j := job(l, to)
		j.Seed, j.Shard, j.Shards, j.Workers = 7, i, len(results), 1+i
		both.Go(func() { results[i] = run(t, j) })
	}
	both.Wait()
	if sum := results[0].Due + results[1].Due; sum != want {
		t.Errorf("%d and %d requests were due, want %d together", results[0].Due, results[1].Due, want)
	}
	if results[0].Due == 0 || results[1].Due == 0 {
		t.Error("a shard had nothing to do")
	}
}

func TestThinkTime(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	for name, p := range map[string]model.Pattern{"fixed": {}, "random": {Poisson: true}} {
		l := closed(20, 500*time.Millisecond)
		l.Think, l.Pattern = 20*time.Millisecond, p
		r, _ := calm(t, job(l, serve(t, says(okAnswer))))
		// 20 users who each take 20 ms and a little: at most 500 requests.
		if r.FailedTotal() > 0 || r.Succeeded < 300 || r.Succeeded > 570 {
			t.Errorf("%s: %d requests succeeded, %v failed, want some less than 500", name, r.Succeeded, r.Failed)
		}
	}
}

// Users with random think times are there from the first moment: in one think
// time each sends once, on average. Spread evenly over it, those who begin early
// would be back: 1.37 requests each.
func TestUsersBeginAsTheyGoOn(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	const users = 400
	l := closed(users, 300*time.Millisecond)
	l.Think, l.Pattern = l.Duration, model.Pattern{Poisson: true}
	r := run(t, job(l, serve(t, says(okAnswer))))
	// 20 is the standard deviation; a busy host makes them fewer, never more.
	if r.FailedTotal() > 0 || r.Due > users+4*20 || r.Due < users/2 {
		t.Errorf("%d users have sent %d requests in one think time, %v failed", users, r.Due, r.Failed)
	}
}

func TestPacedClosedLoop(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	l := closed(4, 400*time.Millisecond)
	l.Pace = 500
	r := run(t, job(l, serve(t, says(okAnswer))))
	// A host that stops this process at the window's end leaves some turns undone.
	if r.Due < 150 || r.Due > 201 || r.Lateness.Count() == 0 {
		t.Errorf("%d requests were due and %d were not blocked, want 200", r.Due, r.Lateness.Count())
	}
}

// A connection that was busy when its turn came sends late and catches up: the
// response time counts from the turn, the service time from when it was sent.
func TestPacedClosedLoopCatchesUp(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	var once sync.Once
	l := closed(1, 500*time.Millisecond)
	l.Pace = 100
	r := run(t, job(l, serve(t, answering(func(c net.Conn) bool {
		once.Do(func() { time.Sleep(200 * time.Millisecond) })
		_, err := io.WriteString(c, okAnswer)
		return err == nil
	}))))
	if r.Due < 40 || r.Due > 51 || r.Blocked < 15 || r.Blocked > 35 {
		t.Errorf("%d requests were due, %d blocked, want 50 and about 20", r.Due, r.Blocked)
	}
	if late, quick := r.Response.Quantile(0.8), r.Service.Quantile(0.8); late < 50e6 || quick > 50e6 {
		t.Errorf("p80 of response %d and of service %d ns: a stall shows in response only", late, quick)
	}
}

func TestDroppedWhenBlocked(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	l := open(1000, 2, 300*time.Millisecond)
	l.Drop = true
	r := run(t, job(l, serve(t, answering(func(c net.Conn) bool {
		time.Sleep(50 * time.Millisecond)
		_, err := io.WriteString(c, okAnswer)
		return err == nil
	}))))
	// A thread that is stopped while a connection becomes free sends what was due
	// until then: a few are blocked where the host is busy.
	if r.Due != 300 || r.Due != r.Succeeded+r.Unsent || r.Unsent < 250 || r.Blocked > 15 {
		t.Errorf("due %d, succeeded %d, unsent %d, blocked %d: two connections of 50 ms a request", r.Due, r.Succeeded, r.Unsent, r.Blocked)
	}
	if p50 := r.Response.Quantile(0.5); p50 > 150e6 { // all of them sent one after the other take seconds
		t.Errorf("half of the responses took %d ns or more: requests were not to wait", p50)
	}
}

func TestCoalescedRequestsGoTogether(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	l := open(1000, 32, 300*time.Millisecond)
	l.Coalesce = 20 * time.Millisecond
	r := run(t, job(l, serve(t, says(okAnswer))))
	if p50 := r.Lateness.Quantile(0.5); r.Due != 300 || r.Succeeded+r.Unsent != 300 || p50 < 2e6 || p50 > 40e6 {
		t.Errorf("due %d, succeeded %d, lateness p50 %d ns, want about 10 ms", r.Due, r.Succeeded, p50)
	}
}

func TestSpinning(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	l := open(500, 4, 200*time.Millisecond)
	l.Spin = 200 * time.Microsecond
	if r := run(t, job(l, serve(t, says(okAnswer)))); r.Due != 100 || r.Succeeded+r.Unsent != 100 || r.Succeeded == 0 {
		t.Errorf("due %d, succeeded %d", r.Due, r.Succeeded)
	}
}

// secured is a TLS server and the CA of its certificate.
func secured(t *testing.T, versions uint16) (netip.AddrPort, string) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("hello", 10_000))
	}))
	s.TLS = &tls.Config{MinVersion: versions, MaxVersion: versions}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // it complains of clients that refuse it
	s.StartTLS()
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return netip.MustParseAddrPort(s.Listener.Addr().String()), string(ca)
}

func TestTLS(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	for name, version := range map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13} {
		to, ca := secured(t, version)
		for how, s := range map[string]model.TLS{"verified": {CA: ca, ServerName: "example.com"}, "not verified": {Insecure: true}} {
			l := closed(4, 200*time.Millisecond)
			l.TLS = &s
			r := run(t, job(l, to))
			if r.FailedTotal() > 0 || r.Succeeded < 10 || r.BodyBytesMin != 50_000 || r.Sockets != 4 {
				t.Errorf("TLS %s, %s: %d succeeded over %d sockets, failed %v: %v", name, how, r.Succeeded, r.Sockets, r.Failed, r.Reasons)
			}
		}
	}
}

func TestTLSErrors(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	to, ca := secured(t, tls.VersionTLS13)
	plain := serve(t, says(okAnswer))
	closing := serve(t, func(net.Conn) {})
	tests := map[string]struct {
		tls   model.TLS
		to    netip.AddrPort
		cause model.Cause
		want  string
	}{
		"unknown authority": {model.TLS{ServerName: "example.com"}, to, model.CauseTLS, "unknown authority"},
		"wrong name":        {model.TLS{CA: ca, ServerName: "wrong.test"}, to, model.CauseTLS, "wrong.test"},
		"no TLS":            {model.TLS{Insecure: true}, plain, model.CauseTLS, "closed the connection during the TLS handshake"},
		"closed":            {model.TLS{Insecure: true}, closing, model.CauseTLS, "closed the connection during the TLS handshake"},
	}
	for name, tt := range tests {
		l := open(100, 2, 200*time.Millisecond)
		l.TLS, l.Timeout = &tt.tls, 5*time.Second // a handshake may take long on a busy machine
		r := run(t, job(l, tt.to))
		// What is due while the host stalls at the end is not sent.
		if r.Succeeded > 0 || r.Failed[tt.cause]+r.Failed[model.CauseReset]+r.Unsent != 20 || !strings.Contains(r.Reasons[tt.cause], tt.want) {
			t.Errorf("%s: %d succeeded, failed %v: %v", name, r.Succeeded, r.Failed, r.Reasons)
		}
	}
	if !x509.NewCertPool().AppendCertsFromPEM([]byte(ca)) {
		t.Error("the test's CA is no PEM")
	}
}

func TestBadCA(t *testing.T) {
	t.Parallel()
	l := closed(1, time.Second)
	l.TLS = &model.TLS{CA: "nonsense"}
	if _, _, err := load.Run(t.Context(), job(l, nobody(t))); err == nil || !strings.Contains(err.Error(), "no certificate in PEM") {
		t.Errorf("got %v", err)
	}
}
