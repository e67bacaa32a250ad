package h2

// Field is a header field. Names are in lower case; pseudo-headers come first.
type Field struct{ Name, Value string }

// Request is what connections send over and over.
type Request struct {
	body    []byte
	size    uint32    // of the fields in a dynamic table
	entered []byte    // HEADERS that enter the fields into the table
	indexed []byte    // HEADERS that point at them there
	plain   []byte    // HEADERS that need no table
	blocks  [2][]byte // the header blocks of plain and entered
}

// entryOverhead is what a table counts for an entry besides its text.
const entryOverhead = 32

// NewRequest encodes a request. The fields must be ones that HTTP/2 allows.
func NewRequest(fields []Field, body []byte) *Request {
	r := &Request{body: body}
	static := staticTable()
	var plain, entered, indexed []byte
	var entries uint64 // that are not in the static table
	for _, f := range fields {
		if whole, _ := lookup(static, f); whole == 0 {
			entries++
			r.size += uint32(len(f.Name)+len(f.Value)) + entryOverhead //nolint:gosec // G115: a header is short
		}
	}
	at := uint64(len(static)) + entries // of the first of them: the last entered comes first
	for _, f := range fields {
		whole, name := lookup(static, f)
		if whole != 0 {
			plain = appendInt(plain, 0x80, 7, whole)
			entered = appendInt(entered, 0x80, 7, whole)
			indexed = appendInt(indexed, 0x80, 7, whole)
			continue
		}
		plain = appendLiteral(plain, 0, 4, name, f)
		entered = appendLiteral(entered, 0x40, 6, name, f)
		indexed = appendInt(indexed, 0x80, 7, at)
		at--
	}
	r.blocks = [2][]byte{plain, entered}
	r.plain, r.entered, r.indexed = r.frames(plain), r.frames(entered), r.frames(indexed)
	return r
}

// first are the HEADERS of a connection's first request.
func (r *Request) first(table uint32) []byte {
	if r.size > table {
		return r.plain
	}
	return r.entered
}

// reduced are the HEADERS of the first request after the peer has made its
// table smaller, which they must own up to. A table that was in use is emptied.
func (r *Request) reduced(table uint32, used bool) []byte {
	var b []byte
	if used && table > 0 {
		b = appendInt(b, 0x20, 5, 0)
	}
	b = appendInt(b, 0x20, 5, uint64(table))
	if r.size > table {
		return r.frames(append(b, r.blocks[0]...))
	}
	return r.frames(append(b, r.blocks[1]...))
}

// further are the HEADERS of the requests after the first.
func (r *Request) further(table uint32) []byte {
	if r.size > table {
		return r.plain
	}
	return r.indexed
}

// frames makes HEADERS, and CONTINUATION for what does not fit, of a block. The
// stream is filled in later.
func (r *Request) frames(block []byte) []byte {
	var out []byte
	kind, flags := byte(frameHeaders), byte(0)
	if len(r.body) == 0 {
		flags = flagEndStream
	}
	for {
		n := min(len(block), maxFrame)
		if n == len(block) {
			flags |= flagEndHeaders
		}
		out = append(appendFrame(out, n, kind, flags, 0), block[:n]...)
		if block = block[n:]; len(block) == 0 {
			return out
		}
		kind, flags = frameContinuation, 0
	}
}

// lookup finds a field in the static table: whole, or just its name; 0: not.
func lookup(static []Field, f Field) (whole, name uint64) {
	for i, s := range static {
		switch {
		case s == f:
			return uint64(i) + 1, uint64(i) + 1
		case s.Name == f.Name && name == 0:
			name = uint64(i) + 1
		}
	}
	return 0, name
}

// appendInt appends an integer whose first byte has bits for a prefix.
func appendInt(dst []byte, first byte, bits int, v uint64) []byte {
	most := uint64(1)<<bits - 1
	if v < most {
		return append(dst, first|byte(v)) //nolint:gosec // G115: below most
	}
	dst = append(dst, first|byte(most)) //nolint:gosec // G115: a byte's bits
	for v -= most; v >= 0x80; v >>= 7 {
		dst = append(dst, byte(v)|0x80)
	}
	return append(dst, byte(v))
}

func appendLiteral(dst []byte, first byte, bits int, name uint64, f Field) []byte {
	dst = appendInt(dst, first, bits, name)
	if name == 0 {
		dst = appendText(dst, f.Name)
	}
	return appendText(dst, f.Value)
}

// appendText appends a string without Huffman coding: it is sent once.
func appendText(dst []byte, s string) []byte {
	return append(appendInt(dst, 0, 7, uint64(len(s))), s...)
}
