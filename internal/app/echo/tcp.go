package echo

import (
	"bufio"
	"context"
	"io"
	"net"
	"time"

	"github.com/windtunnel/windtunnel/internal/flow"
)

const (
	// begunWithin bounds how long a client may take over its first messages.
	begunWithin = 10 * time.Second
	// patience is how long a stream may stand still, and the last bytes to a
	// client may take.
	patience = 30 * time.Second
	// largestPiece is how much of a response is written at a time.
	largestPiece = 64 << 10
	// sampleEvery is how often a sender reads its retransmits.
	sampleEvery = 250 * time.Millisecond
	// lookEvery is how often a sender looks whether it shall stop.
	lookEvery = 5 * time.Millisecond
)

// flow serves a connection that begins with a flow.Hello. What a client does
// wrong ends its connection.
func (s *server) flow(ctx context.Context, c net.Conn, in *bufio.Reader) {
	defer c.Close() //nolint:errcheck // all that can be sent has been
	if c.SetReadDeadline(time.Now().Add(begunWithin)) != nil {
		return
	}
	var first [flow.HelloSize]byte
	if _, err := io.ReadFull(in, first[:]); err != nil {
		return
	}
	hello, err := flow.ParseHello(first[:])
	if err != nil {
		return
	}
	if hello.Kind == flow.Exchange {
		if c.SetReadDeadline(time.Time{}) == nil {
			s.exchanges(c, in, &hello)
		}
		return
	}
	conn, ok := c.(*net.TCPConn)
	if !ok || !s.settle(c, in) {
		return
	}
	already := uint64(in.Buffered()) //nolint:gosec // G115: not negative
	stream, err := flow.NewStream(conn, s.clock, &s.places)
	if err != nil {
		return
	}
	defer stream.Close() //nolint:errcheck // all that can be sent has been
	if hello.Kind == flow.Up {
		s.take(ctx, stream, &hello, already)
	} else {
		s.give(ctx, stream, &hello)
	}
}

// exchanges answers requests; the first answer has the welcome before it, in
// the same packet.
func (s *server) exchanges(c net.Conn, in *bufio.Reader, hello *flow.Hello) {
	piece := make([]byte, min(int(hello.Response), largestPiece))
	flow.Fill(piece)
	begin := append(flow.AppendWelcome(nil, s.clock.Now(), s.identity), piece...)
	for {
		if _, err := in.Discard(int(hello.Request)); err != nil {
			return
		}
		for left := int(hello.Response); left > 0; left -= len(piece) {
			out := piece[:min(left, len(piece))]
			if begin != nil {
				out, begin = begin, nil
			}
			if _, err := c.Write(out); err != nil {
				return
			}
		}
		if hello.Once {
			return
		}
	}
}

// settle answers the client's questions about the clock until it says go.
func (s *server) settle(c net.Conn, in *bufio.Reader) bool {
	out := flow.AppendWelcome(nil, s.clock.Now(), s.identity)
	for {
		if _, err := c.Write(out); err != nil {
			return false
		}
		b, err := in.ReadByte()
		if err != nil || b != flow.SyncByte {
			return err == nil && b == flow.GoByte
		}
		out = flow.Report{At: s.clock.Now()}.Append(out[:0])
	}
}

// take receives a stream and reports what has come; already was read before.
func (s *server) take(ctx context.Context, stream *flow.Stream, hello *flow.Hello, already uint64) {
	var message [flow.ReportSize]byte
	next := int64(0)
	total, err := stream.Receive(flow.Sink{
		Block: int(hello.Block), Discard: hello.Discard, Patience: patience,
		Each: func(now int64, total uint64) bool {
			if now < next {
				return true
			}
			next = now + hello.Every.Nanoseconds()
			said := stream.Say(flow.Report{At: now, Bytes: already + total}.Append(message[:0]))
			return said == nil && ctx.Err() == nil
		},
	})
	if err != nil || ctx.Err() != nil {
		return
	}
	now := s.clock.Now()
	_ = stream.WriteAll(flow.Report{At: now, Bytes: already + total}.Append(message[:0]), now+patience.Nanoseconds()) // the client may be gone
}

// give sends a stream until the client closes its direction.
func (s *server) give(ctx context.Context, stream *flow.Stream, hello *flow.Hello) {
	if hello.Rate > 0 && stream.Pace(hello.Rate) != nil {
		return
	}
	var t flow.Trailer
	samples, look := flow.NewSampler(sampleEvery), int64(0)
	err := stream.Send(flow.Source{
		Block: int(hello.Block), Sendfile: hello.Sendfile, Patience: patience,
		After: func(now int64) bool {
			if samples.Due(now) {
				if info, err := stream.Info(); err == nil {
					samples.Add(now, uint64(info.Retransmits))
				}
			}
			if now < look {
				return true
			}
			look = now + lookEvery.Nanoseconds()
			return ctx.Err() == nil && !stream.Ended()
		},
	})
	if err != nil || ctx.Err() != nil {
		return
	}
	now := s.clock.Now()
	if t.Info, err = stream.Info(); err != nil {
		return
	}
	samples.Add(now, uint64(t.Info.Retransmits))
	t.Retransmits = samples.Series()
	_ = stream.WriteAll(t.Append(nil), now+patience.Nanoseconds()) // the client may be gone
}
