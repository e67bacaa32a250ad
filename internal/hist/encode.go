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
	binary.BigEndian.PutUint32(b[4:], length(b[8:]))
	return b, nil
}

func (h *Histogram) payload() []byte {
	last := slots - 1
	for last >= 0 && h.counts[last] == 0 {
		last--
	}
	b := make([]byte, headerBytes, headerBytes+4096)
	for i := 0; i <= last; {
		if c := h.counts[i]; c != 0 {
			b = appendZigZag(b, int64(min(c, math.MaxInt64)))
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
	binary.BigEndian.PutUint32(b[4:], length(b[headerBytes:]))
	binary.BigEndian.PutUint32(b[8:], 0) // normalising index offset
	binary.BigEndian.PutUint32(b[12:], significant)
	binary.BigEndian.PutUint64(b[16:], 1) // lowest discernible value
	binary.BigEndian.PutUint64(b[24:], uint64(Highest))
	binary.BigEndian.PutUint64(b[32:], math.Float64bits(1)) // value ratio
	return b
}

// length is len(b) as the headers hold it; a histogram never comes near 2 GiB.
func length(b []byte) uint32 { return uint32(len(b)) } //nolint:gosec // G115: see above

// appendZigZag writes LEB128 with at most nine bytes: the ninth carries eight
// bits, unlike protobuf's varints.
func appendZigZag(b []byte, v int64) []byte {
	u := uint64(v<<1) ^ uint64(v>>63) //nolint:gosec // G115: the bits are what is wanted
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
// slot. Mean, Min and Max of a decoded histogram are those of the slots'
// middles. It takes at most some 600 KiB whatever b says, and refuses what is cut
// off, overflows or does not fit its own header. The header's normalising
// offset and value ratio are ignored, as other readers do: counts are written in
// logical order, and ports disagree on the ratio of whole numbers.
func DecodeV2(b []byte) (*Histogram, error) {
	p, err := inflate(b)
	if err != nil {
		return nil, fmt.Errorf("decoding a histogram: %w", err)
	}
	h, err := decodePayload(p)
	if err != nil {
		return nil, fmt.Errorf("decoding a histogram: %w", err)
	}
	return h, nil
}

func inflate(b []byte) ([]byte, error) {
	if len(b) < 8 {
		return nil, errors.New("too short")
	}
	if c := binary.BigEndian.Uint32(b); c != cookieCompressed {
		return nil, fmt.Errorf("cookie %#x is not compressed V2 (%#x)", c, cookieCompressed)
	}
	n := binary.BigEndian.Uint32(b[4:])
	b = b[8:]
	if uint64(n) > uint64(len(b)) {
		return nil, fmt.Errorf("cut off: %d of %d bytes", len(b), n)
	}
	z, err := zlib.NewReader(bytes.NewReader(b[:n]))
	if err != nil {
		return nil, err
	}
	p, err := io.ReadAll(io.LimitReader(z, maxDecoded+1))
	if err != nil {
		return nil, err
	}
	if len(p) > maxDecoded {
		return nil, fmt.Errorf("its counts are over %d bytes", maxDecoded)
	}
	return p, nil
}

func decodePayload(p []byte) (*Histogram, error) {
	if len(p) < headerBytes || binary.BigEndian.Uint32(p) != cookieV2 {
		return nil, errors.New("no V2 header inside")
	}
	if n := binary.BigEndian.Uint32(p[4:]); int64(n) != int64(len(p)-headerBytes) {
		return nil, fmt.Errorf("%d bytes of counts where the header says %d", len(p)-headerBytes, n)
	}
	l, err := layoutOf(p)
	if err != nil {
		return nil, err
	}
	h := &Histogram{}
	for i, rest := 0, p[headerBytes:]; len(rest) > 0; {
		v, n, err := zigZag(rest)
		if err != nil {
			return nil, err
		}
		rest = rest[n:]
		if v <= 0 {
			if v < -int64(l.slots-i) {
				return nil, errors.New("a run of zeros goes past the end")
			}
			i += int(max(-v, 1))
			continue
		}
		if i >= l.slots {
			return nil, errors.New("more counts than its range holds")
		}
		if uint64(v) > math.MaxInt64-h.count {
			return nil, errors.New("its counts overflow")
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
	lowest := int64(binary.BigEndian.Uint64(p[16:]))  //nolint:gosec // G115: negative is refused below
	highest := int64(binary.BigEndian.Uint64(p[24:])) //nolint:gosec // G115: negative is refused below
	if digits > 5 || lowest < 1 || highest/2 < lowest {
		return layout{}, fmt.Errorf("%d digits from %d to %d is no valid range", digits, lowest, highest)
	}
	sub := uint(math.Ceil(math.Log2(2 * math.Pow10(int(digits)))))
	l := layout{unit: uint(math.Floor(math.Log2(float64(lowest)))), half: max(sub, 1) - 1}
	if l.unit+l.half > 61 {
		return layout{}, errors.New("its range does not fit 64 bits")
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

// UnmarshalJSON reads what MarshalJSON wrote, and refuses a count, sum, minimum
// or maximum that does not fit the encoding. On an error h is unchanged.
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
	if err := d.agrees(w); err != nil {
		return fmt.Errorf("reading a histogram: %w", err)
	}
	d.sum, d.min, d.max = w.Sum, w.Min, w.Max
	*h = *d
	return nil
}

// agrees says whether the exact figures fit the slots that they belong to.
func (h *Histogram) agrees(w wire) error {
	if h.count != w.Count {
		return fmt.Errorf("it says %d values and holds %d", w.Count, h.count)
	}
	if h.count == 0 {
		if w.Sum != 0 || w.Min != 0 || w.Max != 0 {
			return errors.New("it is empty and has a sum, minimum or maximum")
		}
		return nil
	}
	first, last := 0, slots-1
	for h.counts[first] == 0 {
		first++
	}
	for h.counts[last] == 0 {
		last--
	}
	if w.Min < 0 || w.Max < w.Min || index(min(w.Min, Highest)) != first || index(min(w.Max, Highest)) != last {
		return fmt.Errorf("minimum %d and maximum %d do not belong to its counts", w.Min, w.Max)
	}
	const rounding = 1e-9 // of the additions
	n := float64(h.count)
	if w.Sum < n*float64(w.Min)*(1-rounding) || w.Sum > n*float64(w.Max)*(1+rounding) {
		return fmt.Errorf("sum %g is not that of %d values from %d to %d", w.Sum, h.count, w.Min, w.Max)
	}
	return nil
}
