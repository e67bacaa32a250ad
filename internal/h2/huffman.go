package h2

// huffman decodes the code of RFC 7541, appendix B. It is a canonical one: of
// codes of one length, a greater symbol has the greater code, so that the
// lengths say all.
type huffman struct {
	short   [256]symbol // by the next eight bits; length 0: the code is longer
	limit   [31]uint32  // the first code beyond those of a length, at the top of 32 bits
	first   [31]uint32  // the first code of a length
	at      [31]int     // where in symbols its symbol is
	symbols [endOfString + 1]uint16
}

type symbol struct{ value, length byte }

const (
	shortest, longest = 5, 30
	endOfString       = 256 // must not be in a string
)

// lengths are those of the symbols' codes: 'A' + length - 5.
const lengths = "" +
	"ISXXXXXXXTZXXZXXXXXXXXZXXXXXXXXXBFFHIBDGFFDGDBBBAAABBBBBBBCDKBHF" +
	"IBCCCCCCCCCCCCCCCCCCCCCCDCDIOIJBKABABABBBACCBBBABCBAABCCCCCKGJIX" +
	"PRPPRRRSRSSSSSTSTTRSTSSSSQRSRSSTRQPRRSSQSRRTQRSSQQRQSRSSPRRRSRRS" +
	"VVPORSRUVVVWWVTUOQVWWVWTQQVVXWWWPTPQRQQSRRUUTTVSVWVVWWWWWXWWWWWV" +
	"Z"

func newHuffman() *huffman {
	h := &huffman{}
	code, n := uint32(0), 0
	for length := shortest; length <= longest; length++ {
		h.first[length], h.at[length] = code, n
		for s := range len(lengths) {
			if int(lengths[s]-'A')+shortest != length {
				continue
			}
			h.symbols[n] = uint16(s)
			n++
			for i := code << 8 >> length; length <= 8 && i < (code+1)<<8>>length; i++ {
				h.short[i] = symbol{byte(s), byte(length)}
			}
			code++
		}
		h.limit[length] = code << (32 - length)
		code <<= 1
	}
	return h
}

// decode appends the string that is encoded; it is not ok if none is.
func (h *huffman) decode(dst, b []byte) (out []byte, ok bool) {
	var bits uint64
	n := 0 // of bits
	for {
		for n < longest && len(b) > 0 {
			bits, n, b = bits<<8|uint64(b[0]), n+8, b[1:]
		}
		if n == 0 {
			return dst, true
		}
		// At the end, what is missing is taken as ones, like the padding.
		next := uint32(^uint64(0) >> 32)
		if n >= 32 {
			next = uint32(bits >> (n - 32)) //nolint:gosec // G115: the top 32 of n bits
		} else {
			next = uint32(bits<<(32-n)) | next>>n //nolint:gosec // G115: as above
		}
		s, length := h.next(next)
		switch {
		case length > n:
			return dst, n < 8 && next == ^uint32(0)
		case s == endOfString:
			return dst, false
		}
		dst = append(dst, byte(s)) //nolint:gosec // G115: others are bytes
		n -= length
	}
}

func (h *huffman) next(bits uint32) (s uint16, length int) {
	if e := h.short[bits>>24]; e.length > 0 {
		return uint16(e.value), int(e.length)
	}
	length = 9
	for length < longest && bits >= h.limit[length] {
		length++
	}
	return h.symbols[h.at[length]+int(bits>>(32-length)-h.first[length])], length
}
