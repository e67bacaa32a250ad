package sys

import (
	"slices"
	"strings"
	"sync"
)

// LogLimit is how many bytes of what a process prints are kept: the end.
const LogLimit = 256 << 10

// Tail keeps the last of what is written to it. Those who write may be several.
type Tail struct {
	limit int
	mu    sync.Mutex
	buf   []byte
}

// NewTail makes one that keeps so many bytes.
func NewTail(limit int) *Tail { return &Tail{limit: limit} }

// Write never fails.
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if len(t.buf) > 2*t.limit { // moved once for as many bytes as are kept
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-t.limit:]...)
	}
	return len(b), nil
}

// Bytes is a copy of what is kept.
func (t *Tail) Bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.buf[max(0, len(t.buf)-t.limit):])
}

// Line is what is kept, in one line.
func (t *Tail) Line() string { return strings.Join(strings.Fields(string(t.Bytes())), " ") }
