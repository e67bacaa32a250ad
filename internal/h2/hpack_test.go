package h2

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http2/hpack"
)

func TestStaticTable(t *testing.T) {
	t.Parallel()
	table := staticTable()
	d := hpack.NewDecoder(0, nil)
	for i, f := range table {
		got, err := d.DecodeFull([]byte{0x80 | byte(i+1)})
		if err != nil || got[0].Name != f.Name || got[0].Value != f.Value {
			t.Errorf("entry %d is %v, want %v (%v)", i+1, f, got, err)
		}
	}
	if len(table) != 61 {
		t.Errorf("%d entries, want 61", len(table))
	}
}

func TestHuffman(t *testing.T) {
	t.Parallel()
	h := newHuffman()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	texts := []string{"", "a", "www.example.com", string(all), strings.Repeat("\xff\x00z", 50)}
	for i := range 256 {
		texts = append(texts, string(all[i:i+1]), string(all[i:]), strings.Repeat(string(all[i:i+1]), 3))
	}
	for _, s := range texts {
		got, ok := h.decode(nil, hpack.AppendHuffmanString(nil, s))
		if !ok || string(got) != s {
			t.Errorf("%q came back as %q, %v", s, got, ok)
		}
	}
	for name, b := range map[string][]byte{
		"end of string":            {0xff, 0xff, 0xff, 0xff},
		"eight bits of padding":    {0x1f, 0xff}, // a, then eleven ones
		"padding of other than 1s": {0x18},       // a, then 000
	} {
		if got, ok := h.decode(nil, b); ok {
			t.Errorf("%s decodes as %q", name, got)
		}
	}
}

func FuzzHuffman(f *testing.F) {
	f.Add([]byte("\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"))
	h := newHuffman()
	f.Fuzz(func(t *testing.T, b []byte) {
		got, ok := h.decode(nil, b)
		want, err := hpack.HuffmanDecodeToString(b)
		if ok != (err == nil) || ok && string(got) != want {
			t.Errorf("%x is %q, %v; want %q, %v", b, got, ok, want, err)
		}
	})
}

// encode is a header block as a peer without a dynamic table makes it.
func encode(tb testing.TB, fields ...string) []byte {
	tb.Helper()
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	e.SetMaxDynamicTableSize(0)
	for i := 0; i < len(fields); i += 2 {
		if err := e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
			tb.Fatal(err)
		}
	}
	return b.Bytes()
}

func TestDecode(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300)
	tests := map[string]struct {
		block   []byte
		trailer bool
		text    string // empty: no header of HTTP
		err     bool
	}{
		"header":            {block: encode(t, ":status", "200", "server", "a", "x-b", "c d", "long", long), text: "HTTP/2 200\r\nserver: a\r\nx-b: c d\r\nlong: " + long + "\r\n"},
		"odd status":        {block: encode(t, ":status", "418"), text: "HTTP/2 418\r\n"},
		"trailer":           {block: encode(t, "grpc-status", "0"), trailer: true, text: "grpc-status: 0\r\n"},
		"without indexing":  {block: []byte("\x88\x00\x01a\x01b"), text: "HTTP/2 200\r\na: b\r\n"},
		"never indexed":     {block: []byte("\x88\x10\x01a\x01b"), text: "HTTP/2 200\r\na: b\r\n"},
		"to be indexed":     {block: []byte("\x88\x40\x01a\x01b"), text: "HTTP/2 200\r\na: b\r\n"},
		"table of 0":        {block: []byte("\x20\x88"), text: "HTTP/2 200\r\n"},
		"no status":         {block: encode(t, "server", "a")},
		"two statuses":      {block: encode(t, ":status", "200", ":status", "200")},
		"late status":       {block: encode(t, "a", "b", ":status", "200")},
		"status in trailer": {block: encode(t, ":status", "200"), trailer: true},
		"bad status":        {block: encode(t, ":status", "2x0")},
		"status 099":        {block: encode(t, ":status", "099")},
		"request's field":   {block: encode(t, ":status", "200", ":path", "/")},
		"upper case":        {block: encode(t, ":status", "200", "Server", "a")},
		"line break":        {block: encode(t, ":status", "200", "a", "b\r\nc: d")},
		"colon in name":     {block: encode(t, ":status", "200", "a:b", "c")},
		"no name":           {block: encode(t, ":status", "200", "", "c")},
		"connection":        {block: encode(t, ":status", "200", "connection", "close")},
		"table of 4096":     {block: []byte("\x3f\xe1\x1f\x88"), err: true},
		"late table size":   {block: []byte("\x88\x20"), err: true},
		"index 0":           {block: []byte("\x80"), err: true},
		"index 62":          {block: []byte("\xbe"), err: true},
		"name 62":           {block: []byte("\x88\x0f\x2f\x01a"), err: true},
		"cut in a number":   {block: []byte("\x88\x0f"), err: true},
		"endless number":    {block: []byte("\x88\x0f\xff\xff\xff\xff\xff\xff\x01"), err: true},
		"cut in a name":     {block: []byte("\x88\x00\x05abc"), err: true},
		"no value":          {block: []byte("\x88\x00\x01a"), err: true},
		"bad Huffman code":  {block: []byte("\x88\x00\x01a\x84\xff\xff\xff\xff"), err: true},
		"a small bomb":      {block: append([]byte("\x88"), bytes.Repeat([]byte("\x0f\x09\xfe1234567890"), 1)...), err: true},
		"a bomb":            {block: append([]byte("\x88"), bytes.Repeat([]byte{0x90}, 60000)...), err: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDecoder([]string{"server", "grpc-status"})
			for range 2 { // the second time from memory
				h, ok, err := d.decode(tt.block, tt.trailer)
				if (err != nil) != tt.err || ok != (tt.text != "") || ok && string(h.Text) != tt.text {
					t.Errorf("got %q, %v, %v; want %q, error %v", h.Text, ok, err, tt.text, tt.err)
				}
			}
		})
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	d := newDecoder([]string{"server", "x-a"})
	var got []string
	for _, block := range [][]byte{
		encode(t, ":status", "200", "server", "a", "x-a", "1"),
		encode(t, ":status", "200", "server", "a", "x-a", "1"),
		encode(t, ":status", "200", "x-a", ""),
		encode(t, ":status", "200"),
	} {
		h, _, err := d.decode(block, false)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%d %q %v %q %v", h.Number, h.Values[0], h.Values[0] != nil, h.Values[1], h.Values[1] != nil))
	}
	want := []string{`1 "a" true "1" true`, `1 "a" true "1" true`, `2 "" false "" true`, `3 "" false "" false`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x88\x40\x01a\x01b\x0f\x0d\x02ab"), false)
	f.Add([]byte("\x20\x00\x8b\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff\x01b"), true)
	f.Fuzz(func(t *testing.T, block []byte, trailer bool) {
		d := newDecoder(nil)
		h, ok, err := d.decode(block, trailer)
		if !ok {
			return
		}
		// What we can decode, the other decoder can, and says the same.
		var text strings.Builder
		other := hpack.NewDecoder(0, nil)
		fields, otherErr := other.DecodeFull(block)
		if err != nil || otherErr != nil {
			t.Fatal(err, otherErr)
		}
		for _, f := range fields {
			if f.Name == ":status" {
				fmt.Fprintf(&text, "HTTP/2 %s\r\n", f.Value)
			} else {
				fmt.Fprintf(&text, "%s: %s\r\n", f.Name, f.Value)
			}
		}
		if text.String() != string(h.Text) {
			t.Errorf("%x is %q, want %q", block, h.Text, text.String())
		}
	})
}

// blockOf takes the frames off HEADERS.
func blockOf(tb testing.TB, b []byte) []byte {
	tb.Helper()
	var block []byte
	for len(b) > 0 {
		h := parseHeader(b)
		block = append(block, b[frameHeader:frameHeader+h.length]...)
		b = b[frameHeader+h.length:]
	}
	return block
}

func TestRequestsAreUnderstood(t *testing.T) {
	t.Parallel()
	fields := []Field{{":method", "POST"}, {":scheme", "http"}, {":path", "/a.b/c"}, {":authority", "server"}, {"content-type", "application/grpc"}, {"te", "trailers"}}
	many := fields[:4:4]
	for i := range 100 {
		many = append(many, Field{fmt.Sprintf("x-%d", i), "value"})
	}
	long := slices.Concat(fields[:4], []Field{{"x-long", strings.Repeat("a", 40000)}})
	for name, fields := range map[string][]Field{"few": fields, "many": many, "long": long} {
		r := NewRequest(fields, nil)
		for _, sizes := range [][]uint32{{4096}, {0}, {1000}, {4096, 0}, {4096, 2000}, {2000, 1000}, {200, 0}} {
			d := hpack.NewDecoder(4096, nil)
			for i, size := range sizes {
				d.SetAllowedMaxDynamicTableSize(size)
				heads := [][]byte{r.first(size), r.further(size), r.further(size)}
				if size < 4096 {
					heads[0] = r.reduced(size, i > 0)
				}
				for k, head := range heads {
					got, err := d.DecodeFull(blockOf(t, head))
					if err != nil {
						t.Fatalf("%s, tables of %v, request %d: %v", name, sizes, k, err)
					}
					for j, f := range fields {
						if j >= len(got) || got[j].Name != f.Name || got[j].Value != f.Value {
							t.Fatalf("%s, tables of %v, request %d: field %d is not %v", name, sizes, k, j, f)
						}
					}
				}
			}
		}
		if n := len(blockOf(t, r.further(4096))); name == "few" && n != len(fields) {
			t.Errorf("further requests have %d bytes, want one for each of %d fields", n, len(fields))
		}
	}
}
