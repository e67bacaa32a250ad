package tcp

import (
	"errors"

	"github.com/windtunnel/windtunnel/internal/flow"
	"github.com/windtunnel/windtunnel/internal/load"
)

// session counts the bytes of answers, one at a time.
type session struct {
	request  []byte
	first    []byte // what a connection begins with; empty: no flow protocol
	response int64
	once     bool

	welcomed bool
	kept     []byte // the welcome as far as it has come, at most 268 bytes
	identity []byte // part of kept
	busy     bool
	left     int64
	answer   load.Answer
}

var _ load.Session = (*session)(nil)

var errUnasked = errors.New("bytes came that belong to no answer")

// Open begins with the hello.
func (s *session) Open(dst []byte) []byte {
	s.welcomed, s.kept, s.identity, s.busy = len(s.first) == 0, s.kept[:0], nil, false
	return append(dst, s.first...)
}

// Begin appends the request.
func (s *session) Begin(dst []byte, id uint32) []byte {
	s.busy, s.left = true, s.response
	s.answer = load.Answer{ID: id, BodyBytes: s.response}
	return append(dst, s.request...)
}

// Feed counts received bytes. An answer with a connection of its own is
// complete when the server has closed that: so it is the server that keeps the
// closed connection in mind, and the client's ports do not run out. A raw peer
// would not close.
func (s *session) Feed(b []byte, got []load.Answer) ([]load.Answer, error) {
	if len(b) == 0 {
		if s.busy && s.left == 0 {
			got = append(got, s.finish())
		}
		return got, nil
	}
	if !s.welcomed {
		rest, err := s.welcome(b)
		if err != nil || !s.welcomed {
			return got, err
		}
		b = rest
	}
	if int64(len(b)) > s.left || len(b) > 0 && !s.busy {
		return got, errUnasked
	}
	s.left -= int64(len(b))
	s.answer.Sum = load.Sum(s.answer.Sum, b)
	if len(b) > 0 && s.left == 0 && (!s.once || len(s.first) == 0) {
		got = append(got, s.finish())
	}
	return got, nil
}

// welcome takes the server's first message and returns what follows it.
func (s *session) welcome(b []byte) ([]byte, error) {
	const longest = 13 + 255
	before := len(s.kept)
	s.kept = append(s.kept, b[:min(len(b), longest-before)]...)
	_, identity, n, err := flow.ParseWelcome(s.kept)
	if err != nil || n == 0 {
		return nil, err
	}
	s.welcomed, s.identity = true, identity
	return b[n-before:], nil
}

func (s *session) finish() load.Answer {
	s.busy = false
	s.answer.Identity, s.answer.Close = s.identity, s.once
	return s.answer
}
