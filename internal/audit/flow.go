package audit

import (
	"fmt"
	"math"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Thresholds of the rules about flows. Each is a judgement; the reason stands
// beside it.
const (
	growShare     = 0.10 // by how much a stream's beginning may stay behind: blocks differ by as much
	growIntervals = 5    // fewer do not tell growth from noise
	counterShare  = 0.01 // ARP and the like are on the interface, too
	counterLeast  = 100  // packets
)

func streamGrowing() Rule {
	return TrialRule{
		Name:    "stream still growing",
		Metrics: []string{"goodput", "cpu.gbit", "retransmits"},
		Doc:     "A stream that is measured while slow start or the autotuning of buffers still goes on shows its beginning, not what the path carries.",
		Saved:   "CNI (TCP throughput as one mean a run; nobody knows how much of it was slow start)",
		Advice:  "make design.warmup longer: long paths need many round trips",
		Check: func(_ Evidence, o *model.Outcome) *Doubt {
			if o.Load == nil || o.Load.Stream == nil || len(o.Load.Stream.Intervals) < growIntervals {
				return nil
			}
			all := o.Load.Stream.Intervals
			first := len(all) / growIntervals
			begin, rest := pace(all[:first]), pace(all[first:])
			if rest <= 0 || begin >= rest*(1-growShare) {
				return nil
			}
			behind := 1 - begin/rest
			return &Doubt{
				model.SeveritySuspect, behind, "the streams had not reached their speed when they were measured",
				fmt.Sprintf("the first %d of %d intervals carried %.0f %% less than the rest: %.3g of %.3g Gbit/s", first, len(all), behind*100, begin/1e9, rest/1e9),
			}
		},
	}
}

// pace is the goodput of some intervals together, in bits per second.
func pace(all []model.StreamInterval) float64 {
	var bytes uint64
	var seconds float64
	for _, i := range all {
		bytes += i.Up + i.Down
		seconds += i.Length.Seconds()
	}
	if seconds <= 0 {
		return 0
	}
	return float64(bytes) * 8 / seconds
}

// smallestFragmented is the payload beyond which some path may have to take a
// datagram apart: an MTU of 576 less the headers of IPv4 and UDP (RFC 791).
const smallestFragmented = 548

func datagramsDisagree() Rule {
	return TrialRule{
		Name:    "datagram counts disagree",
		Metrics: []string{"loss", "goodput", "datagrams"},
		Doc:     "What the receiver read and what its socket dropped must be what its interface says has come in; else the loss is not the network's.",
		Saved:   "CNI (UDP loss as iperf3 printed it, checked against nothing)",
		Advice:  "do not read the loss as the network's; look for other traffic to that pod, and for drops between interface and socket",
		Check: func(_ Evidence, o *model.Outcome) *Doubt {
			if o.Load == nil || o.Load.Datagrams == nil {
				return nil
			}
			d := o.Load.Datagrams
			if d.Interface == "" || d.Offload {
				return nil // not readable; or counted before the kernel takes them apart
			}
			read, counted := max(d.FlowReceived, d.Received)+d.SocketDrops, d.InterfacePackets // with the warm-up, as the interface
			if d.Size > smallestFragmented && float64(counted) > 1.5*float64(read) {
				return nil // the interface counts fragments, of which one that is missing costs the datagram
			}
			off := math.Abs(float64(read) - float64(counted))
			if off <= max(counterShare*float64(d.Sent), counterLeast) {
				return nil
			}
			return &Doubt{
				model.SeveritySuspect, off / float64(max(d.Sent, 1)), "the receiver and its interface count differently",
				fmt.Sprintf("%d sent; %s counted %d packets; %d were read and %d dropped at the socket", d.Sent, d.Interface, counted, d.Received, d.SocketDrops),
			}
		},
	}
}

func receiverDropped() Rule {
	return TrialRule{
		Name:    "receiver dropped datagrams",
		Metrics: []string{"loss", "goodput", "datagrams"},
		Doc:     "Datagrams that arrived, and for which the receiver's socket or interface had no room, are lost to the receiver, not in the network.",
		Saved:   "CNI (loss that jumps from 200 to 300 Mbit/s: the network's or the receiver's?)",
		Advice:  "lower the rate or give the receiver more CPU or a larger socket buffer; this loss says nothing about the path",
		Check: func(_ Evidence, o *model.Outcome) *Doubt {
			if o.Load == nil || o.Load.Datagrams == nil || o.Load.Datagrams.SocketDrops+o.Load.Datagrams.InterfaceDrops == 0 {
				return nil
			}
			d := o.Load.Datagrams
			drops := d.SocketDrops + d.InterfaceDrops
			severity := model.SeverityNote
			if drops*10 > d.Lost {
				severity = model.SeveritySuspect
			}
			return &Doubt{
				severity, float64(drops), "the receiver, not the network, lost datagrams",
				fmt.Sprintf("%d lost in the window; warm-up included, %d had no room in the socket and %d were dropped by the interface", d.Lost, d.SocketDrops, d.InterfaceDrops),
			}
		},
	}
}

func notPerPacket() Rule {
	return TrialRule{
		Name:    "not sent packet by packet",
		Metrics: []string{"loss", "reordered", "jitter", "goodput", "datagrams", "cpu.gbit"},
		Doc:     "With segmentation offload the kernel cuts one large buffer into datagrams that leave together: a higher rate, but bursts instead of an even flow, and one trip through the stack for many packets.",
		Saved:   "CNI (datagrams of 8 KiB in 6 fragments each, under the name of packets)",
		Advice:  "compare only with loads that do the same; switch offload off to measure what one packet costs",
		Check: func(_ Evidence, o *model.Outcome) *Doubt {
			if o.Load == nil || o.Load.Datagrams == nil || !o.Load.Datagrams.Offload {
				return nil
			}
			return &Doubt{
				model.SeverityNote, 1, "datagrams left in bursts: the kernel segmented them (UDP GSO), they were not paced one by one",
				fmt.Sprintf("%d datagrams of %d bytes", o.Load.Datagrams.Sent, o.Load.Datagrams.Size),
			}
		},
	}
}
