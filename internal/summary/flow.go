package summary

import (
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// goodput is what a bulk transfer carried, each direction that was used.
func goodput(s *model.StreamResult, d time.Duration) string {
	up, down := bits(gbit(s.Up, d)*1e9)+" up", bits(gbit(s.Down, d)*1e9)+" down"
	switch s.Direction {
	case "up":
		return up
	case "down":
		return down
	}
	return up + ", " + down
}

func (p *page) stream(r *model.LoadResult) {
	s := r.Stream
	p.printf("\n%12s%16s%16s%14s\n", "until", "up", "down", "retransmits")
	at := time.Duration(0)
	for _, i := range s.Intervals {
		at += i.Length
		p.printf("%12s%16s%16s%14s\n", at.Round(time.Millisecond), bits(gbit(i.Up, i.Length)*1e9), bits(gbit(i.Down, i.Length)*1e9), number(i.Retransmits))
	}
	p.printf("\n")
	p.line("bytes", sizeText(s.Up)+" up, "+sizeText(s.Down)+" down, as their receivers counted them")
	p.line("round trip", FormatTime(s.RTT)+", mean of the streams' smoothed ones at the end")
	p.line("TCP", s.Congestion+", segments of "+number(uint64(s.MSS))+" B, written "+number(uint64(s.Block))+" B at a time") //nolint:gosec // G115: sizes are not negative
}

func (p *page) datagrams(r *model.LoadResult) {
	d := r.Datagrams
	p.printf("\n%12s%14s%14s%12s%12s%12s\n", "until", "sent", "received", "lost", "lost", "jitter")
	at := time.Duration(0)
	for _, i := range d.Intervals {
		at += i.Length
		p.printf("%12s%14s%14s%12s%12s%12s\n", at.Round(time.Millisecond), number(i.Sent), number(i.Received), number(i.Lost), percent(share(i.Lost, i.Sent)), FormatTime(i.Jitter))
	}
	p.printf("\n")
	p.line("datagrams", number(d.Sent)+" of "+number(uint64(d.Size))+" B sent, "+number(d.Received)+" received, "+ //nolint:gosec // G115: a size is not negative
		number(d.Reordered)+" out of order, "+number(d.Duplicated)+" twice")
	p.line("receiver", number(d.SocketDrops)+" dropped for want of room in its socket")
	if d.Interface != "" {
		p.line("interface", d.Interface+" counted "+number(d.InterfacePackets)+" packets and dropped "+number(d.InterfaceDrops))
	}
	p.line("jitter", "by RFC 3550, smoothed, at the end of each part")
}
