package icmp

import (
	"testing"

	"github.com/windtunnel/windtunnel/internal/load"
)

func newSession(number uint16) *session {
	return &session{request: make([]byte, header+4), reply: echoReply4, id: [2]byte{1, 2}, number: number}
}

func TestFeed(t *testing.T) {
	t.Parallel()
	ip := append([]byte{0x45}, make([]byte, 19)...)
	reply := []byte{echoReply4, 0, 0, 0, 1, 2, 0, 5, 0, 0, 0, 0}
	edit := func(at int, c byte) []byte { b := append([]byte(nil), reply...); b[at] = c; return b }
	for name, tt := range map[string]struct {
		packet []byte
		want   int
	}{
		"ping socket":                    {reply, 1},
		"ping socket, the kernel's id":   {edit(4, 9), 1},
		"raw socket":                     {append(ip, reply...), 1},
		"raw socket, another program's":  {append(ip, edit(4, 9)...), 0},
		"another number":                 {edit(7, 9), 0},
		"a request":                      {edit(0, echoRequest4), 0},
		"unreachable":                    {edit(0, 3), 0},
		"cut short":                      {reply[:7], 0},
		"a header that is longer than b": {[]byte{0x4f, 0}, 0},
	} {
		s := newSession(4)
		s.Begin(nil, 0)
		if got, err := s.Feed(tt.packet, nil); len(got) != tt.want || err != nil {
			t.Errorf("%s: %d answers, %v", name, len(got), err)
		}
	}
}

func TestChecksum(t *testing.T) {
	t.Parallel()
	if b := newSession(0).Begin(nil, 0); checksum(b) != 0 {
		t.Errorf("with its checksum, a message sums up to %x, not 0", checksum(b))
	}
}

func FuzzFeed(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 1, 2, 0, 1})
	f.Fuzz(func(_ *testing.T, b []byte) {
		s := newSession(0)
		s.Begin(nil, 0)
		_, _ = s.Feed(b, nil)
	})
}

func TestNoAllocations(t *testing.T) { //nolint:paralleltest // AllocsPerRun panics in parallel tests
	s := newSession(0)
	out, got := make([]byte, 0, 64), make([]load.Answer, 0, 4)
	n := testing.AllocsPerRun(100, func() {
		out = s.Begin(out[:0], 0)
		out[0] = echoReply4
		if got, _ = s.Feed(out, got[:0]); len(got) != 1 {
			t.Fatal(got)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations per request", n)
	}
}
