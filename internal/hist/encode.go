package hist

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// The HdrHistogram V2 format: a 40-byte header, then the counts as zig-zag
// LEB128 numbers in which a negative number is a run of that many zeros; the
// whole is deflated and wrapped in a second header. Defined by
// org.HdrHistogram.Histogram.encodeIntoCompressedByteBuffer.
const (
	cookieV2         = 0x1c849303 | 0x10
	cookieCompressed = 0x1c849304 | 0x10
	headerBytes      = 40
	significant      = 3
	// maxDecoded bounds what a hostile compressed payload may expand to: each
	// count takes at most nine bytes.
	maxDecoded = headerBytes + slots*9
)

// EncodeV2 returns the compressed HdrHistogram V2 encoding.
func (h *Histogram) EncodeV2() ([]byte, error) {
	var out bytes.Buffer
	out.Write(make([]byte, 8))
	z := zlib.NewWriter(&out)
	if _, err := z.Write(h.payload()); err != nil {
		return nil, fmt.Errorf("compressing a histogram: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("compressing a histogram: %w", err)
	}
	b := out.Bytes()
	binary.BigEndian.PutUint32(b, cookieCompressed)
	binary.BigEndian.PutUint32(b[4:], uint32(len(b)-8))
	return b, nil
}

func (h *Histogram) payload() []byte {
	last := -1
	for i, c := range h.counts {
		if c != 0 {
			last = i
		}
	}
	b := make([]byte, headerBytes, headerBytes+4096)
	for i := 0; i <= last; {
		if h.counts[i] != 0 {
			b = appendZigZag(b, int64(h.counts[i]))
			i++
			continue
		}
		run := i
		for h.counts[run] == 0 {
			run++
		}
		b = appendZigZag(b, -int64(run-i))
		i = run
	}
	binary.BigEndian.PutUint32(b[0:], cookieV2)
	binary.BigEndian.PutUint32(b[4:], uint32(len(b)-headerBytes))
	binary.BigEndian.PutUint32(b[8:], 0) // normalising index offset
	binary.BigEndian.PutUint32(b[12:], significant)
	binary.BigEndian.PutUint64(b[16:], 1) // lowest discernible value
	binary.BigEndian.PutUint64(b[24:], uint64(Highest))
	binary.BigEndian.PutUint64(b[32:], math.Float64bits(1)) // value ratio
	return b
}

// appendZigZag writes LEB128 with at most nine bytes: the ninth carries eight
// bits, unlike protobuf's varints.
func appendZigZag(b []byte, v int64) []byte {
	u := uint64(v<<1) ^ uint64(v>>63)
	for range 8 {
		if u < 0x80 {
			return append(b, byte(u))
		}
		b = append(b, byte(u)|0x80)
		u >>= 7
	}
	return append(b, byte(u))
}

func zigZag(b []byte) (v int64, n int, err error) {
	var u uint64
	for n = range 9 {
		if n >= len(b) {
			return 0, 0, io.ErrUnexpectedEOF
		}
		if n == 8 {
			u |= uint64(b[n]) << 56
			break
		}
		u |= uint64(b[n]&0x7f) << (7 * n)
		if b[n] < 0x80 {
			break
		}
	}
	return int64(u>>1) ^ -int64(u&1), n + 1, nil
}

// DecodeV2 reads what EncodeV2, or another HdrHistogram library, wrote. Values
// of histograms with another layout are re-recorded at the middle of their
// slot. The mean of a decoded histogram is that of the slots' middles.
func DecodeV2(b []byte) (*Histogram, error) {
	if len(b) < 8 {
		return nil, errors.New("decoding a histogram: too short")
	}
	if c := binary.BigEndian.Uint32(b); c != cookieCompressed {
		return nil, fmt.Errorf("decoding a histogram: cookie %#x is not compressed V2 (%#x)", c, cookieCompressed)
	}
	z, err := zlib.NewReader(bytes.NewReader(b[8:]))
	if err != nil {
		return nil, fmt.Errorf("decoding a histogram: %w", err)
	}
	p, err := io.ReadAll(io.LimitReader(z, maxDecoded+1))
	if err != nil {
		return nil, fmt.Errorf("decoding a histogram: %w", err)
	}
	if len(p) > maxDecoded {
		return nil, fmt.Errorf("decoding a histogram: payload is over %d bytes", maxDecoded)
	}
	return decodePayload(p)
}

func decodePayload(p []byte) (*Histogram, error) {
	if len(p) < headerBytes || binary.BigEndian.Uint32(p) != cookieV2 {
		return nil, errors.New("decoding a histogram: no V2 header inside")
	}
	l, err := layoutOf(p)
	if err != nil {
		return nil, err
	}
	h := &Histogram{}
	for i, rest := 0, p[headerBytes:]; len(rest) > 0; {
		v, n, err := zigZag(rest)
		if err != nil {
			return nil, fmt.Errorf("decoding a histogram: %w", err)
		}
		rest = rest[n:]
		if v <= 0 {
			if v == math.MinInt64 || int64(i)-v > int64(l.slots) {
				return nil, errors.New("decoding a histogram: a run of zeros goes past the end")
			}
			i += int(max(-v, 1))
			continue
		}
		if i >= l.slots {
			return nil, errors.New("decoding a histogram: more counts than its range holds")
		}
		h.RecordN(l.middle(i), uint64(v))
		i++
	}
	return h, nil
}

// layout is the slot arithmetic of a foreign histogram.
type layout struct {
	unit, half uint // log2 of the lowest value and of half the sub-buckets
	slots      int
}

func layoutOf(p []byte) (layout, error) {
	digits := binary.BigEndian.Uint32(p[12:])
	lowest := int64(binary.BigEndian.Uint64(p[16:]))
	highest := int64(binary.BigEndian.Uint64(p[24:]))
	if digits > 5 || lowest < 1 || highest < 2*lowest {
		return layout{}, fmt.Errorf("decoding a histogram: %d digits from %d to %d is no valid range", digits, lowest, highest)
	}
	sub := uint(math.Ceil(math.Log2(2 * math.Pow10(int(digits)))))
	l := layout{unit: uint(math.Floor(math.Log2(float64(lowest)))), half: max(sub, 1) - 1}
	if l.unit+l.half+1 > 61 {
		return layout{}, errors.New("decoding a histogram: its range does not fit 64 bits")
	}
	n := 1
	for top := int64(1) << (l.half + 1 + l.unit); top <= highest; n++ {
		if top > math.MaxInt64/2 {
			n++
			break
		}
		top <<= 1
	}
	l.slots = (n + 1) << l.half
	return l, nil
}

func (l layout) middle(i int) int64 {
	bucket := max(i>>l.half-1, 0)
	sub := int64(i) - int64(bucket)<<l.half
	shift := uint(bucket) + l.unit
	return sub<<shift + (int64(1)<<shift)/2
}

// wire is the JSON form: the V2 encoding, with what it would round.
type wire struct {
	Count uint64  `json:"count"`
	Sum   float64 `json:"sum_ns"`
	Min   int64   `json:"min_ns"`
	Max   int64   `json:"max_ns"`
	HDR   string  `json:"hdr"`
}

// MarshalJSON writes the HdrHistogram V2 encoding in base64, with the exact
// count, sum, minimum and maximum beside it.
func (h *Histogram) MarshalJSON() ([]byte, error) {
	b, err := h.EncodeV2()
	if err != nil {
		return nil, err
	}
	return json.Marshal(wire{h.count, h.sum, h.min, h.max, base64.StdEncoding.EncodeToString(b)})
}

// UnmarshalJSON reads what MarshalJSON wrote, and refuses a count that does not
// match the encoding.
func (h *Histogram) UnmarshalJSON(text []byte) error {
	var w wire
	if err := json.Unmarshal(text, &w); err != nil {
		return fmt.Errorf("reading a histogram: %w", err)
	}
	b, err := base64.StdEncoding.DecodeString(w.HDR)
	if err != nil {
		return fmt.Errorf("reading a histogram: %w", err)
	}
	d, err := DecodeV2(b)
	if err != nil {
		return err
	}
	if d.count != w.Count {
		return fmt.Errorf("reading a histogram: it says %d values and holds %d", w.Count, d.count)
	}
	*h = *d
	h.sum, h.min, h.max = w.Sum, w.Min, w.Max
	return nil
}
