package load

import (
	"bytes"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Numberer is a Session whose requests can carry a number, as a request id (see
// model.TracedPrefix), by which others tell them apart. BeginNumbered is Begin
// with it.
type Numberer interface {
	BeginNumbered(dst []byte, id uint32, number uint64) []byte
}

// Numbering is a Protocol whose sessions are Numberers, if Numbers says so.
type Numbering interface{ Numbers() bool }

// tracedPerSecond is about how many requests a second are traced at most: enough
// for a 99th percentile from a few seconds, and too few to disturb.
const tracedPerSecond = 500

// maxTraced bounds what a worker keeps.
const maxTraced = 50_000

// numbered keeps the stamps of requests that carry a number, in memory that is
// allocated before the load. A nil one keeps nothing.
type numbered struct {
	next  uint64 // the next number; generators and workers have ranges of their own
	every uint64 // each so manieth request is traced
	count uint64 // of requests
	// since is when the present second began, and picked how many were traced in it.
	since  int64
	picked int

	number      []uint64
	service, of []int64
	told        []string // where the app tells more than one thing
}

// newNumbered starts a worker's numbers where no other's are.
func newNumbered(shard, worker int) *numbered {
	const shardBits, workerBits = 48, 32
	return &numbered{
		next: uint64(shard)<<shardBits | uint64(worker)<<workerBits | 1, every: 1, //nolint:gosec // G115: small indexes
		number: make([]uint64, 0, maxTraced), service: make([]int64, 0, maxTraced), of: make([]int64, 0, maxTraced),
	}
}

// pick says which number the next request carries; 0: none. Every so manieth is
// picked, so that the pick depends on nothing that the system does; the distance
// is doubled while there are too many.
func (t *numbered) pick(now int64) uint64 {
	if t == nil {
		return 0
	}
	t.count++
	if t.count%t.every != 0 {
		return 0
	}
	if now-t.since >= time.Second.Nanoseconds() {
		t.since, t.picked = now, 0
	}
	if t.picked++; t.picked > tracedPerSecond {
		t.every, t.picked = 2*t.every, t.picked/2 //nolint:mnd // halves
	}
	n := t.next
	t.next++
	return n
}

// success keeps one.
func (t *numbered) success(number uint64, service int64, header []byte) {
	if t == nil || number == 0 || len(t.number) == cap(t.number) {
		return
	}
	told := timing(header)
	t.number, t.service, t.of = append(t.number, number), append(t.service, service), append(t.of, model.Timing(told))
	if strings.Contains(told, ",") {
		for len(t.told) < len(t.of)-1 {
			t.told = append(t.told, "")
		}
		t.told = append(t.told, told)
	}
}

func (t *numbered) export() *model.Traced {
	for len(t.told) > 0 && len(t.told) < len(t.of) {
		t.told = append(t.told, "")
	}
	return &model.Traced{Number: t.number, Service: t.service, App: t.of, Told: t.told}
}

// timing finds what the app has spent in the header of an answer in text. It
// allocates, of traced requests only.
func timing(header []byte) string {
	for line := range bytes.Lines(header) {
		name, value, ok := bytes.Cut(line, []byte(":"))
		if ok && bytes.EqualFold(name, []byte(model.HeaderTiming)) {
			return string(bytes.TrimSpace(value))
		}
	}
	return ""
}

// AppendRequestID appends the request id of a number.
func AppendRequestID(dst []byte, number uint64) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, model.TracedPrefix...)
	for shift := 4 * (model.TracedDigits - 1); shift >= 0; shift -= 4 {
		dst = append(dst, hex[number>>shift&15]) //nolint:mnd // four bits
	}
	return dst
}

// begin lets the connection's session begin a slot's request.
func (c *conn) begin(s *slot) {
	if s.number != 0 && c.numberer != nil {
		c.out = c.numberer.BeginNumbered(c.out, s.id, s.number)
		return
	}
	c.out = c.session.Begin(c.out, s.id)
}

// Numbers says whether requests with these headers of the load's own can carry a
// number.
func Numbers(headers map[string]string) bool {
	for name := range headers {
		if strings.EqualFold(name, model.HeaderRequestID) {
			return false
		}
	}
	return true
}
