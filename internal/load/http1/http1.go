// Package http1 is HTTP/1.1 for the load engine: one request in flight on each
// kept-alive connection, and an incremental parser that gives the same answer
// however the bytes are split.
package http1

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Name is the protocol's name in studies.
const Name = "http1"

// IdentityHeader is where servers say who they are.
const IdentityHeader = "x-windtunnel-identity"

// maxHeader bounds a response's header, so that an endless one cannot eat the
// generator.
const maxHeader = 64 << 10

// Protocol makes HTTP/1.1 sessions.
type Protocol struct{}

var _ load.Protocol = Protocol{}

// Prepare builds the request's bytes once.
func (Protocol) Prepare(l model.Load, authority string) (func() load.Session, error) {
	r := l.HTTP
	if strings.ContainsAny(r.Method+r.Path+authority, " \r\n") || r.Method == "" || !strings.HasPrefix(r.Path, "/") {
		return nil, fmt.Errorf("load %s: %q %q is no HTTP request line (host %q)", l.Name, r.Method, r.Path, authority)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", r.Method, r.Path, authority)
	for _, name := range sortedNames(r.Headers) {
		if strings.ContainsAny(name+r.Headers[name], "\r\n") {
			return nil, fmt.Errorf("load %s: header %q holds a line break", l.Name, name)
		}
		fmt.Fprintf(&b, "%s: %s\r\n", name, r.Headers[name])
	}
	if len(r.Body) > 0 || r.Method == "POST" || r.Method == "PUT" {
		b.WriteString("Content-Length: " + strconv.Itoa(len(r.Body)) + "\r\n")
	}
	b.WriteString("\r\n")
	b.Write(r.Body)
	request, head := b.Bytes(), r.Method == "HEAD"
	return func() load.Session { return &session{request: request, head: head} }, nil
}

func sortedNames(m map[string]string) []string {
	var names []string
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// The parser's states.
const (
	inHeader = iota
	inBody
	inChunkSize
	inChunkData
	inChunkEnd
	inTrailer
	untilClose
)

type session struct {
	request []byte
	head    bool
	state   int
	header  []byte // carried over from earlier bytes
	kept    []byte // the header of the present answer, for Answer.Header
	left    int64  // bytes of the body or chunk still to come
	digits  int    // of the chunk size, to bound it
	line    int    // bytes of the present trailer line
	trailer int    // bytes of all trailers
	ext     bool   // in a chunk extension
	answer  load.Answer
}

var (
	errGarbage = errors.New("the bytes are no HTTP/1.1 response")
	errEarly   = errors.New("the response ended early")
)

// sum is CRC-32C, which the processor computes; MakeTable returns a kept table.
func sum(crc uint32, b []byte) uint32 {
	return crc32.Update(crc, crc32.MakeTable(crc32.Castagnoli), b)
}

// Begin appends the request.
func (s *session) Begin(dst []byte, id uint32) []byte {
	s.state, s.header = inHeader, s.header[:0]
	s.answer = load.Answer{ID: id}
	return append(dst, s.request...)
}

// Feed parses received bytes.
func (s *session) Feed(b []byte, got []load.Answer) ([]load.Answer, error) {
	for len(b) > 0 {
		n, done, err := s.step(b)
		if err != nil {
			return got, err
		}
		b = b[n:]
		if !done {
			continue
		}
		if len(b) > 0 {
			return got, errGarbage // more than was asked for
		}
		return append(got, s.answer), nil
	}
	return got, nil
}

// EOF completes an answer whose body ends with the connection.
func (s *session) EOF(got []load.Answer) ([]load.Answer, error) {
	if s.state != untilClose {
		return got, errEarly
	}
	return append(got, s.answer), nil
}

func (s *session) step(b []byte) (n int, done bool, err error) {
	switch s.state {
	case inHeader:
		return s.takeHeader(b)
	case inBody:
		n, done = s.body(b)
		return n, done, nil
	case untilClose:
		s.count(b)
		return len(b), false, nil
	case inChunkSize:
		return s.chunkSize(b)
	case inChunkData:
		n, done = s.body(b)
		if done {
			s.state, s.line = inChunkEnd, 0
		}
		return n, false, nil
	case inChunkEnd:
		return s.chunkEnd(b)
	default:
		return s.takeTrailer(b)
	}
}

func (s *session) count(b []byte) {
	s.answer.Sum = sum(s.answer.Sum, b)
	s.answer.BodyBytes += int64(len(b))
}

func (s *session) body(b []byte) (n int, done bool) {
	n = int(min(int64(len(b)), s.left))
	s.count(b[:n])
	s.left -= int64(n)
	return n, s.left == 0
}

// takeHeader collects the header. Where it arrives in one piece, which is the
// rule, it is parsed in place.
func (s *session) takeHeader(b []byte) (n int, done bool, err error) {
	if len(s.header) == 0 {
		if end := bytes.Index(b, []byte("\r\n\r\n")); end >= 0 && end+4 <= maxHeader {
			done, err = s.parse(b[:end+4])
			return end + 4, done, err
		}
	}
	from := max(len(s.header)-3, 0)
	before := len(s.header)
	s.header = append(s.header, b...)
	end := bytes.Index(s.header[from:], []byte("\r\n\r\n"))
	if end < 0 {
		if len(s.header) > maxHeader {
			return 0, false, errors.New("the response header is over 64 KiB")
		}
		return len(b), false, nil
	}
	end += from + 4
	if end > maxHeader {
		return 0, false, errors.New("the response header is over 64 KiB")
	}
	done, err = s.parse(s.header[:end])
	s.header = s.header[:0]
	return end - before, done, err
}

// parse reads one whole header, with its empty line.
func (s *session) parse(h []byte) (done bool, err error) {
	status, ok := statusLine(h)
	if !ok {
		return false, errGarbage
	}
	if status < 200 {
		if status == 101 {
			return false, errGarbage // nobody asked to switch protocols
		}
		s.state = inHeader
		return false, nil
	}
	s.kept = append(s.kept[:0], h...)
	s.answer.Status, s.answer.OK = status, status < 400
	s.answer.Header, s.answer.HeaderBytes = s.kept, int64(len(h))
	f, err := s.fields()
	if err != nil {
		return false, err
	}
	switch {
	case s.head || status == 204 || status == 304:
		return true, nil
	case f.chunked:
		s.state, s.left, s.digits, s.ext, s.trailer = inChunkSize, 0, 0, false, 0
	case f.length >= 0:
		s.state, s.left = inBody, f.length
		return f.length == 0, nil
	default:
		s.state, s.answer.Close = untilClose, true
	}
	return false, nil
}

func statusLine(h []byte) (status int, ok bool) {
	if len(h) < 13 || (string(h[:9]) != "HTTP/1.1 " && string(h[:9]) != "HTTP/1.0 ") {
		return 0, false
	}
	for _, d := range h[9:12] {
		if d < '0' || d > '9' {
			return 0, false
		}
		status = status*10 + int(d-'0')
	}
	return status, status >= 100 && status < 600 && (h[12] == ' ' || h[12] == '\r')
}

type fields struct {
	length  int64 // -1: not given
	chunked bool
}

// fields reads what matters of the kept header.
func (s *session) fields() (fields, error) {
	f := fields{length: -1}
	s.answer.Close = string(s.kept[:8]) == "HTTP/1.0"
	rest := s.kept[bytes.IndexByte(s.kept, '\n')+1:]
	for len(rest) > 2 {
		end := bytes.IndexByte(rest, '\n')
		line := bytes.TrimRight(rest[:end], "\r")
		rest = rest[end+1:]
		colon := bytes.IndexByte(line, ':')
		if colon <= 0 {
			return f, errGarbage
		}
		if err := s.field(line[:colon], trim(line[colon+1:]), &f); err != nil {
			return f, err
		}
	}
	return f, nil
}

func (s *session) field(name, value []byte, f *fields) error {
	switch {
	case equalFold(name, "content-length"):
		n, ok := number(value)
		if !ok || (f.length >= 0 && f.length != n) {
			return errGarbage
		}
		f.length = n
	case equalFold(name, "transfer-encoding"):
		if !equalFold(value, "chunked") {
			return errGarbage
		}
		f.chunked = true
	case equalFold(name, "connection"):
		if equalFold(value, "close") {
			s.answer.Close = true
		}
	case equalFold(name, IdentityHeader):
		s.answer.Identity = value
	}
	return nil
}

func trim(b []byte) []byte { return bytes.Trim(b, " \t") }

// equalFold compares with an ASCII name in lower case.
func equalFold(b []byte, lower string) bool {
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

// chunkSize reads "1a2b[;extension]\r\n".
func (s *session) chunkSize(b []byte) (n int, done bool, err error) {
	for i, c := range b {
		d := hexDigit(c)
		switch {
		case c == '\n':
			if s.digits == 0 {
				return 0, false, errGarbage
			}
			s.state = inChunkData
			if s.left == 0 {
				s.state, s.line = inTrailer, 0
			}
			s.digits, s.ext = 0, false
			return i + 1, false, nil
		case c == ';' || c == '\r' || c == ' ':
			s.ext = true
		case s.ext:
		case d < 0 || s.digits == 15:
			return 0, false, errGarbage
		default:
			s.left = s.left<<4 | int64(d)
			s.digits++
		}
		if s.trailer++; s.trailer > maxHeader+int(s.answer.BodyBytes) {
			return 0, false, errGarbage // extensions without end
		}
	}
	return len(b), false, nil
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// chunkEnd reads the line end after a chunk's data.
func (s *session) chunkEnd(b []byte) (n int, done bool, err error) {
	for i, c := range b {
		switch {
		case c == '\n':
			s.state, s.left = inChunkSize, 0
			return i + 1, false, nil
		case c != '\r' || s.line > 0:
			return 0, false, errGarbage
		}
		s.line++
	}
	return len(b), false, nil
}

// takeTrailer skips trailers up to the empty line.
func (s *session) takeTrailer(b []byte) (n int, done bool, err error) {
	for i, c := range b {
		if s.trailer++; s.trailer > maxHeader+int(s.answer.BodyBytes) {
			return 0, false, errors.New("the response trailer is over 64 KiB")
		}
		switch {
		case c == '\n':
			if s.line == 0 {
				return i + 1, true, nil
			}
			s.line = 0
		case c != '\r':
			s.line++
		}
	}
	return len(b), false, nil
}
