package grpc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/http"
	"strconv"

	"github.com/windtunnel/windtunnel/internal/h2"
	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
)

// The status codes of gRPC that matter here.
const (
	codeOK               = 0
	codeUnknown          = 2
	codePermissionDenied = 7
	codeUnimplemented    = 12
	codeInternal         = 13
	codeUnavailable      = 14
	codeUnauthenticated  = 16
)

// session is the connection, and what is known of the answers under way.
type session struct {
	*h2.Conn

	stream bool // answers may have other than one message
	slots  []slot
	got    []load.Answer
}

type slot struct {
	answer   load.Answer
	number   uint64 // of the header in text
	text     []byte
	identity []byte

	prefix  [prefixBytes]byte // of the message that begins
	prefixN int
	left    int64 // of the message
	within  bool  // a message
}

// prefixBytes come before each message: whether it is compressed, its length.
const prefixBytes = 5

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
	valueType = iota
	valueStatus
	valueIdentity
)

func newSession(r *h2.Request, streams int, stream bool) *session {
	return &session{
		Conn:   h2.New(r, streams, "content-type", "grpc-status", load.IdentityHeader),
		stream: stream, slots: make([]slot, streams),
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
	t := &s.slots[id]
	t.answer = load.Answer{ID: id}
	t.prefixN, t.left, t.within = 0, 0, false
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

// Header takes an answer's header or its trailer. An answer without messages
// may be one header that says all.
func (s *session) Header(id uint32, h *h2.Header, end bool) {
	t := &s.slots[id]
	if !h.Trailer {
		t.answer.Status = h.Status // of HTTP, for now
		if t.number != h.Number {
			t.number = h.Number
			t.text = append(t.text[:0], h.Text...)
			t.identity = append(t.identity[:0], h.Values[valueIdentity]...)
		}
		if h.Status == http.StatusOK && !isGRPC(h.Values[valueType]) {
			s.refuse(id, end)
			return
		}
	}
	if end {
		s.finish(t, h.Values[valueStatus])
	}
}

// isGRPC says whether a content-type is one of gRPC, such as
// "application/grpc+proto".
func isGRPC(b []byte) bool {
	rest, ok := bytes.CutPrefix(b, []byte("application/grpc"))
	return ok && (len(rest) == 0 || rest[0] == '+' || rest[0] == ';')
}

// Data takes a part of a body.
func (s *session) Data(id uint32, b []byte, end bool) {
	t := &s.slots[id]
	t.answer.Sum = load.Sum(t.answer.Sum, b)
	t.answer.BodyBytes += int64(len(b))
	if t.answer.Status == http.StatusOK && !t.messages(b) {
		s.refuse(id, end)
		return
	}
	if end {
		s.finish(t, nil)
	}
}

// messages counts messages, and says whether they are framed as agreed.
func (t *slot) messages(b []byte) bool {
	for len(b) > 0 || t.within && t.left == 0 {
		if t.within {
			n := min(t.left, int64(len(b)))
			t.left -= n
			if b = b[n:]; t.left == 0 {
				t.within, t.prefixN = false, 0
				t.answer.Messages++
			}
			continue
		}
		n := copy(t.prefix[t.prefixN:], b)
		t.prefixN += n
		b = b[n:]
		if t.prefix[0] != 0 {
			return false // compressed, which was not offered
		}
		if t.prefixN == prefixBytes {
			t.within, t.left = true, int64(binary.BigEndian.Uint32(t.prefix[1:]))
		}
	}
	return true
}

// refuse ends a call whose answer is not one of gRPC.
func (s *session) refuse(id uint32, ended bool) {
	if !ended {
		s.Reject(id)
	}
	s.fail(id, model.CauseProtocol)
}

func (s *session) fail(id uint32, why model.Cause) {
	s.got = append(s.got, load.Answer{ID: id, Failure: why})
}

// Failed takes the end of one call without an answer.
func (s *session) Failed(id uint32, err error) {
	if errors.Is(err, h2.ErrMalformed) {
		s.fail(id, model.CauseProtocol)
		return
	}
	s.fail(id, model.CauseReset)
}

// finish judges an answer by its grpc-status or, where something on the way
// has answered without one, by what the status of HTTP stands for.
func (s *session) finish(t *slot, grpcStatus []byte) {
	a := &t.answer
	whole := !t.within && t.prefixN == 0 && (s.stream || a.Messages == 1)
	code, ok := parseStatus(grpcStatus)
	if grpcStatus == nil && a.Status != http.StatusOK {
		code, ok = codeOf(a.Status), true
	}
	switch {
	case !ok, code == codeOK && (!whole || a.Status != http.StatusOK):
		s.fail(a.ID, model.CauseProtocol)
		return
	case code != codeOK:
		a.Failure = model.CauseStatus
	}
	a.Status = code
	a.Header, a.Identity, a.HeaderBytes = t.text, t.identity, int64(len(t.text))
	s.got = append(s.got, *a)
}

// parseStatus reads grpc-status: a number without leading zeros.
func parseStatus(b []byte) (code int, ok bool) {
	if len(b) == 1 && b[0] == '0' {
		return codeOK, true
	}
	code, err := strconv.Atoi(string(b))
	return code, err == nil && code > 0 && b[0] != '0' && b[0] != '+' && code < 600
}

// codeOf maps a status of HTTP as gRPC's http-grpc-status-mapping has it.
func codeOf(status int) int {
	switch status {
	case http.StatusBadRequest:
		return codeInternal
	case http.StatusUnauthorized:
		return codeUnauthenticated
	case http.StatusForbidden:
		return codePermissionDenied
	case http.StatusNotFound:
		return codeUnimplemented
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return codeUnavailable
	}
	return codeUnknown
}
