package model

import "strings"

// SubjectDevice begins the subjects of readings of network devices:
// "device:pod client eth0". SubjectStack begins those of a namespace's IP stack:
// "stack:node node-0". Neither has a slash: they are no component of a pod.
const (
	SubjectDevice = "device:"
	SubjectStack  = "stack:"
)

// Kinds of places in those subjects. An underlay device joins a node to the
// others; the rest of a node's are tunnels and the like.
const (
	PlacePod      = "pod"
	PlaceNode     = "node"
	PlaceUnderlay = "underlay"
)

// What is read of a device. All are counters since it was made. A segment that
// the kernel keeps whole (GSO) is one packet, with one header.
const (
	SampleReceivedBytes   = "received_bytes"
	SampleSentBytes       = "sent_bytes"
	SampleReceivedPackets = "received_packets"
	SampleSentPackets     = "sent_packets"
	SampleDroppedPackets  = "dropped_packets" // in either direction, by the device
)

// What is read of a stack. All are counters since the namespace was made.
const (
	SampleFragments   = "ip_fragments"         // made out of packets that were too large
	SampleReassembled = "ip_reassembly_failed" // packets that could not be put together again
	SampleSegments    = "tcp_segments_sent"    // as the wire would have them, with those sent again
)

// SampleSoftIRQ is a counter of the host: time of all CPUs in soft interrupts,
// where the kernel does most of the network's work. The kernel does not tell for
// which namespace. Work that it does on a process's own time is not in it.
const SampleSoftIRQ = "softirq_seconds"

// Live is what a site is doing, and what its devices have counted, at a moment.
type Live struct {
	// Run is the run's folder; empty: it is none, but a site that is kept up.
	Run string `json:"run,omitempty"`
	// Doing says in words what is under way, e.g. variant, load and step.
	Doing string `json:"doing"`
	// Site is another one for every site; empty: there is none now.
	Site     string    `json:"site,omitempty"`
	Topology Topology  `json:"topology"`
	Readings []Reading `json:"readings,omitempty"`
}

// DeviceSubject is the subject of a device's readings.
func DeviceSubject(kind, place, device string) string {
	return SubjectDevice + kind + " " + place + " " + device
}

// CutDeviceSubject takes the subject of a device's readings apart.
func CutDeviceSubject(subject string) (kind, place, device string, ok bool) {
	rest, ok := strings.CutPrefix(subject, SubjectDevice)
	part := strings.Split(rest, " ")
	const parts = 3
	if !ok || len(part) != parts {
		return "", "", "", false
	}
	return part[0], part[1], part[2], true
}
