package h2

import (
	"bytes"
	"strconv"
	"strings"
)

// Header is the fields of one header block.
type Header struct {
	Status  int // of a header; 0 of a trailer
	Trailer bool
	// Text is the block as HTTP/1.1 would have it: a status line, unless it is a
	// trailer, and lines of "name: value".
	Text []byte
	// Values are those of the fields that were asked for; nil: not there.
	Values [][]byte
	// Number is another for every header that differs from the one before.
	Number uint64
}

// decoder decodes header blocks that use no dynamic table.
type decoder struct {
	static  []Field
	huffman *huffman
	wanted  []string
	// memory is the last block of each kind: headers and trailers.
	memory [2]memory
	number uint64
	text   [2][]byte // name and value that were in Huffman code
}

type memory struct {
	known  bool
	block  []byte
	header Header
	spans  [][2]int // where in Text the values are; {0, 0}: not there
}

func newDecoder(wanted []string) *decoder {
	d := &decoder{static: staticTable(), huffman: newHuffman(), wanted: wanted}
	for i := range d.memory {
		d.memory[i].spans = make([][2]int, len(wanted))
		d.memory[i].header.Values = make([][]byte, len(wanted))
	}
	return d
}

// decode decodes a block. It is not ok if it is no header of HTTP; an error
// means that it cannot be decoded at all.
func (d *decoder) decode(block []byte, trailer bool) (h *Header, ok bool, err error) {
	m := &d.memory[0]
	if trailer {
		m = &d.memory[1]
	}
	if m.known && bytes.Equal(block, m.block) {
		return &m.header, true, nil
	}
	m.known = false
	d.number++
	clear(m.spans)
	h = &m.header
	h.Status, h.Trailer, h.Text, h.Number = 0, trailer, h.Text[:0], d.number
	ok = true
	for rest := block; len(rest) > 0; {
		var name, value []byte
		var field bool
		if name, value, field, rest, err = d.field(rest, len(rest) == len(block)); err != nil {
			return h, false, err
		}
		if len(h.Text)+len(name)+len(value) > maxHeader {
			return h, false, errHeader
		}
		if field && ok {
			ok = m.add(d.wanted, name, value)
		}
	}
	if !ok || !trailer && h.Status == 0 {
		return h, false, nil
	}
	for i, at := range m.spans {
		h.Values[i] = nil
		if at[1] > 0 {
			h.Values[i] = h.Text[at[0]:at[1]]
		}
	}
	m.block, m.known = append(m.block[:0], block...), true
	return h, true, nil
}

// add takes a field, and says whether a header may have it.
func (m *memory) add(wanted []string, name, value []byte) bool {
	h := &m.header
	if len(name) > 0 && name[0] == ':' {
		return h.setStatus(name, value)
	}
	if !h.Trailer && h.Status == 0 || !validName(name) || bytes.ContainsAny(value, "\r\n\x00") {
		return false
	}
	switch string(name) {
	case "connection", "transfer-encoding", "upgrade", "keep-alive", "proxy-connection":
		return false // of HTTP/1.1's connections
	}
	h.Text = append(append(h.Text, name...), ": "...)
	at := len(h.Text)
	h.Text = append(append(h.Text, value...), "\r\n"...)
	for i, w := range wanted {
		if string(name) == w {
			m.spans[i] = [2]int{at, at + len(value)}
		}
	}
	return true
}

// setStatus takes the one pseudo-header of answers, which comes first.
func (h *Header) setStatus(name, value []byte) bool {
	if string(name) != ":status" || h.Trailer || len(h.Text) > 0 || len(value) != 3 {
		return false
	}
	n, err := strconv.Atoi(string(value)) // of three bytes: does not allocate
	if err != nil || n < 100 || n > 599 {
		return false
	}
	h.Status = n
	h.Text = append(append(append(h.Text, "HTTP/2 "...), value...), "\r\n"...)
	return true
}

func validName(b []byte) bool {
	for _, c := range b {
		if c <= ' ' || c >= 0x7f || c == ':' || c >= 'A' && c <= 'Z' {
			return false
		}
	}
	return len(b) > 0
}

// field decodes one field of a block; or, at its beginning, that the table has
// no room, which was agreed.
func (d *decoder) field(b []byte, first bool) (name, value []byte, field bool, rest []byte, err error) {
	switch {
	case b[0]&0x80 != 0:
		i, after, valid := parseInt(b, 7)
		if !valid || i == 0 || i > uint64(len(d.static)) {
			return nil, nil, false, nil, errHPACK
		}
		f := d.static[i-1]
		return d.copy(0, f.Name), d.copy(1, f.Value), true, after, nil
	case b[0]&0xe0 == 0x20:
		size, after, valid := parseInt(b, 5)
		if !valid || size != 0 || !first {
			return nil, nil, false, nil, errHPACK
		}
		return nil, nil, false, after, nil
	}
	name, value, rest, ok := d.literal(b)
	if !ok {
		return nil, nil, false, nil, errHPACK
	}
	return name, value, true, rest, nil
}

// literal decodes a field that is spelled out. Where it is to be indexed, there
// is no room for it.
func (d *decoder) literal(b []byte) (name, value, rest []byte, ok bool) {
	bits := 4
	if b[0]&0xc0 == 0x40 {
		bits = 6
	}
	i, b, ok := parseInt(b, bits)
	if !ok || i > uint64(len(d.static)) {
		return nil, nil, nil, false
	}
	if i > 0 {
		name = d.copy(0, d.static[i-1].Name)
	} else if name, b, ok = d.string(0, b); !ok {
		return nil, nil, nil, false
	}
	value, b, ok = d.string(1, b)
	return name, value, b, ok
}

func (d *decoder) copy(i int, s string) []byte {
	d.text[i] = append(d.text[i][:0], s...)
	return d.text[i]
}

// string decodes a string literal: a part of the block itself, or, if it is in
// Huffman code, of one of the buffers.
func (d *decoder) string(i int, b []byte) (s, rest []byte, ok bool) {
	if len(b) == 0 {
		return nil, nil, false
	}
	coded := b[0]&0x80 != 0
	n, b, ok := parseInt(b, 7)
	if !ok || n > uint64(len(b)) {
		return nil, nil, false
	}
	s, rest = b[:n], b[n:]
	if coded {
		d.text[i], ok = d.huffman.decode(d.text[i][:0], s)
		s = d.text[i]
	}
	return s, rest, ok
}

// parseInt reads an integer whose first byte has bits for it, up to 2^28.
func parseInt(b []byte, bits int) (v uint64, rest []byte, ok bool) {
	if len(b) == 0 {
		return 0, nil, false
	}
	most := uint64(1)<<bits - 1
	if v = uint64(b[0]) & most; v < most {
		return v, b[1:], true
	}
	for i, c := range b[1:] {
		if i == 4 {
			break
		}
		v += uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			return v, b[i+2:], true
		}
	}
	return 0, nil, false
}

// staticTable is that of RFC 7541, appendix A.
func staticTable() []Field {
	const text = `:authority
:method GET
:method POST
:path /
:path /index.html
:scheme http
:scheme https
:status 200
:status 204
:status 206
:status 304
:status 400
:status 404
:status 500
accept-charset
accept-encoding gzip, deflate
accept-language
accept-ranges
accept
access-control-allow-origin
age
allow
authorization
cache-control
content-disposition
content-encoding
content-language
content-length
content-location
content-range
content-type
cookie
date
etag
expect
expires
from
host
if-match
if-modified-since
if-none-match
if-range
if-unmodified-since
last-modified
link
location
max-forwards
proxy-authenticate
proxy-authorization
range
referer
refresh
retry-after
server
set-cookie
strict-transport-security
transfer-encoding
user-agent
vary
via
www-authenticate`
	var table []Field
	for line := range strings.SplitSeq(text, "\n") {
		name, value, _ := strings.Cut(line, " ")
		table = append(table, Field{name, value})
	}
	return table
}
