package http1

import (
	"bytes"
	"errors"

	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
)

// maxHeader bounds an answer's headers and trailers together, and maxChunkLine
// the line before a chunk, so that an endless one cannot eat the generator.
const (
	maxHeader    = 64 << 10
	maxChunkLine = 256
)

// stage is what the next bytes are part of.
type stage int

const (
	idle       stage = iota // nothing: no answer is awaited
	statusLine              // of the answer, or of an interim one before it
	headerLine
	body       // of a known length
	untilClose // a body that ends with the connection
	chunkLine
	chunk
	chunkEnd
	trailerLine
)

// session is the parser, and the request that it awaits the answer of. Lines
// are collected in kept, so that nothing depends on how the bytes are split.
type session struct {
	request []byte
	head    bool
	// before and after are what is around a header field that is not in request.
	before, after []byte

	stage     stage
	fresh     bool   // nothing of this answer has come; kept is still the last one's
	kept      []byte // the header so far; in later stages followed by a line
	whole     int    // the length of the header in kept, if that is a final one to its end
	lineAt    int    // where in kept the present line begins
	spent     int    // bytes of all header and trailer lines
	left      int64  // bytes still to come of the body or chunk
	code      int    // the status
	length    int64  // content-length; -1: not given
	chunked   bool
	coded     bool // another transfer coding: only the close ends the body
	keepAlive bool
	identity  [2]int // where in kept
	path      [2]int // as identity
	answer    load.Answer
}

var (
	_ load.Session  = (*session)(nil)
	_ load.Numberer = (*session)(nil)
)

var (
	errGarbage = errors.New("the bytes are no HTTP/1.1 response")
	errUnasked = errors.New("bytes came after the answer")
	errTooLong = errors.New("the response header is over 64 KiB")
)

// Open begins with nothing.
func (s *session) Open(dst []byte) []byte {
	s.stage = idle
	return dst
}

// Begin appends the request.
func (s *session) Begin(dst []byte, id uint32) []byte {
	s.begin(id)
	return append(dst, s.request...)
}

func (s *session) begin(id uint32) {
	s.spent = 0
	s.answer = load.Answer{ID: id}
	s.expect()
}

// BeginNumbered appends the request with its number.
func (s *session) BeginNumbered(dst []byte, id uint32, number uint64) []byte {
	if s.before == nil {
		return s.Begin(dst, id)
	}
	s.begin(id)
	dst = append(append(append(dst, s.before...), model.HeaderRequestID...), ": "...)
	return append(append(load.AppendRequestID(dst, number), "\r\n"...), s.after...)
}

// expect makes ready for a status line.
func (s *session) expect() {
	s.stage, s.fresh = statusLine, true
}

// repeated says whether b begins with the header of the answer before: servers
// say the same again and again, and what that means is known already. If not,
// the session is made ready for another header.
func (s *session) repeated(b []byte) bool {
	s.fresh = false
	if s.whole > 0 && bytes.HasPrefix(b, s.kept[:s.whole]) {
		s.kept = s.kept[:s.whole]
		s.spent += s.whole
		return true
	}
	s.kept, s.lineAt, s.whole = s.kept[:0], 0, 0
	s.length, s.chunked, s.coded, s.identity, s.path = -1, false, false, [2]int{}, [2]int{}
	return false
}

// Feed parses received bytes.
func (s *session) Feed(b []byte, got []load.Answer) ([]load.Answer, error) {
	if len(b) == 0 && s.stage == untilClose {
		return append(got, s.finish()), nil
	}
	for len(b) > 0 {
		n, done, err := s.step(b)
		if err != nil {
			return got, err
		}
		b = b[n:]
		if done {
			got = append(got, s.finish())
		}
	}
	return got, nil
}

func (s *session) finish() load.Answer {
	s.stage = idle
	s.answer.Header = s.kept[:s.answer.HeaderBytes]
	s.answer.Identity, s.answer.Path = s.kept[s.identity[0]:s.identity[1]], s.kept[s.path[0]:s.path[1]]
	s.answer.Close = s.answer.Close || !s.keepAlive
	return s.answer
}

// step takes some bytes, at least one.
func (s *session) step(b []byte) (n int, done bool, err error) {
	switch s.stage {
	case idle:
		return 0, false, errUnasked
	case body:
		n = s.take(b)
		return n, s.left == 0, nil
	case untilClose:
		s.left = int64(len(b))
		return s.take(b), false, nil
	case chunk:
		if n = s.take(b); s.left == 0 {
			s.stage, s.lineAt = chunkEnd, len(s.kept)
		}
		return n, false, nil
	case statusLine:
		if s.fresh && s.repeated(b) {
			return s.whole, s.content(), nil
		}
	case headerLine, chunkLine, chunkEnd, trailerLine:
	}
	n, whole, err := s.collect(b)
	if err != nil || !whole {
		return n, false, err
	}
	end := len(s.kept) - 1
	if end > s.lineAt && s.kept[end-1] == '\r' {
		end--
	}
	done, err = s.line(s.kept[s.lineAt:end])
	return n, done, err
}

// take counts bytes of the body.
func (s *session) take(b []byte) int {
	b = b[:min(int64(len(b)), s.left)]
	s.answer.Sum = load.Sum(s.answer.Sum, b)
	s.answer.BodyBytes += int64(len(b))
	s.left -= int64(len(b))
	return len(b)
}

// collect adds bytes to the present line; whole says that it has ended.
func (s *session) collect(b []byte) (n int, whole bool, err error) {
	end := bytes.IndexByte(b, '\n')
	if n = end + 1; end < 0 {
		n = len(b)
	}
	s.kept = append(s.kept, b[:n]...)
	size := len(s.kept) - s.lineAt
	switch s.stage {
	case chunkLine, chunkEnd:
		if size > maxChunkLine {
			return 0, false, errGarbage
		}
	case statusLine:
		if size >= len(version) && string(s.kept[:len(version)]) != version {
			return 0, false, errGarbage // now, as perhaps no line will ever end
		}
		fallthrough
	default:
		if s.spent += n; s.spent > maxHeader {
			return 0, false, errTooLong
		}
	}
	return n, end >= 0, nil
}

// line takes a whole line, without its end; done says that it was the answer's
// last.
func (s *session) line(line []byte) (done bool, err error) {
	switch s.stage {
	case statusLine:
		err = s.status(line)
		s.stage, s.lineAt = headerLine, len(s.kept)
	case headerLine:
		if len(line) == 0 {
			return s.headerEnd()
		}
		err = s.header(line)
		s.lineAt = len(s.kept)
	case chunkLine:
		err = s.chunkSize(line)
		s.forget()
	case chunkEnd:
		if len(line) > 0 {
			err = errGarbage
		}
		s.stage = chunkLine
		s.forget()
	default: // trailerLine
		done = len(line) == 0
		s.forget()
	}
	return done, err
}

// forget drops the present line: only the header is kept.
func (s *session) forget() { s.kept = s.kept[:s.lineAt] }

const version = "HTTP/1."

func (s *session) status(line []byte) error {
	if len(line) < 12 || string(line[:7]) != version || line[8] != ' ' || (len(line) > 12 && line[12] != ' ') {
		return errGarbage
	}
	status, ok := number(line[9:12])
	if !ok || status < 100 || status > 599 || (line[7] != '0' && line[7] != '1') {
		return errGarbage
	}
	s.keepAlive = line[7] == '1'
	s.code = int(status)
	return nil
}

func (s *session) header(line []byte) error {
	colon := bytes.IndexByte(line, ':')
	if colon <= 0 || line[0] == ' ' || line[0] == '\t' {
		return errGarbage
	}
	name, value := line[:colon], line[colon+1:]
	switch {
	case fold(name, "content-length"):
		n, ok := number(trim(value))
		if !ok || (s.length >= 0 && s.length != n) {
			return errGarbage
		}
		s.length = n
	case fold(name, "transfer-encoding"):
		s.chunked = has(value, "chunked")
		s.coded = !s.chunked
	case fold(name, "connection"):
		s.keepAlive = (s.keepAlive || has(value, "keep-alive")) && !has(value, "close")
	case fold(name, IdentityHeader):
		s.identity = s.place(colon, value)
	case fold(name, load.HopsHeader):
		s.path = s.place(colon, value)
	}
	return nil
}

// place is where in kept a field's value is, without spaces.
func (s *session) place(colon int, value []byte) [2]int {
	text := trim(value)
	at := s.lineAt + colon + 1 + bytes.Index(value, text)
	return [2]int{at, at + len(text)}
}

// trim takes the spaces off both ends.
func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// headerEnd ends a header: an interim one, or that of the answer.
func (s *session) headerEnd() (done bool, err error) {
	if s.code == 101 {
		return false, errGarbage // nobody asked to switch protocols
	}
	if s.code < 200 {
		s.expect()
		return false, nil
	}
	s.whole = len(s.kept)
	return s.content(), nil
}

// content decides what follows the answer's header; done says that nothing does.
func (s *session) content() (done bool) {
	a := &s.answer
	a.Status, a.HeaderBytes, s.lineAt = s.code, int64(s.whole), s.whole
	if s.code >= 400 {
		a.Failure = model.CauseStatus
	}
	switch {
	case s.head || s.code == 204 || s.code == 304:
		return true
	case s.chunked:
		s.stage = chunkLine
	case s.length >= 0 && !s.coded:
		s.stage, s.left = body, s.length
		return s.length == 0
	default:
		s.stage, a.Close = untilClose, true
	}
	return false
}

// chunkSize reads "1a2b[;extension]".
func (s *session) chunkSize(line []byte) error {
	digits, _, _ := bytes.Cut(line, []byte(";"))
	digits = bytes.TrimRight(digits, " \t")
	if len(digits) == 0 || len(digits) > 15 {
		return errGarbage
	}
	s.left = 0
	for _, c := range digits {
		d, ok := hexDigit(c)
		if !ok {
			return errGarbage
		}
		s.left = s.left<<4 | d
	}
	s.stage = chunk
	if s.left == 0 {
		s.stage = trailerLine
	}
	return nil
}

func hexDigit(c byte) (int64, bool) {
	switch lower := c | 0x20; {
	case c >= '0' && c <= '9':
		return int64(c - '0'), true
	case lower >= 'a' && lower <= 'f':
		return int64(lower-'a') + 10, true
	}
	return 0, false
}

func number(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	var n int64
	for _, d := range b {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = n*10 + int64(d-'0')
	}
	return n, true
}

// fold compares with an ASCII word in lower case.
func fold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// has says whether a list such as "keep-alive, Upgrade" has the word.
func has(list []byte, word string) bool {
	for len(list) > 0 {
		var item []byte
		item, list, _ = bytes.Cut(list, []byte(","))
		if fold(trim(item), word) {
			return true
		}
	}
	return false
}
