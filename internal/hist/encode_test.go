package hist

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

func encode(tb testing.TB, h *Histogram) []byte {
	tb.Helper()
	b, err := h.EncodeV2()
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func TestV2RoundTripKeepsEveryCount(t *testing.T) {
	t.Parallel()
	tests := map[string]*Histogram{
		"empty":            {},
		"zero":             of(0),
		"an hour and more": of(1, Highest, Highest+1, math.MaxInt64),
		"many":             of(latencies(1, 20_000)...),
	}
	big := &Histogram{}
	big.RecordN(77, math.MaxInt64-1)
	big.Record(5_000_000)
	tests["a huge count"] = big
	for name, h := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := DecodeV2(encode(t, h))
			if err != nil {
				t.Fatal(err)
			}
			if got.counts != h.counts || got.count != h.count {
				t.Error("the counts differ")
			}
			if m := float64(h.Mean()); h.Max().Nanoseconds() <= Highest && math.Abs(float64(got.Mean())-m) > m/1000+1 {
				t.Errorf("mean %v, want %v", got.Mean(), h.Mean())
			}
		})
	}
}

func TestJSONKeepsTheExactFigures(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]*Histogram{"empty": {}, "many": of(latencies(2, 5000)...), "over an hour": of(3, 5*Highest)} {
		text, err := json.Marshal(h)
		if err != nil {
			t.Fatal(name, err)
		}
		var got Histogram
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(name, err)
		}
		if got != *h {
			t.Errorf("%s: read %v %v %v %v, wrote %v %v %v %v", name,
				got.count, got.sum, got.min, got.max, h.count, h.sum, h.min, h.max)
		}
	}
}

func TestUnmarshalRefusesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	good, err := json.Marshal(of(1000, 2000, 5000))
	if err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string][2]string{
		"another count":   {`"count":3`, `"count":4`},
		"another minimum": {`"min_ns":1000`, `"min_ns":1001`},
		"another maximum": {`"max_ns":5000`, `"max_ns":9000`},
		"negative":        {`"min_ns":1000`, `"min_ns":-1`},
		"sum too small":   {`"sum_ns":8000`, `"sum_ns":2999`},
		"sum too large":   {`"sum_ns":8000`, `"sum_ns":15001`},
		"no base64":       {`"hdr":"`, `"hdr":"*`},
		"no histogram":    {`"hdr":"`, `"hdr":"AAAA`},
	} {
		bad := strings.Replace(string(good), edit[0], edit[1], 1)
		if bad == string(good) {
			t.Fatalf("%s: nothing was changed in %s", name, good)
		}
		h := *of(7)
		if json.Unmarshal([]byte(bad), &h) == nil {
			t.Errorf("%s: accepted", name)
		}
		if h != *of(7) {
			t.Errorf("%s: changed on an error", name)
		}
	}
	empty, err := json.Marshal(&Histogram{})
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(bytes.Replace(empty, []byte(`"max_ns":0`), []byte(`"max_ns":9`), 1), &Histogram{}); err == nil {
		t.Error("an empty histogram with a maximum is accepted")
	}
}

// theirs decodes with the reference port; it wants base64.
func theirs(tb testing.TB, b []byte) *hdr.Histogram {
	tb.Helper()
	h, err := hdr.Decode([]byte(base64.StdEncoding.EncodeToString(b)))
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

// foreign encodes with the reference port.
func foreign(tb testing.TB, h *hdr.Histogram) []byte {
	tb.Helper()
	text, err := h.Encode(hdr.V2CompressedEncodingCookieBase)
	if err != nil {
		tb.Fatal(err)
	}
	b, err := base64.StdEncoding.DecodeString(string(text))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func TestHdrHistogramReadsOurs(t *testing.T) {
	t.Parallel()
	h := of(latencies(3, 20_000)...)
	o := theirs(t, encode(t, h))
	if o.TotalCount() != int64(h.Count()) {
		t.Fatalf("they count %d, we %d", o.TotalCount(), h.Count())
	}
	var ours []hdr.Bar
	for b := range h.Each {
		ours = append(ours, hdr.Bar{From: int64(b.Low), To: int64(b.High), Count: int64(b.Count)})
	}
	i := 0
	for _, bar := range o.Distribution() {
		if bar.Count == 0 {
			continue
		}
		if i >= len(ours) || bar != ours[i] {
			t.Fatalf("bar %d is %v there", i, bar)
		}
		i++
	}
	if i != len(ours) {
		t.Fatalf("%d bars there, %d here", i, len(ours))
	}
	for _, q := range []float64{0, 0.07, 0.5, 0.9, 0.99, 0.999, 1} {
		mine := int64(h.Quantile(q))
		if their := o.ValueAtQuantile(q * 100); !o.ValuesAreEquivalent(mine, their) {
			t.Errorf("quantile %v: they say %d, we %d", q, their, mine)
		}
	}
}

func TestWeReadHdrHistogram(t *testing.T) {
	t.Parallel()
	values := latencies(4, 20_000)
	tests := []struct {
		name      string
		lo, hi    int64
		digits    int
		tolerance float64
	}{
		{"our layout", 1, Highest, 3, 0},
		{"two digits", 1, Highest, 2, 1.0 / 128},
		{"five digits", 1, Highest, 5, 1.0 / 1024},
		{"microseconds", 1000, Highest, 3, 1.0 / 1024},
		{"no digits", 1, Highest, 0, 0.51},
		{"all of int64", 1, math.MaxInt64, 3, 1.0 / 1024},
		{"small range", 1, 4095, 3, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := hdr.New(tt.lo, tt.hi, tt.digits)
			var taken []int64
			for _, v := range values {
				if o.RecordValue(v) == nil {
					taken = append(taken, v)
				}
			}
			slices.Sort(taken)
			h, err := DecodeV2(foreign(t, o))
			if err != nil {
				t.Fatal(err)
			}
			n := len(taken)
			if h.Count() != uint64(n) {
				t.Fatalf("%d values, want %d", h.Count(), n)
			}
			for _, permille := range []int{70, 500, 900, 990, 999} {
				want := float64(taken[(permille*n+999)/1000-1])
				got := float64(h.Quantile(float64(permille) / 1000))
				if math.Abs(got-want) > want*max(tt.tolerance, 1.0/1024)+float64(tt.lo) {
					t.Errorf("quantile %d/1000 = %v, want %v", permille, got, want)
				}
			}
			if tt.name == "our layout" && !theirs(t, encode(t, h)).Equals(o) {
				t.Error("there and back is not the same histogram")
			}
		})
	}
}

// compress wraps a payload as EncodeV2 does.
func compress(tb testing.TB, payload []byte) []byte {
	tb.Helper()
	var out bytes.Buffer
	out.Write(make([]byte, 8))
	z := zlib.NewWriter(&out)
	if _, err := z.Write(payload); err != nil {
		tb.Fatal(err)
	}
	if err := z.Close(); err != nil {
		tb.Fatal(err)
	}
	b := out.Bytes()
	binary.BigEndian.PutUint32(b, cookieCompressed)
	binary.BigEndian.PutUint32(b[4:], length(b[8:]))
	return b
}

// payload is an uncompressed histogram with these counts.
func payload(digits uint32, lowest, highest int64, counts ...int64) []byte {
	b := make([]byte, headerBytes)
	for _, c := range counts {
		b = appendZigZag(b, c)
	}
	binary.BigEndian.PutUint32(b, cookieV2)
	binary.BigEndian.PutUint32(b[4:], length(b[headerBytes:]))
	binary.BigEndian.PutUint32(b[12:], digits)
	binary.BigEndian.PutUint64(b[16:], uint64(lowest))
	binary.BigEndian.PutUint64(b[24:], uint64(highest))
	return b
}

func TestDecodeRefusesDamage(t *testing.T) {
	t.Parallel()
	good := encode(t, of(latencies(5, 100)...))
	long := payload(3, 1, Highest, 1)
	tests := map[string][]byte{
		"nothing":              nil,
		"cut in the header":    good[:7],
		"cut in the body":      good[:len(good)-1],
		"another cookie":       append([]byte{1}, good[1:]...),
		"no zlib":              append(append([]byte{}, good[:8]...), make([]byte, len(good)-8)...),
		"no header inside":     compress(t, make([]byte, 10)),
		"bytes after":          compress(t, append(long, 2)),
		"bytes missing":        compress(t, payload(3, 1, Highest, 1<<40)[:headerBytes+2]),
		"a number cut off":     compress(t, fixLength(payload(3, 1, Highest, 1<<40)[:headerBytes+2])),
		"a run past the end":   compress(t, payload(3, 1, Highest, -slots-1)),
		"the smallest run":     compress(t, payload(3, 1, Highest, math.MinInt64)),
		"counts past the end":  compress(t, payload(3, 1, Highest, -slots, 1)),
		"counts that overflow": compress(t, payload(3, 1, Highest, math.MaxInt64, 1)),
		"six digits":           compress(t, payload(6, 1, Highest, 1)),
		"lowest zero":          compress(t, payload(3, 0, Highest, 1)),
		"an empty range":       compress(t, payload(3, 10, 19, 1)),
		"negative range":       compress(t, payload(3, 1, -1, 1)),
		"over 64 bits":         compress(t, payload(5, 1<<60, math.MaxInt64, 1)),
		"a bomb":               compress(t, make([]byte, 50<<20)),
	}
	for name, b := range tests {
		if h, err := DecodeV2(b); err == nil {
			t.Errorf("%s: decoded %d values", name, h.Count())
		}
	}
}

func fixLength(p []byte) []byte {
	binary.BigEndian.PutUint32(p[4:], length(p[headerBytes:]))
	return p
}

func FuzzDecodeV2(f *testing.F) {
	f.Add(encode(f, &Histogram{}))
	f.Add(encode(f, of(latencies(6, 1000)...)))
	f.Add(foreign(f, hdr.New(1000, math.MaxInt64, 5)))
	f.Add(compress(f, payload(0, 1, 2, -1, 3, 0, 4)))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := DecodeV2(b)
		if err != nil {
			return
		}
		again, err := DecodeV2(encode(t, h))
		if err != nil {
			t.Fatal(err)
		}
		if again.counts != h.counts || again.count != h.count {
			t.Error("decoding twice changes the counts")
		}
		if q := h.Quantile(0.5); q < h.Min() || q > h.Max() {
			t.Errorf("median %v outside %v to %v", q, h.Min(), h.Max())
		}
	})
}

// FuzzPayload reaches past zlib and the length fields, which random bytes hardly do.
func FuzzPayload(f *testing.F) {
	f.Add(encodePayload(of(latencies(7, 100)...)))
	f.Add(payload(5, 1000, math.MaxInt64, -5, 3, 0, 4)[12:])
	f.Fuzz(func(t *testing.T, tail []byte) {
		p := slices.Concat(payload(3, 1, Highest)[:12], tail)
		if len(p) < headerBytes {
			return
		}
		h, err := decodePayload(fixLength(p))
		if err == nil && h.Count() > 0 && h.Min() > h.Max() {
			t.Errorf("minimum %v over maximum %v", h.Min(), h.Max())
		}
	})
}

func encodePayload(h *Histogram) []byte { return h.payload()[12:] }

func FuzzUnmarshalJSON(f *testing.F) {
	for _, h := range []*Histogram{{}, of(1, 2, 3), of(latencies(8, 1000)...)} {
		text, err := json.Marshal(h)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var h Histogram
		if err := h.UnmarshalJSON(text); err != nil {
			return
		}
		out, err := json.Marshal(&h)
		if err != nil {
			t.Fatal(err)
		}
		var again Histogram
		if err := again.UnmarshalJSON(out); err != nil {
			t.Fatal(err)
		}
		if again != h {
			t.Error("reading twice changes it")
		}
	})
}
