package wan

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
)

const ms = int64(time.Millisecond)

func TestShaperDelays(t *testing.T) {
	t.Parallel()
	s := newShaper(Settings{Delay: 40 * time.Millisecond}, 1)
	for i := range int64(10) {
		if f := s.decide(i*ms, 100); f != (fate{due: (i + 40) * ms}) {
			t.Errorf("packet %d: %+v", i, f)
		}
	}
}

func TestShaperShares(t *testing.T) {
	t.Parallel()
	const n = 100_000
	s := newShaper(Settings{Loss: 0.01, Duplicate: 0.02, Overtake: 0.03, Delay: 10 * time.Millisecond}, 7)
	var lost, doubled, early float64
	for i := range int64(n) {
		f := s.decide(i*ms, 100)
		if f.lost {
			lost++
		}
		if f.duplicate {
			doubled++
		}
		if f.due == i*ms {
			early++
		}
		if f.lost && f.duplicate {
			t.Fatal("a lost packet is doubled")
		}
	}
	for what, got := range map[string][2]float64{"lost": {lost, 0.01}, "doubled": {doubled, 0.02 * 0.99}, "early": {early, 0.03}} {
		if want := got[1] * n; math.Abs(got[0]-want) > 5*math.Sqrt(want) {
			t.Errorf("%s: %.0f, want about %.0f", what, got[0], want)
		}
	}
}

func TestShaperJitter(t *testing.T) {
	t.Parallel()
	for _, reorder := range []bool{false, true} {
		s := newShaper(Settings{Delay: 50 * time.Millisecond, Jitter: 5 * time.Millisecond, Reorder: reorder}, 3)
		var last, overtaken, sum int64
		const n = 10_000
		for i := range int64(n) {
			f := s.decide(i*ms, 100)
			delay := f.due - i*ms
			if delay < 45*ms || delay > 55*ms {
				t.Fatalf("a delay of %s", time.Duration(delay))
			}
			if f.due < last {
				overtaken++
			}
			last = f.due
			sum += delay
		}
		mean := time.Duration(sum / n).Round(100 * time.Microsecond)
		if reorder != (overtaken > 0) {
			t.Errorf("reorder %t: %d overtook", reorder, overtaken)
		}
		if off := mean - 50*time.Millisecond; reorder && off.Abs() > 200*time.Microsecond || !reorder && (off < time.Millisecond || off > 5*time.Millisecond) {
			t.Errorf("reorder %t: mean %s", reorder, mean)
		}
	}
}

func TestShaperRate(t *testing.T) {
	t.Parallel()
	// 1,250 bytes at 10 Mbit/s take 1 ms; two come each millisecond.
	s := newShaper(Settings{Rate: 10_000_000}, 1)
	passed, dropped := 0, 0
	var last int64
	for i := range int64(1000) {
		for range 2 {
			f := s.decide(i*ms, 1250)
			if f.overflow {
				dropped++
				continue
			}
			passed++
			if f.due-last < ms && passed > 1 {
				t.Fatalf("packets leave %s after each other", time.Duration(f.due-last))
			}
			if wait := time.Duration(f.due - i*ms); wait > rateBuffer+time.Millisecond {
				t.Fatalf("a packet waits for %s", wait)
			}
			last = f.due
		}
	}
	if passed < 1000 || passed > 1110 || dropped != 2000-passed {
		t.Errorf("%d passed, %d dropped", passed, dropped)
	}
}

func TestQueues(t *testing.T) {
	t.Parallel()
	for _, unordered := range []bool{false, true} {
		q := newQueue(unordered)
		const n = 5000
		next := int64(0)
		for i := range int64(n) {
			due := i
			if unordered {
				due = i * 7919 % n // a permutation
			}
			q.push(held{due: due, seq: uint64(i), id: uint32(i)})
			if !unordered && i%3 == 0 { // so that the ring wraps
				if h := q.pop(); h.due != next {
					t.Fatalf("got %d, want %d", h.due, next)
				}
				next++
			}
		}
		for ; q.Len() > 0; next++ {
			if p := q.peek().due; p != next {
				t.Fatalf("unordered %t: first is %d, want %d", unordered, p, next)
			}
			q.pop()
		}
		if next != n {
			t.Errorf("unordered %t: %d left", unordered, next)
		}
	}
}

// packetMessage is a message of the kernel's with a packet.
func packetMessage() []byte {
	attrs := attribute(nil, attrPacketHeader, 0, 0, 0x12, 0x34, 8, 0, 2)
	attrs = attribute(attrs, attrPhysOutDev, 0, 0, 0, 9)
	attrs = attribute(attrs, attrTimestamp, append(binary.BigEndian.AppendUint64(nil, 5), binary.BigEndian.AppendUint64(nil, 7)...)...)
	attrs = attribute(attrs, attrHardware, 0, 6, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0)
	attrs = attribute(attrs, attrFullLength, be32(1500)...)
	attrs = attribute(attrs, attrPayload, 0x45, 0, 5)
	return message(nil, msgPacket, 0, 3, attrs)
}

func TestParsePacket(t *testing.T) {
	t.Parallel()
	got, err := parsePacket(packetMessage())
	want := packet{id: 0x1234, length: 1500, arrived: 5_000_007_000, device: 9, source: []byte{1, 2, 3, 4, 5, 6}, payload: []byte{0x45, 0, 5}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(packet{})); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for name, b := range map[string][]byte{
		"nothing":      nil,
		"another kind": message(nil, msgConfig, 0, 3, nil),
		"no number":    message(nil, msgPacket, 0, 3, attribute(nil, attrPayload, 1)),
		"cut off":      packetMessage()[:len(packetMessage())-2],
	} {
		if p, err := parsePacket(b); err == nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	want := []byte{32, 0, 0, 0, msgVerdict, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 12, 0, 2, 0, 0, 0, 0, 1, 0, 0, 1, 2}
	if got := verdict(nil, 5, verdictAccept, 0x102); binary.NativeEndian.Uint16([]byte{1, 0}) == 1 && !bytes.Equal(got, want) {
		t.Errorf("% x, want % x", got, want)
	}
}

func FuzzParsePacket(f *testing.F) {
	f.Add(packetMessage())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parsePacket(b)
		if err == nil && (p.length < len(p.payload) || len(p.payload) > len(b)) {
			t.Errorf("%+v", p)
		}
	})
}

func TestNetem(t *testing.T) {
	t.Parallel()
	attrs := netlink.QdiscAttrs{LinkIndex: 3}
	usual := netlink.NetemQdiscAttrs{Latency: 40_000, Limit: maxHeld}
	for name, test := range map[string]struct {
		settings Settings
		change   func(a *netlink.NetemQdiscAttrs)
	}{
		"delay": {Settings{Delay: 40 * time.Millisecond}, func(*netlink.NetemQdiscAttrs) {}},
		"jitter in order": {Settings{Delay: 40 * time.Millisecond, Jitter: 2 * time.Millisecond}, func(a *netlink.NetemQdiscAttrs) {
			a.Jitter, a.Rate64 = 2000, inOrder
		}},
		"jitter": {Settings{Delay: 40 * time.Millisecond, Jitter: 2 * time.Millisecond, Reorder: true}, func(a *netlink.NetemQdiscAttrs) {
			a.Jitter = 2000
		}},
		"shares": {Settings{Delay: 40 * time.Millisecond, Loss: 0.01, Duplicate: 0.02, Overtake: 0.03}, func(a *netlink.NetemQdiscAttrs) {
			a.Loss, a.Duplicate, a.ReorderProb = 1, 2, 3
		}},
		"rate": {Settings{Delay: 40 * time.Millisecond, Rate: 120_000_000}, func(a *netlink.NetemQdiscAttrs) {
			a.Rate64, a.Limit = 15_000_000, 1400 // 10 packets a millisecond for 140 ms
		}},
	} {
		want := usual
		test.change(&want)
		if diff := cmp.Diff(netlink.NewNetem(attrs, want), Netem(attrs, test.settings)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestSummarise(t *testing.T) {
	t.Parallel()
	at := func(n int, delay time.Duration) Arrival { return Arrival{Number: n, Delay: delay} }
	got := Summarise(5, []Arrival{at(0, 10), at(2, 30), at(1, 20), at(2, 31), at(4, 40)})
	want := Summary{Lost: 1, Reordered: 1, Duplicated: 1, Mean: 25, P1: 10, P50: 30, P99: 40}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := Summarise(3, nil); got != (Summary{Lost: 3}) {
		t.Errorf("%+v", got)
	}
}

func TestSingle(t *testing.T) {
	t.Parallel()
	for _, s := range []Settings{{Loss: 0.1}, {Duplicate: 0.1}, {Overtake: 0.1}, {Jitter: 1, Reorder: true}, {Rate: 100_000_000}} {
		if !s.Single() {
			t.Errorf("%+v takes large segments", s)
		}
	}
	for _, s := range []Settings{{Delay: 1}, {Jitter: 1}, {Rate: 10_000_000_000}} {
		if s.Single() {
			t.Errorf("%+v needs packets one by one", s)
		}
	}
}
