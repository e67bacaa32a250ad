package model

import (
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/hist"
)

// Outcome is what one trial produced: raw, and complete enough that every
// printed number can be derived from it again.
type Outcome struct {
	Schema  int       `json:"schema"`
	Trial   Trial     `json:"trial"`
	Started time.Time `json:"started"`
	// Window is the measured part, on CLOCK_MONOTONIC of the generator's host.
	Window Window `json:"window"`
	// Failure is set if the trial broke; what was measured before is kept.
	Failure *Failure `json:"failure,omitempty"`
	// Lost are earlier tries at the trial that the target lost.
	Lost []Failure `json:"lost,omitempty"`
	// Disturbed are earlier or later tries at the trial that do not count, as a
	// hypervisor disturbed them more than this one.
	Disturbed []Disturbance `json:"disturbed,omitempty"`
	// CPUs is where the host's CPUs were, on a virtual machine.
	CPUs  CPUDistance `json:"cpu_distance,omitzero"`
	Ready *Ready      `json:"ready,omitempty"`
	Load  *LoadResult `json:"load,omitempty"`
	// Search is how the rate was found, where it was searched for; Load, Samples
	// and Window are then of the last confirmation.
	Search *SearchResult `json:"search,omitempty"`
	// Samples are resource readings from just before to just after the window.
	Samples []Series `json:"samples,omitempty"`
	// Unavailable says what could not be sampled, and why.
	Unavailable []string `json:"unavailable,omitempty"`
	// Links are the emulated ones, both directions of each.
	Links  []LinkState `json:"links,omitempty"`
	Ledger Ledger      `json:"ledger"`
	// Faults is what became of the load's fault events, in order.
	Faults []FaultRecord `json:"faults,omitempty"`
	Claims []Claim       `json:"claims,omitempty"`
	// Breakdown is where the time of traced requests went, of a breakdown trial.
	Breakdown *Breakdown `json:"breakdown,omitempty"`
	Endpoints Endpoints  `json:"endpoints"`
	// Steps is how long each step of the trial took, in order.
	Steps []Step `json:"steps"`
	// Logs are the files of the run folder that hold the trial's logs.
	Logs []string `json:"logs,omitempty"`
}

// OutcomeSchema is the version of Outcome that this program writes.
const OutcomeSchema = 1

// Window is a span on CLOCK_MONOTONIC, in nanoseconds.
type Window struct {
	Start int64 `json:"start_ns"`
	End   int64 `json:"end_ns"`
}

// Duration is the length of the window.
func (w Window) Duration() time.Duration { return time.Duration(w.End - w.Start) }

// Step is one part of a trial's work.
type Step struct {
	Name string        `json:"name"`
	Took time.Duration `json:"took_ns"`
}

// Failure says which step of a trial broke and why.
type Failure struct {
	Step  string `json:"step"`
	Error string `json:"error"`
}

// Ready is what the ready gate saw: the actual generator through the actual path.
type Ready struct {
	Passed bool `json:"passed"`
	// Attempts is the number of requests sent, Streak the right answers in a
	// row at the end, Wanted the streak that was asked for.
	Attempts   int               `json:"attempts"`
	Streak     int               `json:"streak"`
	Wanted     int               `json:"wanted"`
	Took       time.Duration     `json:"took_ns"`
	LastError  string            `json:"last_error,omitempty"`
	Responders map[string]uint64 `json:"responders,omitempty"`
	// Headers are those of the last right answer.
	Headers map[string]string `json:"headers,omitempty"`
	// Payload is the digest of the right answer's body, BodyBytes its length.
	Payload   string `json:"payload,omitempty"`
	BodyBytes int64  `json:"body_bytes"`
}

// Cause says why a request did not succeed.
type Cause string

// The causes. Every request that was due ends as a success or as one of these.
const (
	CauseTimeout  Cause = "timed out"
	CauseRefused  Cause = "refused"
	CauseReset    Cause = "reset"
	CauseClosed   Cause = "closed by peer"
	CauseConnect  Cause = "cannot connect"
	CauseTLS      Cause = "TLS error"
	CauseProtocol Cause = "protocol error"
	CauseStatus   Cause = "bad status"
	CausePayload  Cause = "bad payload"
)

// LoadResult is what the generator counted in the measured window. A request
// belongs to the window in which it was due (open loop) or sent (closed loop).
// Due = Succeeded + sum(Failed) + Unsent.
type LoadResult struct {
	Arrival     Arrival `json:"model"`
	Connections int     `json:"connections"`
	// Streams is how many requests one connection carries at a time; 0: one.
	Streams int           `json:"streams,omitempty"`
	Rate    float64       `json:"rate,omitempty"` // asked, per second; open loop
	Elapsed time.Duration `json:"elapsed_ns"`

	Due       uint64           `json:"due"`
	Sent      uint64           `json:"sent"`
	Succeeded uint64           `json:"succeeded"`
	Failed    map[Cause]uint64 `json:"failed,omitempty"`
	// Reasons are the first failure of each cause in words, warm-up included.
	Reasons map[Cause]string `json:"reasons,omitempty"`
	// Unsent requests were due but never written, because no connection was
	// free before the load ended. They are failures of the test, and counted.
	Unsent uint64 `json:"unsent"`
	// Blocked requests were sent late because no connection was free: the
	// system's doing, where lateness without a blocked connection is the
	// generator's own.
	Blocked uint64 `json:"blocked"`

	// Response counts from when a request was due, Service from when it was
	// sent; both of successes, in nanoseconds. In a closed loop that is not
	// paced they are equal.
	Response *hist.Histogram `json:"response"`
	Service  *hist.Histogram `json:"service"`
	// FailedResponse is the response time of failures.
	FailedResponse *hist.Histogram `json:"failed_response"`
	// Lateness is sent - due of requests that were not blocked, where requests
	// are due at times of their own: in an open or a paced closed loop.
	Lateness *hist.Histogram `json:"lateness"`
	// Turnaround is how long the places of a closed loop waited for the
	// generator, all together: from an answer, or the end of the rest after it,
	// to the next request.
	Turnaround time.Duration `json:"turnaround_ns,omitempty"`

	Statuses   map[int]uint64    `json:"statuses,omitempty"`
	Responders map[string]uint64 `json:"responders,omitempty"`
	// Unidentified successes carried no identity; MaxResponders bounds the map.
	Unidentified uint64 `json:"unidentified,omitempty"`

	BytesSent     uint64 `json:"bytes_sent"`
	BytesReceived uint64 `json:"bytes_received"`
	// HeaderBytes and BodyBytes are extremes over successes.
	HeaderBytesMin int64 `json:"header_bytes_min"`
	HeaderBytesMax int64 `json:"header_bytes_max"`
	BodyBytesMin   int64 `json:"body_bytes_min"`
	BodyBytesMax   int64 `json:"body_bytes_max"`
	// PayloadChanged counts successes whose body differed from the ready gate's.
	PayloadChanged uint64 `json:"payload_changed"`
	// Sockets is the number of connections opened during the window and
	// warm-up, with the first ones.
	Sockets uint64 `json:"sockets"`

	// FailedPrefix is the number of failures before the first success after
	// the load began, warm-up included, and FirstSuccess when that came.
	FailedPrefix  uint64        `json:"failed_prefix"`
	FirstSuccess  time.Duration `json:"first_success_ns"`
	WarmupDue     uint64        `json:"warmup_due"`
	WarmupFailed  uint64        `json:"warmup_failed"`
	Timeline      Timeline      `json:"timeline"`
	Trace         *Trace        `json:"trace,omitempty"`
	Traced        *Traced       `json:"traced,omitempty"`
	GeneratorCPU  time.Duration `json:"generator_cpu_ns"` // of the agent's process, in the window
	GeneratorIdle float64       `json:"generator_idle"`   // share of the window the workers waited for events
	Workers       int           `json:"workers"`          // threads that sent
	Clock         string        `json:"clock"`            // which clock stamped the requests

	// Tool is what sent the load, where that was not our engine.
	Tool *Tool `json:"tool,omitempty"`
	// Messages counts those of streamed answers.
	Messages uint64 `json:"messages,omitempty"`
	// Stream and Datagrams are of loads that are not made of requests.
	Stream    *StreamResult   `json:"stream,omitempty"`
	Datagrams *DatagramResult `json:"datagrams,omitempty"`
}

// StreamResult is what a bulk transfer counted in the measured window, over all
// its streams. Bytes are counted where they are received, so that what is still
// under way counts for nothing.
type StreamResult struct {
	Streams   int    `json:"streams"`   // connections: one a stream and direction
	Direction string `json:"direction"` // "up": from the generator; "down"; "both"
	// Up and Down are the bytes received of each direction.
	Up   uint64 `json:"up_bytes"`
	Down uint64 `json:"down_bytes"`
	// Block is how many bytes one write hands to the kernel.
	Block       int              `json:"block_bytes"`
	Retransmits uint64           `json:"retransmits"` // segments, by TCP_INFO, of the sender's side
	RTT         time.Duration    `json:"rtt_ns"`      // mean of the streams' smoothed ones, at the end
	MSS         int              `json:"mss_bytes"`
	Congestion  string           `json:"congestion"` // the algorithm, of the sender's side
	Intervals   []StreamInterval `json:"intervals"`
}

// StreamInterval is a part of the window; all but the last have one length.
type StreamInterval struct {
	Length      time.Duration `json:"length_ns"`
	Up          uint64        `json:"up_bytes"`
	Down        uint64        `json:"down_bytes"`
	Retransmits uint64        `json:"retransmits"`
}

// DatagramResult is what a flow of datagrams at a fixed rate counted in the
// measured window. Sent = Received - Duplicated + Lost.
type DatagramResult struct {
	Size       int    `json:"size_bytes"` // of a datagram's payload
	Sent       uint64 `json:"sent"`
	Received   uint64 `json:"received"` // with duplicates
	Lost       uint64 `json:"lost"`
	Reordered  uint64 `json:"reordered"` // came after one with a higher number
	Duplicated uint64 `json:"duplicated"`
	// Calls is by how many calls of the kernel they were sent, each with those that
	// were due together; 0: not counted.
	Calls uint64 `json:"calls,omitempty"`
	// Jitter is RFC 3550's, section 6.4.1, at the end of the window.
	Jitter time.Duration `json:"jitter_ns"`
	// FlowSent and FlowReceived count the whole flow, warm-up included, so that
	// they can be held against what follows: SocketDrops is what the receiver's
	// socket had no room for, and InterfacePackets and InterfaceDrops what the
	// counters of its interface say, both from before the flow's first datagram
	// to after its last. Other packets than the flow's are on the interface, too.
	FlowSent         uint64             `json:"flow_sent"`
	FlowReceived     uint64             `json:"flow_received"`
	ReceiveBuffer    uint64             `json:"receive_buffer_bytes"` // of the receiver's socket, as given
	SocketDrops      uint64             `json:"socket_drops"`
	Interface        string             `json:"interface,omitempty"`
	InterfacePackets uint64             `json:"interface_packets"`
	InterfaceDrops   uint64             `json:"interface_drops"`
	Offload          bool               `json:"offload,omitempty"` // segmented by the kernel: not paced one by one
	Intervals        []DatagramInterval `json:"intervals"`
}

// DatagramInterval is a part of the window; all but the last have one length.
type DatagramInterval struct {
	Length   time.Duration `json:"length_ns"`
	Sent     uint64        `json:"sent"`
	Received uint64        `json:"received"`
	Lost     uint64        `json:"lost"`
	Jitter   time.Duration `json:"jitter_ns"`
}

// FailedTotal is the number of failures of all causes, without unsent requests.
func (r *LoadResult) FailedTotal() uint64 {
	var n uint64
	for _, c := range r.Failed {
		n += c
	}
	return n
}

// Timeline shows latency over time: slots of equal width, each with counts of
// response times by cell. It is for pictures and drift tests, not for quantiles.
type Timeline struct {
	SlotWidth time.Duration `json:"slot_ns"`
	Slots     []Slot        `json:"slots"`
}

// Slot is one step of a Timeline. A request is in the slot in which it was due.
type Slot struct {
	Succeeded uint64        `json:"ok"`
	Failed    uint64        `json:"failed,omitempty"`
	Mean      time.Duration `json:"mean_ns"`
	Max       time.Duration `json:"max_ns"`
	// Cells counts successes by hist.Cell of their response time, as pairs of
	// cell and count, ascending.
	Cells [][2]uint32 `json:"cells,omitempty"`
}

// Reading is one value of one subject at one moment.
type Reading struct {
	At      int64 // CLOCK_MONOTONIC, nanoseconds
	Subject string
	Metric  string
	Value   float64
}

// What samplers read. Counters only grow; the rest are gauges.
const (
	SampleCPU              = "cpu_seconds"       // counter
	SampleThrottled        = "throttled_seconds" // counter
	SampleThrottledPeriods = "throttled_periods" // counter
	SampleMemory           = "memory_bytes"      // gauge: charged to the cgroup now
	SampleSteal            = "steal_seconds"     // counter, host
	SampleBusy             = "busy_seconds"      // counter, host: all CPUs, everything but idle and iowait
	SampleRunQueue         = "run_queue"         // gauge, host: runnable tasks
)

// SubjectHost is the subject of host readings; pods' are "pod/component".
const SubjectHost = "host"

// Series is the readings of one metric of one subject, in time order.
type Series struct {
	Subject string    `json:"subject"`
	Metric  string    `json:"metric"`
	At      []int64   `json:"at_ns"`
	Values  []float64 `json:"values"`
}

// Ledger is what a variant really did, fact by fact.
type Ledger []Fact

// Note adds a fact, unless it is there.
func (l *Ledger) Note(f Fact) {
	if !slices.Contains(*l, f) {
		*l = append(*l, f)
	}
}

// Fact is one observation: what, its value, and how it was seen.
type Fact struct {
	Layer  string `json:"layer"`
	Key    string `json:"key"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

// How a fact was seen.
const (
	SourceWire     = "wire"        // packets on the underlay
	SourceConfig   = "live config" // read back from the running system
	SourceCounters = "counters"    // the running system's own counters
	SourceAnswer   = "answers"     // what the generator received
	SourceProgram  = "program"     // the file that was executed
	SourceDeclared = "declared"    // not observed; said by the study
)

// Keys of facts that findings compare across layers and variants.
const (
	FactWireProtocol = "protocol on the wire"
	FactMTLS         = "mTLS"
	FactPeer         = "peer identity"
	FactHops         = "path of hops"
	FactLevel        = "protocol level"
	FactProxies      = "proxies in the path"
	FactRetries      = "retries"
	FactMTU          = "MTU"
	FactProgram      = "program"
	FactBalancing    = "load balancing"
	FactTranslated   = "connections translated by the Service"
	// FactImage and FactDigest are of a program that was taken out of an image:
	// the image with its digest, and the program's own.
	FactImage  = "program's image"
	FactDigest = "program's digest"
)

// Claim is a fact that a layer says must be observed.
type Claim struct {
	Layer string `json:"layer"`
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Severity says how much a finding weighs.
type Severity string

// The severities: a note explains, a suspect number needs another look, an
// invalid one must not be used.
const (
	SeverityNote    Severity = "note"
	SeveritySuspect Severity = "suspect"
	SeverityInvalid Severity = "invalid"
)

// Finding is one doubt about a trial, a group of trials or a comparison.
type Finding struct {
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	Variant  string   `json:"variant,omitempty"`
	Load     string   `json:"load,omitempty"`
	// Trials are the indexes of the trials concerned; none: the whole run.
	Trials []int `json:"trials,omitempty"`
	// Metrics are the numbers that it is about, by name ("response.p99") or by
	// group ("response"); none: all.
	Metrics  []string `json:"metrics,omitempty"`
	Cause    string   `json:"cause"`
	Evidence string   `json:"evidence"`
	Advice   string   `json:"advice"`
}

// Host is what the trials ran on.
type Host struct {
	OS            string   `json:"os"`
	Kernel        string   `json:"kernel"`
	Arch          string   `json:"arch"`
	CPU           string   `json:"cpu"`
	Cores         int      `json:"cores"`
	MemoryBytes   uint64   `json:"memory_bytes"`
	Virtualised   string   `json:"virtualised,omitempty"`
	Congestion    string   `json:"tcp_congestion,omitempty"` // TCP's congestion control where nothing asks for another
	IdleCPUs      string   `json:"idle_cpus,omitempty"`      // whether they were kept from sleeping, or why not
	Cgroups       string   `json:"cgroups"`                  // "v1", "v2" or "none: reason"
	Rootless      bool     `json:"rootless"`
	GeneratorCPUs []int    `json:"generator_cpus"`
	OtherCPUs     []int    `json:"other_cpus"`
	Notes         []string `json:"notes,omitempty"` // what limits the figures here
}
