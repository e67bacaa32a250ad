package wan

import "container/heap"

// held is a packet that the kernel holds for the line.
type held struct {
	due       int64
	seq       uint64
	id        uint32
	drop      bool
	duplicate *frame // to be sent beside it; nil: nothing
}

// frame is a copy of a packet, with its Ethernet header, and where it goes.
type frame struct {
	bytes  []byte
	device int
}

// queue holds packets in the order in which they leave.
type queue interface {
	Len() int
	push(h held)
	peek() *held
	pop() held
}

func newQueue(unordered bool) queue {
	if unordered {
		return &sorted{}
	}
	const first = 1024 // a power of two
	return &ring{slots: make([]held, first)}
}

// ring is for packets that leave in the order in which they come.
type ring struct {
	slots      []held // a power of two of them
	head, tail uint64
}

func (r *ring) Len() int { return int(r.tail - r.head) } //nolint:gosec // bounded by the kernel's queue

func (r *ring) at(i uint64) *held { return &r.slots[i&uint64(len(r.slots)-1)] } //nolint:gosec // a length

func (r *ring) push(h held) {
	if r.Len() == len(r.slots) {
		more := ring{slots: make([]held, 2*len(r.slots)), head: r.head, tail: r.tail}
		for i := r.head; i != r.tail; i++ {
			*more.at(i) = *r.at(i)
		}
		*r = more
	}
	*r.at(r.tail) = h
	r.tail++
}

func (r *ring) peek() *held { return r.at(r.head) }

func (r *ring) pop() held {
	h := *r.at(r.head)
	*r.at(r.head) = held{}
	r.head++
	return h
}

// sorted is for packets that may overtake each other; those due at once leave
// in the order in which they came.
type sorted struct{ byDue }

func (s *sorted) push(h held) { heap.Push(&s.byDue, h) }
func (s *sorted) peek() *held { return &s.byDue[0] }
func (s *sorted) pop() held {
	h, _ := heap.Pop(&s.byDue).(held)
	return h
}

type byDue []held

func (b byDue) Len() int { return len(b) }
func (b byDue) Less(i, j int) bool {
	return b[i].due < b[j].due || b[i].due == b[j].due && b[i].seq < b[j].seq
}
func (b byDue) Swap(i, j int) { b[i], b[j] = b[j], b[i] }

// Push is heap.Interface's.
func (b *byDue) Push(x any) {
	if h, ok := x.(held); ok {
		*b = append(*b, h)
	}
}

// Pop is heap.Interface's.
func (b *byDue) Pop() any {
	old := *b
	n := len(old)
	h := old[n-1]
	old[n-1] = held{}
	*b = old[:n-1]
	return h
}
