package study

import (
	"fmt"
	"testing"
	"time"
)

// quantity hides the type of a parser.
func quantity[T any](parse func(string) (T, error)) func(string) (any, error) {
	return func(s string) (any, error) { return parse(s) }
}

func TestQuantities(t *testing.T) {
	t.Parallel()
	tests := []struct {
		parse func(string) (any, error)
		good  map[string]any
		bad   []string
	}{
		{
			quantity(ParseRate),
			map[string]any{"2000/s": Rate(2000), "2000": Rate(2000), "0.5/s": Rate(0.5), "10000000": MaxRate},
			[]string{"", "0", "-1", "-1/s", "10000001", "2k/s", "5/m", "1e3", "NaN", "Inf", " 5", "5 /s", "2,000/s", "2_000", "0x10", ".5", "5."},
		},
		{
			quantity(ParsePercent),
			map[string]any{"5%": Percent(0.05), "99.9%": Percent(0.999), "0%": Percent(0), "100%": Percent(1), "2.5%": Percent(0.025)},
			[]string{"", "5", "-5%", "100.1%", "%", "5 %", "1e1%", "0.05"},
		},
		{
			quantity(ParseDuration),
			map[string]any{
				"10s": Duration(10 * time.Second), "500ms": Duration(500 * time.Millisecond), "1m30s": Duration(90 * time.Second),
				"0s": Duration(0), "24h": MaxDuration, "1.5us": Duration(1500), "2µs": Duration(2000),
			},
			[]string{"", "0", "10", "-5s", "+5s", "24h1ns", "1d", "s", "5 s", "99999999999999999999h"},
		},
		{
			quantity(ParseBytes),
			map[string]any{"0B": Bytes(0), "64KiB": Bytes(65536), "50MB": Bytes(50_000_000), "1.5KiB": Bytes(1536), "1024TiB": MaxBytes},
			[]string{"", "64", "-1B", "0.5B", "1025TiB", "64K", "64kib", "B"},
		},
		{
			quantity(ParseCores),
			map[string]any{"150m": Cores(0.15), "10m": MinCores, "0.5": Cores(0.5), "2": Cores(2), "1024": MaxCores, "12.5m": Cores(0.0125)},
			[]string{"", "m", "0", "9m", "0.009", "1025", "-1", "150 m", "150M", "1e3", "1.", "1k", "50%"},
		},
		{
			quantity(ParseBitRate),
			map[string]any{"100Mbit/s": BitRate(100_000_000), "1.5Gbit/s": BitRate(1_500_000_000), "1kbit/s": MinBitRate, "1000Gbit/s": MaxBitRate},
			[]string{"", "100", "0kbit/s", "0.9kbit/s", "1001Gbit/s", "100Mbps", "100MB/s", "-1Mbit/s"},
		},
		{
			quantity(ParseName),
			map[string]any{"a": Name("a"), "nft-service": Name("nft-service"), "0": Name("0")},
			[]string{"", "-a", "a-", "A", "a_b", "a.b", "a b", "ä", "a\n"},
		},
	}
	for _, test := range tests {
		for in, want := range test.good {
			t.Run(fmt.Sprintf("%T %s", want, in), func(t *testing.T) {
				t.Parallel()
				if got, err := test.parse(in); err != nil || got != want {
					t.Errorf("got %v, %v; want %v", got, err, want)
				}
			})
		}
		for _, in := range test.bad {
			if got, err := test.parse(in); err == nil {
				t.Errorf("%q: got %T %v, want an error", in, got, got)
			}
		}
	}
}

func FuzzRate(f *testing.F) {
	f.Add("2000/s")
	f.Fuzz(func(t *testing.T, s string) {
		if r, err := ParseRate(s); err == nil && !(r > 0 && r <= MaxRate) {
			t.Errorf("%q: %v", s, r)
		}
	})
}

func FuzzCores(f *testing.F) {
	f.Add("150m")
	f.Fuzz(func(t *testing.T, s string) {
		if c, err := ParseCores(s); err == nil && !(c >= MinCores && c <= MaxCores) {
			t.Errorf("%q: %v", s, c)
		}
	})
}

func FuzzPercent(f *testing.F) {
	f.Add("99.9%")
	f.Fuzz(func(t *testing.T, s string) {
		if p, err := ParsePercent(s); err == nil && !(p >= 0 && p <= 1) {
			t.Errorf("%q: %v", s, p)
		}
	})
}

func FuzzDuration(f *testing.F) {
	f.Add("1m30s")
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := ParseDuration(s); err == nil && (d < 0 || d > MaxDuration) {
			t.Errorf("%q: %v", s, d)
		}
	})
}

func FuzzBytes(f *testing.F) {
	f.Add("64KiB")
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := ParseBytes(s); err == nil && n > MaxBytes {
			t.Errorf("%q: %v", s, n)
		}
	})
}

func FuzzBitRate(f *testing.F) {
	f.Add("100Mbit/s")
	f.Fuzz(func(t *testing.T, s string) {
		if r, err := ParseBitRate(s); err == nil && (r < MinBitRate || r > MaxBitRate) {
			t.Errorf("%q: %v", s, r)
		}
	})
}
