package vegeta

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/textproto"
	"strconv"
	"strings"
	"time"
)

// maxRecord bounds one result with its body and headers.
const maxRecord = 64 << 20

// result is vegeta's Result. gob finds fields by name: these are vegeta's own.
type result struct {
	Attack    string              `json:"attack"`
	Seq       uint64              `json:"seq"`
	Code      uint16              `json:"code"`
	Timestamp time.Time           `json:"timestamp"`
	Latency   time.Duration       `json:"latency"`
	BytesOut  uint64              `json:"bytes_out"`
	BytesIn   uint64              `json:"bytes_in"`
	Error     string              `json:"error"`
	Body      []byte              `json:"body"`
	Method    string              `json:"method"`
	URL       string              `json:"url"`
	Headers   map[string][]string `json:"headers"`
}

// shape is which of its formats vegeta wrote.
type shape struct {
	name string
	next func(*bufio.Reader) func() (result, error)
}

// shapeOf recognises results by their beginning; false if they are none.
func shapeOf(head []byte) (shape, bool) {
	first, _, _ := bytes.Cut(head, []byte{'\n'})
	has := func(words ...string) bool {
		for _, w := range words {
			if !bytes.Contains(first, []byte(w)) {
				return false
			}
		}
		return true
	}
	switch {
	case len(head) == 0:
		return shape{}, false
	case head[0] == '{' && has(`"seq"`, `"latency"`, `"timestamp"`):
		return shape{"JSON lines", fromJSON}, true
	case head[0] >= '0' && head[0] <= '9' && isCSV(string(first)):
		return shape{"CSV", fromCSV}, true
	case bytes.Contains(head[:min(len(head), 400)], []byte("BytesOut")) && bytes.Contains(head[:min(len(head), 400)], []byte("Timestamp")):
		return shape{"gob", fromGob}, true
	}
	return shape{}, false
}

// isCSV says whether a line begins with vegeta's columns: a time in
// nanoseconds, a status and a latency.
func isCSV(line string) bool {
	const columns, stamp = 9, 15
	f := strings.Split(line, ",")
	if len(f) < columns || len(f[0]) < stamp {
		return false
	}
	for _, s := range f[:5] {
		if _, err := strconv.ParseInt(s, 10, 64); err != nil {
			return false
		}
	}
	return true
}

// budget refuses to read more than maxRecord bytes for one result.
type budget struct {
	*bufio.Reader
	left int
}

func (b *budget) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("it has more than %d bytes", maxRecord)
	}
	n, err := b.Reader.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func fromGob(in *bufio.Reader) func() (result, error) {
	b := &budget{Reader: in}
	d := gob.NewDecoder(b)
	return func() (result, error) {
		var v result
		b.left = maxRecord
		return v, d.Decode(&v)
	}
}

func fromJSON(in *bufio.Reader) func() (result, error) {
	b := &budget{Reader: in}
	d := json.NewDecoder(b)
	return func() (result, error) {
		var v result
		b.left = maxRecord
		return v, d.Decode(&v)
	}
}

// fromCSV reads the columns: time, code, latency, bytes out, bytes in, error,
// body, attack, number, and in newer versions method, URL and headers.
func fromCSV(in *bufio.Reader) func() (result, error) {
	b := &budget{Reader: in}
	d := csv.NewReader(b)
	d.FieldsPerRecord, d.ReuseRecord = -1, true
	return func() (result, error) {
		b.left = maxRecord
		f, err := d.Read()
		if err != nil {
			return result{}, err
		}
		return fields(f)
	}
}

func fields(f []string) (result, error) {
	const body, attack, number, method, url, headers = 6, 7, 8, 9, 10, 11
	if len(f) <= number {
		return result{}, fmt.Errorf("%d columns; vegeta writes 9 or 12", len(f))
	}
	var n [6]int64
	var err error
	for i, column := range []int{0, 1, 2, 3, 4, number} {
		if n[i], err = strconv.ParseInt(f[column], 10, 64); err != nil || n[i] < 0 {
			return result{}, fmt.Errorf("column %d: %q is not a number", column+1, f[column])
		}
	}
	if n[1] > math.MaxUint16 {
		return result{}, fmt.Errorf("column 2: %d is no status", n[1])
	}
	v := result{
		Timestamp: time.Unix(0, n[0]), Code: uint16(n[1]), Latency: time.Duration(n[2]), //nolint:gosec // G115: checked above
		BytesOut: uint64(n[3]), BytesIn: uint64(n[4]), Error: f[5], Seq: uint64(n[5]), //nolint:gosec // G115: not negative
		Attack: f[attack],
	}
	if v.Body, err = base64.StdEncoding.DecodeString(f[body]); err != nil {
		return result{}, fmt.Errorf("column %d, the body: %w", body+1, err)
	}
	if len(f) > headers {
		v.Method, v.URL = f[method], f[url]
		if v.Headers, err = unpack(f[headers]); err != nil {
			return result{}, fmt.Errorf("column %d, the headers: %w", headers+1, err)
		}
	}
	return v, nil
}

// unpack reads headers as vegeta packs them: in base64, as HTTP has them.
func unpack(s string) (map[string][]string, error) {
	if s == "" {
		return map[string][]string{}, nil
	}
	raw, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return nil, err
	}
	h, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(append(raw, "\r\n"...)))).ReadMIMEHeader()
	if err == io.EOF { //nolint:errorlint // as textproto returns it
		err = nil
	}
	return h, err
}
