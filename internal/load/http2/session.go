package http2

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/windtunnel/windtunnel/internal/h2"
	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
)

// session is the connection, and what is known of the answers under way.
type session struct {
	*h2.Conn

	head  bool // the answers have no body, whatever their length says
	slots []slot
	got   []load.Answer
}

type slot struct {
	answer   load.Answer
	number   uint64 // of the header in text
	text     []byte
	identity []byte
	length   int64 // of the body, as the header says; -1: it does not
}

var (
	_ load.Session   = (*session)(nil)
	_ load.Replier   = (*session)(nil)
	_ load.Canceller = (*session)(nil)
	_ load.Drainer   = (*session)(nil)
	_ load.Numberer  = (*session)(nil)
	_ h2.Receiver    = (*session)(nil)
)

// Of Header.Values.
const (
	valueLength = iota
	valueIdentity
)

func newSession(r *h2.Request, c Config) *session {
	return &session{
		Conn: h2.New(r, c.Streams, "content-length", load.IdentityHeader),
		head: c.Method == http.MethodHead, slots: make([]slot, c.Streams),
	}
}

// Begin appends the request.
func (s *session) Begin(dst []byte, id uint32) []byte {
	s.begin(id)
	return s.Conn.Begin(dst, id)
}

// BeginNumbered appends the request with its number.
func (s *session) BeginNumbered(dst []byte, id uint32, number uint64) []byte {
	s.begin(id)
	return s.BeginWith(dst, id, h2.Field{Name: model.HeaderRequestID, Value: string(load.AppendRequestID(nil, number))})
}

func (s *session) begin(id uint32) {
	s.slots[id].answer = load.Answer{ID: id}
}

// Feed parses received bytes.
func (s *session) Feed(b []byte, got []load.Answer) ([]load.Answer, error) {
	before := len(got)
	s.got = got
	err := s.Conn.Feed(b, s)
	got, s.got = s.got, nil
	if len(got) > before && s.Drained() {
		got[len(got)-1].Close = true
	}
	return got, err
}

// Header takes an answer's header, or its trailer, which says nothing here.
func (s *session) Header(id uint32, h *h2.Header, end bool) {
	t := &s.slots[id]
	if !h.Trailer {
		t.answer.Status = h.Status
		if t.number != h.Number {
			t.keep(h)
		}
	}
	if end {
		s.finish(t)
	}
}

// keep takes over a header that is another than the slot's last.
func (t *slot) keep(h *h2.Header) {
	t.number = h.Number
	t.text = append(t.text[:0], h.Text...)
	t.identity = append(t.identity[:0], h.Values[valueIdentity]...)
	t.length = -1
	if v := h.Values[valueLength]; v != nil {
		n, err := strconv.ParseInt(string(v), 10, 63)
		if err != nil || n < 0 {
			n = wrongLength
		}
		t.length = n
	}
}

// wrongLength is of a header whose length is no number: no body has it.
const wrongLength = -2

// Data takes a part of a body.
func (s *session) Data(id uint32, b []byte, end bool) {
	t := &s.slots[id]
	t.answer.Sum = load.Sum(t.answer.Sum, b)
	t.answer.BodyBytes += int64(len(b))
	if end {
		s.finish(t)
	}
}

func (s *session) finish(t *slot) {
	a := &t.answer
	bare := a.BodyBytes == 0 && (s.head || a.Status == http.StatusNotModified)
	switch {
	case t.length != -1 && t.length != a.BodyBytes && !bare:
		a.Failure = model.CauseProtocol // RFC 9113, section 8.1.1
	case a.Status >= http.StatusBadRequest:
		a.Failure = model.CauseStatus
	}
	a.Header, a.Identity, a.HeaderBytes = t.text, t.identity, int64(len(t.text))
	s.got = append(s.got, *a)
}

// Failed takes the end of one request without an answer.
func (s *session) Failed(id uint32, err error) {
	a := load.Answer{ID: id, Failure: model.CauseReset}
	if errors.Is(err, h2.ErrMalformed) {
		a.Failure = model.CauseProtocol
	}
	s.got = append(s.got, a)
}
