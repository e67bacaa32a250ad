package load_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
)

// numbers is a protocol of numbered requests of four bytes that come back in
// any order: several at a time on one connection, over TCP or UDP. Number n is
// id + streams x how often the id was used.
type numbers struct {
	network load.Network
	streams uint32
}

var (
	_ load.Multiplexer = numbers{}
	_ load.Networker   = numbers{}
	_ load.Canceller   = (*numberSession)(nil)
	_ load.Replier     = (*numberSession)(nil)
)

func (n numbers) Network() load.Network { return n.network }
func (n numbers) Streams() int          { return int(n.streams) }

func (n numbers) Prepare(context.Context, load.Peer) (func() load.Session, error) {
	return func() load.Session {
		return &numberSession{streams: n.streams, awaited: make([]uint32, n.streams), next: make([]uint32, n.streams), kept: make([]byte, 0, 8)}
	}, nil
}

type numberSession struct {
	streams       uint32
	awaited, next []uint32 // by id; awaited is the number + 1, or 0
	kept          []byte
}

// hello, which needs no answer, is what connections begin with and what every
// answer is thanked for.
const hello = 0xffffffff

func (s *numberSession) Open(dst []byte) []byte {
	clear(s.awaited)
	s.kept = s.kept[:0]
	return binary.BigEndian.AppendUint32(dst, hello)
}

func (s *numberSession) Reply(dst []byte) []byte { return binary.BigEndian.AppendUint32(dst, hello) }

func (s *numberSession) Begin(dst []byte, id uint32) []byte {
	number := id + s.streams*s.next[id]
	s.next[id]++
	s.awaited[id] = number + 1
	return binary.BigEndian.AppendUint32(dst, number)
}

func (s *numberSession) Cancel(dst []byte, id uint32) []byte {
	s.awaited[id] = 0
	return dst
}

func (s *numberSession) Feed(b []byte, got []load.Answer) ([]load.Answer, error) {
	for _, c := range b {
		if s.kept = append(s.kept, c); len(s.kept) < 4 {
			continue
		}
		number := binary.BigEndian.Uint32(s.kept)
		s.kept = s.kept[:0]
		if number == hello {
			return got, errors.New("a hello is not for clients")
		}
		if id := number % s.streams; s.awaited[id] == number+1 {
			s.awaited[id] = 0
			got = append(got, load.Answer{ID: id, BodyBytes: 4})
		}
	}
	return got, nil
}

func numberJob(p numbers, l model.Load, to netip.AddrPort) load.Job {
	j := job(l, to)
	j.Protocol = p
	return j
}

// numberServer answers over TCP: each two requests in reverse order.
func numberServer(t *testing.T, hellos *atomic.Int64) netip.AddrPort {
	t.Helper()
	return serve(t, func(c net.Conn) {
		answers := make(chan []byte, 1024)
		go func() {
			for a := range answers {
				_, _ = c.Write(a[:1]) // in pieces
				_, _ = c.Write(a[1:])
			}
		}()
		defer close(answers)
		b := make([]byte, 4)
		var held []byte
		for n := 0; ; {
			if k, err := c.Read(b[n:]); err != nil {
				return
			} else if n += k; n < 4 {
				continue
			}
			n = 0
			switch number := append([]byte(nil), b...); {
			case binary.BigEndian.Uint32(number) == hello:
				hellos.Add(1)
			case held == nil:
				held = number
			default:
				answers <- number
				answers <- held
				held = nil
			}
		}
	})
}

func TestSeveralRequestsOnOneConnection(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	var hellos atomic.Int64
	to := numberServer(t, &hellos)
	p := numbers{load.TCP, 8}
	for _, l := range []model.Load{open(500, 2, 300*time.Millisecond), closed(2, 300*time.Millisecond)} {
		l.Timeout = 500 * time.Millisecond
		hellos.Store(0)
		r := run(t, numberJob(p, l, to))
		// The server answers in pairs, so that with one request at a time it
		// would never answer; each connection may end with half a pair.
		if r.Sockets != 2 || r.Succeeded < 100 || r.FailedTotal() > 4 || r.Failed[model.CauseTimeout] != r.FailedTotal() {
			t.Errorf("%s loop: %d sockets, succeeded %d of %d, failed %v", l.Arrival, r.Sockets, r.Succeeded, r.Due, r.Failed)
		}
		if got := hellos.Load(); got < 2+int64(r.Succeeded)/16 {
			t.Errorf("%s loop: %d hellos, want one for every connection and reading", l.Arrival, got)
		}
	}
}

func TestOneRequestMayTimeOutAlone(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	var hellos atomic.Int64
	to := serve(t, func(c net.Conn) { // answers all but every tenth
		b := make([]byte, 4)
		for n := 0; ; {
			if k, err := c.Read(b[n:]); err != nil {
				return
			} else if n += k; n < 4 {
				continue
			}
			n = 0
			if number := binary.BigEndian.Uint32(b); number == hello {
				hellos.Add(1)
			} else if number%10 != 0 {
				_, _ = c.Write(b)
			}
		}
	})
	l := open(400, 1, 500*time.Millisecond)
	l.Timeout = 100 * time.Millisecond
	r := run(t, numberJob(numbers{load.TCP, 64}, l, to))
	if r.Sockets != 1 || r.Failed[model.CauseTimeout] < 5 || r.FailedTotal() != r.Failed[model.CauseTimeout] || r.Succeeded < 100 {
		t.Errorf("%d sockets, succeeded %d, failed %v: a request that can be cancelled must not end its connection", r.Sockets, r.Succeeded, r.Failed)
	}
}

func TestDatagrams(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	var lc net.ListenConfig
	server, err := lc.ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	lost := 0
	done := make(chan struct{})
	go func() { // loses every tenth
		defer close(done)
		b := make([]byte, 64)
		for {
			n, from, err := server.ReadFrom(b)
			if err != nil {
				return
			}
			if number := binary.BigEndian.Uint32(b); n != 4 || number%10 == 9 {
				lost++
			} else if number != hello {
				_, _ = server.WriteTo(b[:n], from)
			}
		}
	}()
	l := open(400, 1, 500*time.Millisecond)
	l.Timeout = 200 * time.Millisecond
	to := netip.MustParseAddrPort(server.LocalAddr().String())
	r := run(t, numberJob(numbers{load.UDP, 128}, l, to))
	if !strings.Contains(r.Clock, "SO_TIMESTAMPNS") || r.Response.Min() <= 0 {
		t.Errorf("clock %q, fastest %s: datagrams are stamped by the kernel", r.Clock, r.Response.Min())
	}
	if r.Due != 200 || r.Succeeded+r.FailedTotal()+r.Unsent != 200 || r.Succeeded < 100 || r.Failed[model.CauseTimeout] != r.FailedTotal() {
		t.Errorf("due %d, succeeded %d, failed %v", r.Due, r.Succeeded, r.Failed)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	if <-done; uint64(lost) != r.FailedTotal() {
		t.Errorf("%d datagrams were lost, %d requests failed", lost, r.FailedTotal())
	}
	if r = run(t, numberJob(numbers{load.UDP, 128}, l, to)); r.Failed[model.CauseRefused] == 0 || r.Succeeded != 0 {
		t.Errorf("succeeded %d, failed %v; nobody listens", r.Succeeded, r.Failed)
	}
}

func TestAnswersToNoRequestAreRefused(t *testing.T) {
	t.Parallel()
	to := serve(t, func(c net.Conn) {
		_, _ = c.Write(binary.BigEndian.AppendUint32(nil, hello))
		_, _ = c.Read(make([]byte, 1))
	})
	r := run(t, numberJob(numbers{load.TCP, 2}, open(50, 1, 200*time.Millisecond), to))
	if r.Succeeded != 0 || r.Failed[model.CauseProtocol] == 0 {
		t.Errorf("succeeded %d, failed %v", r.Succeeded, r.Failed)
	}
}
