package monitor

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/s2"
	"google.golang.org/protobuf/encoding/protowire"
)

const exposed = `# TYPE a_total counter
a_total{variant="direct"} 3
# TYPE b gauge
b 0.5
# TYPE c histogram
c_bucket{le="0.001"} 1
c_bucket{le="+Inf"} 2
c_sum 0.25
c_count 2
`

// receiver is the other side of a remote write, which refuses the first requests.
type receiver struct {
	mu     sync.Mutex
	refuse []int // statuses
	got    []map[string]bool
	last   *http.Request
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.refuse) > 0 {
		status := r.refuse[0]
		r.refuse = r.refuse[1:]
		http.Error(w, "not now", status)
		return
	}
	raw, decodeErr := s2.Decode(nil, body)
	if err = errors.Join(err, decodeErr); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	series := map[string]bool{}
	for _, one := range fields(raw, 1) {
		var names []string
		for _, l := range fields(one, 1) {
			names = append(names, string(fields(l, 1)[0])+"="+string(fields(l, 2)[0]))
		}
		series[strings.Join(names, " ")] = true
	}
	r.got, r.last = append(r.got, series), q
	w.WriteHeader(http.StatusNoContent)
}

// fields are the values of a message's field of a length.
func fields(b []byte, number protowire.Number) (all [][]byte) {
	for len(b) > 0 {
		n, kind, size := protowire.ConsumeTag(b)
		b = b[size:]
		if kind != protowire.BytesType {
			b = b[protowire.ConsumeFieldValue(n, kind, b):]
			continue
		}
		v, size := protowire.ConsumeBytes(b)
		if n == number {
			all = append(all, v)
		}
		b = b[size:]
	}
	return all
}

func forwarding(t *testing.T, other http.Handler) (f *Forwarder, told *[]error) {
	t.Helper()
	from := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, exposed) }))
	to := httptest.NewServer(other)
	t.Cleanup(func() { from.Close(); to.Close() })
	told = new([]error)
	f = newForwarder(from.URL, to.URL, func(err error) { *told = append(*told, err) })
	f.every, f.retry = time.Millisecond, time.Millisecond
	return f, told
}

// A run ends as soon as its last metrics are read: what is read then is written.
func TestForwardTheLast(t *testing.T) {
	t.Parallel()
	r := &receiver{}
	to := httptest.NewServer(r)
	t.Cleanup(to.Close)
	ctx, end := context.WithCancel(t.Context())
	from := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		end()
		_, _ = io.WriteString(w, exposed)
	}))
	t.Cleanup(from.Close)
	f := newForwarder(from.URL, to.URL, func(err error) { t.Error(err) })
	f.once(ctx)
	if f.sent != 1 || len(r.got) != 1 {
		t.Errorf("%d written, %d received", f.sent, len(r.got))
	}
	from.Close()
	if f.once(ctx); f.sent != 1 || f.failed != 0 {
		t.Errorf("%d written, %d failed", f.sent, f.failed)
	}
}

func TestForward(t *testing.T) {
	t.Parallel()
	r := &receiver{refuse: []int{503, 500}} // as often as it is tried again
	f, told := forwarding(t, r)
	f.once(t.Context())
	if f.sent != 1 || f.failed != 0 || len(*told) != 0 || len(r.got) != 1 {
		t.Fatalf("%d sent, %d failed, told %v", f.sent, f.failed, *told)
	}
	want := map[string]bool{
		"__name__=a_total job=windtunnel variant=direct": true, "__name__=b job=windtunnel": true,
		"__name__=c_bucket job=windtunnel le=0.001": true, "__name__=c_bucket job=windtunnel le=+Inf": true,
		"__name__=c_sum job=windtunnel": true, "__name__=c_count job=windtunnel": true,
	}
	if diff := cmp.Diff(want, r.got[0]); diff != "" {
		t.Error(diff)
	}
	if h := r.last.Header; h.Get("Content-Encoding") != "snappy" || h.Get("X-Prometheus-Remote-Write-Version") != "0.1.0" {
		t.Errorf("%v", h)
	}
}

// What the other side will never take is not tried again, and said once.
func TestForwardRefused(t *testing.T) {
	t.Parallel()
	r := &receiver{refuse: []int{400, 302, 400}}
	f, told := forwarding(t, r)
	for range 3 {
		f.once(t.Context())
	}
	if f.failed != 3 || f.sent != 0 || len(*told) != 1 || !strings.Contains((*told)[0].Error(), "400 Bad Request: not now") || len(r.refuse) != 0 {
		t.Errorf("%d failed, %d sent, told %v", f.failed, f.sent, *told)
	}
}

func TestForwardStops(t *testing.T) {
	t.Parallel()
	f, _ := forwarding(t, &receiver{})
	f.start(t.Context())
	if sent, failed, err := f.Stop(); failed != 0 || err != nil {
		t.Errorf("%d sent, %d failed, %v", sent, failed, err)
	}
}

func TestCheckRemote(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{
		"http://prometheus:9090/api/v1/write": true, "https://mimir.example/api/v1/push": true,
		"prometheus:9090": false, "ftp://host/": false, "http:///path": false, "http://me:secret@host/": false, "http://%zz": false, "": false,
	} {
		err := CheckRemote(text)
		if (err == nil) != good || err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// The end waits for everybody who has read before, and for the forwarder anyhow.
func TestEndWaitsForAll(t *testing.T) {
	t.Parallel()
	m := New("s", "v", time.Now, func() (int64, error) { return 0, nil })
	m.Forwarded()
	m.read(false)
	last := m.End()
	for i, forwarder := range []bool{true, false} {
		select {
		case <-last:
			t.Fatalf("it has ended after %d of 2 had read", i)
		default:
		}
		m.read(forwarder)
	}
	select {
	case <-last:
	default:
		t.Error("both have read, and it has not ended")
	}
}

func FuzzPoints(f *testing.F) {
	f.Add(exposed)
	f.Add("a{b=\"c\\\"d\"} NaN 5\n")
	f.Fuzz(func(_ *testing.T, text string) {
		all, err := points(strings.NewReader(text))
		if err == nil {
			writeRequest(all, time.Unix(0, 0))
		}
	})
}
