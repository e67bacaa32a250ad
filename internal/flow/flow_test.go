package flow

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestHello(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]Hello{
		"exchange": {Kind: Exchange, Once: true, Request: 1, Response: MaxSize},
		"up":       {Kind: Up, Block: 128 << 10, Every: 10 * time.Millisecond, Discard: true},
		"down":     {Kind: Down, Block: MaxBlock, Every: time.Second, Rate: 1e9, Sendfile: true},
	} {
		b := h.Append(nil)
		got, err := ParseHello(b)
		if diff := cmp.Diff(h, got); diff != "" || err != nil || len(b) != HelloSize {
			t.Errorf("%s: %d bytes, %v (-sent +got):\n%s", name, len(b), err, diff)
		}
	}
}

func TestNoHello(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]Hello{
		"unknown kind":     {Kind: 9, Block: 1, Every: time.Second},
		"no request":       {Kind: Exchange, Response: 1},
		"huge request":     {Kind: Exchange, Request: MaxSize + 1, Response: 1},
		"huge response":    {Kind: Exchange, Request: 1, Response: MaxSize + 1},
		"no block":         {Kind: Up, Every: time.Second},
		"huge block":       {Kind: Down, Block: MaxBlock + 1, Every: time.Second},
		"endless reports":  {Kind: Up, Block: 1},
		"reports too fast": {Kind: Up, Block: 1, Every: time.Microsecond},
	} {
		if _, err := ParseHello(h.Append(nil)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := ParseHello([]byte("GET / HTTP/1.1\r\nhost: somewhere\r\n\r\n")); err == nil {
		t.Error("HTTP: no error")
	}
}

func FuzzTCP(f *testing.F) {
	f.Add((&Hello{Kind: Up, Block: 1, Every: time.Second}).Append(nil))
	f.Add(AppendWelcome(nil, 5, "me"))
	f.Add((&Trailer{Retransmits: Series{{1, 2}}}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := ParseHello(b); err == nil {
			if again, err := ParseHello(h.Append(nil)); err != nil || again != h {
				t.Errorf("%+v became %+v, %v", h, again, err)
			}
		}
		if _, id, n, err := ParseWelcome(b); err == nil && n > 0 && (n > len(b) || len(id) > n) {
			t.Errorf("a welcome of %d bytes in %d", n, len(b))
		}
		if _, n, err := ParseTrailer(b); err == nil && n > len(b) {
			t.Errorf("a trailer of %d bytes in %d", n, len(b))
		}
	})
}

func TestTrailer(t *testing.T) {
	t.Parallel()
	want := Trailer{Info: Info{Retransmits: 7, RTT: time.Millisecond, MSS: 1448, Congestion: "cubic"}, Retransmits: Series{{10, 1}, {20, 7}}}
	b := want.Append([]byte("the stream before it"))
	got, n, err := ParseTrailer(b)
	if diff := cmp.Diff(want, got); diff != "" || err != nil || n != len(b)-20 {
		t.Errorf("%d bytes, %v (-sent +got):\n%s", n, err, diff)
	}
	if _, _, err := ParseTrailer(b[len(b)-50:]); err == nil {
		t.Error("cut off: no error")
	}
}

func TestSeries(t *testing.T) {
	t.Parallel()
	s := Series{{100, 10}, {200, 30}, {200, 40}, {300, 40}}
	for moment, want := range map[int64]float64{0: 0, 99: 0, 100: 10, 150: 20, 200: 40, 250: 40, 300: 40, 999: 40} {
		if got := s.At(moment); got != want {
			t.Errorf("at %d: %v, want %v", moment, got, want)
		}
	}
	if got := Series(nil).At(5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

func TestSamplerIsBounded(t *testing.T) {
	t.Parallel()
	s := NewSampler(time.Second)
	for i := range int64(10 * maxSamples) {
		if s.Due(i * 1e9) {
			s.Add(i*1e9, uint64(i))
		}
	}
	all := s.Series()
	if last := all[len(all)-1]; len(all) > maxSamples || last.Bytes < 9*maxSamples || all.At(5000e9) != 5000 {
		t.Errorf("%d readings up to %+v; %v at 5000 s", len(all), last, all.At(5000e9))
	}
}

func TestCounter(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		numbers                         []uint64
		received, duplicated, reordered uint64
	}{
		"in order":                  {[]uint64{0, 1, 2, 3}, 4, 0, 0},
		"one lost":                  {[]uint64{0, 2, 3}, 3, 0, 0},
		"the first lost":            {[]uint64{5, 6}, 2, 0, 0},
		"two swapped":               {[]uint64{0, 2, 1, 3}, 4, 0, 1},
		"twice":                     {[]uint64{0, 1, 1, 2}, 4, 1, 0},
		"late and twice":            {[]uint64{0, 2, 1, 1}, 4, 1, 1},
		"after a gap":               {[]uint64{0, 100_000, 99_999, 99_999}, 4, 1, 1},
		"a window later, no ghosts": {[]uint64{0, 1, 65_536, 65_537, 65_535}, 5, 0, 1},
		"too late to tell":          {[]uint64{0, 200_000, 1, 1}, 4, 0, 2},
		"the last number there is":  {[]uint64{1<<64 - 1, 0, 1}, 3, 0, 0},
	}
	for name, tt := range tests {
		c := NewCounter(2)
		for _, k := range tt.numbers {
			c.Add(k, 0, 0, 1, 100)
		}
		got := c.Intervals[1]
		if got.Received != tt.received || got.Duplicated != tt.duplicated || got.Reordered != tt.reordered || c.Received != tt.received {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestJitter is RFC 3550's formula by hand: transit times of 0, 16 and 0 us
// differ by 16 us twice, so that J is 1 and then 1 + 15/16 us.
func TestJitter(t *testing.T) {
	t.Parallel()
	c := NewCounter(2)
	c.Add(0, 1_000_000, 5_000_000, 0, 100)
	c.Add(1, 2_000_000, 6_016_000, 1, 100)
	if got := c.Intervals[1].Jitter; got != time.Microsecond {
		t.Errorf("after the first difference: %s", got)
	}
	c.Add(2, 3_000_000, 7_000_000, 1, 100)
	if got := c.Intervals[1].Jitter; got < 1937*time.Nanosecond || got > 1938*time.Nanosecond {
		t.Errorf("after the second: %s", got)
	}
}

func TestCounterIsBounded(t *testing.T) {
	t.Parallel()
	c := NewCounter(1 << 31)
	c.Add(0, 0, 0, MaxIntervals, 100)
	if len(c.Intervals) != MaxIntervals || c.Received != 0 {
		t.Errorf("%d intervals, %d received", len(c.Intervals), c.Received)
	}
}

func TestAccount(t *testing.T) {
	t.Parallel()
	want := State{Received: 1, SocketDrops: 2, InterfacePackets: 3, InterfaceDrops: 4, Buffer: 5, Interface: "eth0", KernelStamps: true, Identity: "server-0"}
	intervals := make([]Interval, 20)
	for i := range intervals {
		n := uint64(i + 1)
		intervals[i] = Interval{Received: n, Duplicated: 2 * n, Reordered: 3 * n, Largest: 4 * n, Jitter: time.Duration(5 * n)}
	}
	got := make([]Interval, len(intervals))
	b := make([]byte, AccountSize)
	for first := uint32(0); int(first) < len(intervals); {
		PutAsk(b, 9, first)
		PutAccount(b, 9, &want, AskedFor(b), intervals)
		s, from, n, err := ParseAccount(b, got)
		if err != nil || s != want || from != first || n == 0 {
			t.Fatalf("%+v, %d from %d, %v", s, n, from, err)
		}
		first += n
	}
	if diff := cmp.Diff(intervals, got); diff != "" {
		t.Errorf("(-sent +got):\n%s", diff)
	}
	if _, _, _, err := ParseAccount(b, nil); err == nil {
		t.Error("no room: no error")
	}
}

// An answer is never longer than what it answers.
func FuzzDatagram(f *testing.F) {
	b := make([]byte, 100)
	Datagram{Kind: Request, Number: 1}.Put(b)
	PutResponseSize(b, 64)
	f.Add(b, "me")
	account := make([]byte, AccountSize)
	PutAccount(account, 1, &State{}, 0, nil)
	f.Add(account, "me")
	f.Fuzz(func(t *testing.T, b []byte, identity string) {
		if _, err := ParseDatagram(b); err != nil {
			return
		}
		_, _, _, _ = ParseData(b)
		_, _, _, _ = ParseAnswer(b)
		_, _, _, _ = ParseAccount(b, make([]Interval, 4))
		out := ToAnswer(bytes.Clone(b), identity)
		if len(out) > len(b) {
			t.Errorf("%d bytes are answered with %d", len(b), len(out))
		}
		if _, id, _, err := ParseAnswer(out); out != nil && (err != nil || len(id) > MaxIdentity) {
			t.Errorf("an answer that is none: %v, identity %q", err, id)
		}
	})
}
