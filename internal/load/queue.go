package load

// slot is room for one request on a connection. It is free, flying (sent, by
// time) or resting (until its time comes).
type slot struct {
	conn       *conn
	id         uint32
	busy       bool // its request is not answered yet
	held       bool // its request waits for the connection to open
	moved      bool // its request was sent before, on another connection
	due, sent  int64
	number     uint64 // that its request carries; 0: none
	freed      int64  // when its last request ended
	turn       int64  // when its next request is due, where a closed loop is paced
	until      int64  // of a closed loop: its next request is not sent before
	thoughts   uint64 // random think times drawn
	prev, next *slot
}

// queue is a FIFO of slots from which any can be removed, without allocation.
type queue struct{ head, tail *slot }

func (q *queue) push(s *slot) {
	s.prev, s.next = q.tail, nil
	if q.tail == nil {
		q.head = s
	} else {
		q.tail.next = s
	}
	q.tail = s
}

func (q *queue) pop() *slot {
	s := q.head
	q.remove(s)
	return s
}

func (q *queue) remove(s *slot) {
	if s.prev == nil {
		q.head = s.next
	} else {
		s.prev.next = s.next
	}
	if s.next == nil {
		q.tail = s.prev
	} else {
		s.next.prev = s.prev
	}
	s.prev, s.next = nil, nil
}

// sleepers are the slots that rest, the first to wake in front: a binary heap.
type sleepers []*slot

func (h *sleepers) push(s *slot) {
	*h = append(*h, s)
	all := *h
	for i := len(all) - 1; i > 0; {
		up := (i - 1) / 2
		if all[up].until <= all[i].until {
			break
		}
		all[up], all[i] = all[i], all[up]
		i = up
	}
}

func (h *sleepers) pop() *slot {
	all := *h
	first, last := all[0], len(all)-1
	all[0] = all[last]
	*h = all[:last]
	all = all[:last]
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			return first
		}
		if down+1 < last && all[down+1].until < all[down].until {
			down++
		}
		if all[i].until <= all[down].until {
			return first
		}
		all[i], all[down] = all[down], all[i]
		i = down
	}
}
