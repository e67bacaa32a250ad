package echo

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"strconv"
	"time"

	"github.com/windtunnel/windtunnel/internal/impair"
	"github.com/windtunnel/windtunnel/internal/model"
)

// maxHeader bounds a request's header; its lines must each fit the reader.
const maxHeader = 64 << 10

// http1 is one connection. It is not net/http because that costs many times
// what is to be measured.
type http1 struct {
	in       *bufio.Reader
	out      *bufio.Writer
	identity string
	plant    *impair.Server
	fixed    []byte // the whole answer to GET /
	line     []byte // of the request: kept, as the reader overwrites it
}

// request is what matters of one. Method and path are valid until the next.
type request struct {
	method, path []byte
	peer         []byte
	length       int64 // of the body; -1: not given
	chunked      bool
	expects      bool // "100 Continue" before it sends the body
	closing      bool
	traced       time.Time // when a request was read that is traced; zero: it is not
}

var (
	errBadRequest = errors.New("the request is malformed")
	errTooLarge   = errors.New("the request is too large")
)

func newHTTP1(identity string, in *bufio.Reader, out io.Writer) *http1 {
	return &http1{
		in: in, out: bufio.NewWriterSize(out, 16<<10), identity: identity, line: make([]byte, 0, 256),
		fixed: fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nserver: %s\r\n%s: %s\r\ncontent-length: %d\r\n\r\n%s", serverName, headerIdentity, identity, len(fixedBody), fixedBody),
	}
}

// exchange reads one request and writes its answer; more says whether the
// connection may carry another. Pipelined requests are answered together.
func (h *http1) exchange() (more bool) {
	r, err := h.read()
	if err == nil {
		err = h.answer(&r)
	}
	switch {
	case errors.Is(err, errBadRequest):
		h.refuse(http.StatusBadRequest)
	case errors.Is(err, errTooLarge):
		h.refuse(http.StatusRequestEntityTooLarge)
	}
	if err == nil && !r.closing && h.in.Buffered() > 0 {
		return true
	}
	return h.out.Flush() == nil && err == nil && !r.closing
}

func (h *http1) refuse(status int) {
	_, _ = h.out.Write(h.head(status, 0, &request{closing: true})) // the writer keeps its error
}

// head is the header of an answer.
func (h *http1) head(status int, size int64, r *request) []byte {
	b := fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nserver: %s\r\n%s: %s\r\ncontent-length: %d\r\n", status, http.StatusText(status), serverName, headerIdentity, h.identity, size)
	if r.peer != nil {
		b = fmt.Appendf(b, "%s: %s\r\n", headerPeer, r.peer)
	}
	if r.closing {
		b = append(b, "connection: close\r\n"...)
	}
	if !r.traced.IsZero() {
		b = append(append(b, model.HeaderTiming...), ": "...)
		b = append(model.AppendTiming(b, model.TimingApp, time.Since(r.traced).Nanoseconds()), "\r\n"...)
	}
	return append(b, "\r\n"...)
}

// plain says that a request is the usual one: GET / and nothing besides.
func (r *request) plain() bool {
	return len(r.path) == 1 && string(r.method) == http.MethodGet && r.peer == nil && r.length <= 0 && !r.chunked && !r.closing && r.traced.IsZero()
}

// answer writes the answer; that to a plain GET / is ready made.
func (h *http1) answer(r *request) error {
	fail := h.plant.Meet()
	if r.plain() && !fail {
		_, err := h.out.Write(h.fixed)
		return err
	}
	method, path := string(r.method), string(r.path)
	sent, err := h.body(r)
	if err != nil {
		return err
	}
	c := choose(method, path, sent)
	if fail {
		c = content{http.StatusServiceUnavailable, 0, http.NoBody}
	}
	if _, err = h.out.Write(h.head(c.status, c.size, r)); err != nil || method == http.MethodHead {
		return err
	}
	_, err = io.Copy(h.out, c.body)
	return err
}

// read reads a request up to its body.
func (h *http1) read() (r request, err error) {
	line, err := h.next()
	for err == nil && len(line) == 0 {
		line, err = h.next() // empty lines before a request are to be ignored
	}
	if err != nil {
		return r, err
	}
	h.line = append(h.line[:0], line...)
	if err := r.start(h.line); err != nil {
		return r, err
	}
	for size := len(line); ; {
		line, err := h.next()
		if err != nil || len(line) == 0 {
			return r, err
		}
		if size += len(line); size > maxHeader {
			return r, errTooLarge
		}
		if err := r.field(line); err != nil {
			return r, err
		}
	}
}

// next is the next line, without its end.
func (h *http1) next() ([]byte, error) {
	line, err := h.in.ReadSlice('\n')
	if err != nil {
		if errors.Is(err, bufio.ErrBufferFull) {
			return nil, errTooLarge
		}
		return nil, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
}

func (r *request) start(line []byte) error {
	method, rest, ok1 := bytes.Cut(line, []byte(" "))
	path, version, ok2 := bytes.Cut(rest, []byte(" "))
	if !ok1 || !ok2 || len(method) == 0 || len(path) == 0 || len(version) != 8 || string(version[:7]) != "HTTP/1." {
		return errBadRequest
	}
	r.method, r.path, r.length, r.closing = method, path, -1, version[7] == '0'
	return nil
}

func (r *request) field(line []byte) error {
	name, value, ok := bytes.Cut(line, []byte(":"))
	if !ok || len(name) == 0 {
		return errBadRequest
	}
	value = bytes.TrimSpace(value)
	switch {
	case is(name, "content-length"):
		return r.setLength(value)
	case is(name, "transfer-encoding"):
		if !is(value, "chunked") {
			return errBadRequest
		}
		r.chunked = true
	case is(name, "connection"):
		r.closing = is(value, "close") || (r.closing && !is(value, "keep-alive"))
	case is(name, "expect"):
		r.expects = is(value, "100-continue")
	case is(name, model.HeaderRequestID):
		if _, ok := model.TracedNumber(string(value)); ok {
			r.traced = time.Now()
		}
	case is(name, headerXFCC):
		r.peer = bytes.Clone(value)
	}
	return nil
}

// is compares with an ASCII word in lower case.
func is(b []byte, lower string) bool {
	return len(b) == len(lower) && bytes.EqualFold(b, []byte(lower))
}

func (r *request) setLength(value []byte) error {
	n, err := strconv.ParseUint(string(value), 10, 63)
	if err != nil || (r.length >= 0 && r.length != int64(n)) {
		return errBadRequest
	}
	if r.length = int64(n); r.length > maxBody {
		return errTooLarge
	}
	return nil
}

// body reads the request's body.
func (h *http1) body(r *request) ([]byte, error) {
	if !r.chunked && r.length <= 0 {
		return nil, nil
	}
	if r.chunked && r.length >= 0 {
		return nil, errBadRequest // two lengths: somebody is being deceived
	}
	if r.expects {
		_, _ = h.out.WriteString("HTTP/1.1 100 Continue\r\n\r\n") // the writer keeps its error
		if err := h.out.Flush(); err != nil {
			return nil, err
		}
	}
	if r.chunked {
		return h.chunks()
	}
	b := make([]byte, r.length)
	_, err := io.ReadFull(h.in, b)
	return b, err
}

func (h *http1) chunks() ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(httputil.NewChunkedReader(h.in), maxBody+1))
	switch {
	case err != nil:
		return nil, errBadRequest
	case len(b) > maxBody:
		return nil, errTooLarge
	}
	for size := 0; ; { // trailers, which nobody needs
		line, err := h.next()
		if err != nil || len(line) == 0 {
			return b, err
		}
		if size += len(line); size > maxHeader {
			return nil, errTooLarge
		}
	}
}
