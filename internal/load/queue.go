package load

// slot is room for one request on a connection. It is in at most one queue:
// free, flying (sent, by time) or resting (after a failure, by time).
type slot struct {
	conn       *conn
	id         uint32
	busy       bool // its request is not answered yet
	held       bool // its request waits for the connection to open
	due, sent  int64
	until      int64 // resting: not before
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
