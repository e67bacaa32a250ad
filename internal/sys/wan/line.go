package wan

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// line is one direction at work, on a thread of its own.
type line struct {
	Line
	socket *socket
	inject int // socket for copies; -1: none
	shaper *shaper
	queue  queue
	seq    uint64
	out    []byte                   // verdicts to be sent
	limit  int64                    // lateness that counts
	change atomic.Pointer[Settings] // to be taken over with the next packets; nil: none

	packets, lost, overflow, duplicated, late atomic.Uint64
	lateness, worst                           atomic.Int64
}

// openLine opens a direction in the calling thread's namespace.
func openLine(l Line) (*line, error) {
	s, err := openSocket(l.Queue, l.Settings)
	if err != nil {
		return nil, fmt.Errorf("link %s: %w", l.Name, err)
	}
	at := &line{
		Line: l, socket: s, inject: -1, shaper: newShaper(l.Settings, l.Seed), queue: newQueue(l.Settings.mayReorder()),
		limit: int64(l.Settings.Late()),
	}
	if l.Settings.Duplicate > 0 {
		at.inject, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("link %s: opening a socket for duplicates: %w", l.Name, err), unix.Close(s.fd))
		}
	}
	return at, nil
}

// run works until something fails.
func (l *line) run() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, err := hurry(); err != nil {
		return err
	}
	for {
		var next int64
		if l.queue.Len() > 0 {
			next = l.queue.peek().due
		}
		if err := l.socket.wait(next); err != nil {
			return err
		}
		if err := l.take(); err != nil {
			return err
		}
		if err := l.release(); err != nil {
			return err
		}
	}
}

// take reads the packets that have come. They are due from when they came, not
// from when they were read.
func (l *line) take() error {
	if s := l.change.Swap(nil); s != nil {
		l.shaper.Delay, l.shaper.Jitter, l.shaper.Loss, l.shaper.Rate = s.Delay, s.Jitter, s.Loss, s.Rate
		l.limit = int64(s.Late())
	}
	now := clock(unix.CLOCK_MONOTONIC)
	offset := clock(unix.CLOCK_REALTIME) - now
	return l.socket.read(func(p packet) {
		arrived := now
		if p.arrived != 0 {
			const believable = int64(10 * time.Second) // the host's clock may have been set
			if at := p.arrived - offset; at <= now && now-at < believable {
				arrived = at
			}
		}
		f := l.shaper.decide(arrived, p.length+ethernet)
		h := held{due: f.due, seq: l.seq, id: p.id, drop: f.lost || f.overflow}
		l.seq++
		if f.duplicate {
			h.duplicate = l.copyOf(p)
		}
		if f.lost {
			l.lost.Add(1)
		}
		if f.overflow {
			l.overflow.Add(1)
		}
		l.queue.push(h)
	})
}

// release lets go of what is due. What is lost is dropped when it would have
// arrived: the kernel looks packets up from the head of its queue.
func (l *line) release() error {
	const most = 1024 // verdicts at once, so that those that come meanwhile are read
	l.out = l.out[:0]
	for n := 0; n < most && l.queue.Len() > 0; n++ {
		late := clock(unix.CLOCK_MONOTONIC) - l.queue.peek().due
		if late < 0 {
			break
		}
		h := l.queue.pop()
		l.count(late)
		what := uint32(verdictAccept)
		if h.drop {
			what = verdictDrop
		}
		l.out = verdict(l.out, l.Queue, what, h.id)
		const sendAt = 8 << 10
		if len(l.out) > sendAt || h.duplicate != nil { // the copy must not overtake those before it
			if err := l.flush(); err != nil {
				return err
			}
		}
		if h.duplicate != nil {
			l.copyOut(h.duplicate)
		}
	}
	return l.flush()
}

// flush tells the kernel what becomes of packets.
func (l *line) flush() error {
	if len(l.out) == 0 {
		return nil
	}
	err := l.socket.write(l.out)
	l.out = l.out[:0]
	return err
}

// copyOf makes a frame of a packet; nil where it is not known where to.
func (l *line) copyOf(p packet) *frame {
	const destination, length = 16, 20 // in an IPv4 header, and its own
	if len(p.payload) < length {
		return nil
	}
	to, _ := netip.AddrFromSlice(p.payload[destination:length])
	for _, s := range l.Stations {
		if s.Range.Contains(to) {
			b := make([]byte, 0, ethernet+len(p.payload))
			b = append(b, s.Hardware...)
			b = append(b, append(slices.Clone(p.source), make([]byte, len(s.Hardware))...)[:len(s.Hardware)]...)
			b = binary.BigEndian.AppendUint16(b, etherTypeIPv4)
			return &frame{append(b, p.payload...), p.device}
		}
	}
	return nil
}

// copyOut sends a packet's duplicate; what a device does not take is not sent.
func (l *line) copyOut(f *frame) {
	if unix.Sendto(l.inject, f.bytes, 0, &unix.SockaddrLinklayer{Ifindex: f.device}) == nil {
		l.duplicated.Add(1)
	}
}

func (l *line) count(late int64) {
	l.packets.Add(1)
	l.lateness.Add(late)
	if late > l.limit {
		l.late.Add(1)
	}
	for worst := l.worst.Load(); late > worst; worst = l.worst.Load() {
		if l.worst.CompareAndSwap(worst, late) {
			return
		}
	}
}

func (l *line) stats() Stats {
	return Stats{
		Name: l.Name, Packets: l.packets.Load(), Lost: l.lost.Load(), Overflow: l.overflow.Load(), Duplicated: l.duplicated.Load(),
		Late: l.late.Load(), Lateness: time.Duration(l.lateness.Load()), Worst: time.Duration(l.worst.Swap(0)),
	}
}

// runAll runs lines until one fails.
func runAll(lines []*line) error {
	failed := make(chan error, len(lines))
	var wg sync.WaitGroup
	for _, l := range lines {
		wg.Go(func() { failed <- fmt.Errorf("link %s: %w", l.Name, l.run()) })
	}
	return <-failed
}
