// Package report turns a run into a Model: every number that a person sees,
// with its interval, unit and findings. The formats (text, Markdown, HTML,
// CSV, JSON) only render it, so they cannot disagree.
package report

import (
	"context"
	"io"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// ModelSchema is the version of Model that this program writes.
const ModelSchema = 1

// Model is everything that a report shows. Values are in SI units: seconds,
// bytes, shares (0 to 1), requests or bits per second; the formats scale them.
type Model struct {
	Schema      int             `json:"schema"`
	Name        string          `json:"name"`
	Question    string          `json:"question"`
	Answer      []string        `json:"answer"` // generated sentences, the most important first
	Run         Run             `json:"run"`
	Variants    []Variant       `json:"variants"`
	Loads       []Load          `json:"loads"`
	Metrics     []Metric        `json:"metrics"`
	Cells       []Cell          `json:"cells"`
	Comparisons []Comparison    `json:"comparisons"`
	Curves      []Curve         `json:"curves"`
	Timelines   []Timeline      `json:"timelines"`
	Flows       []Flow          `json:"flows"`
	Failovers   []Failover      `json:"failovers"`
	Resources   []Resource      `json:"resources"`
	Ledger      []LedgerRow     `json:"ledger"`
	Topology    Topology        `json:"topology"`
	Findings    []model.Finding `json:"findings"`
	Trials      []Trial         `json:"trials"`
	Gates       []Gate          `json:"gates"`
	Published   []Published     `json:"published,omitempty"`
	Fleet       *Fleet          `json:"fleet,omitempty"`
	Breakdowns  []Breakdown     `json:"breakdowns,omitempty"`
	Provenance  []Entry         `json:"provenance"`
	// Unavailable says what this host could not tell, e.g. CPU per component.
	Unavailable []string `json:"unavailable,omitempty"`
	// Results are what the generator counted, for formats that need whole
	// distributions. They are no part of the JSON: records.jsonl has them.
	Results []Result `json:"-"`
}

// Result is a trial with its load's raw result. Failed trials may have one;
// those that measured nothing have none.
type Result struct {
	Trial
	Load model.LoadResult
}

// Run is the run as a whole.
type Run struct {
	ID          string    `json:"id"`
	Started     time.Time `json:"started"`
	TookSeconds float64   `json:"took_s"`
	Target      string    `json:"target"`
	Command     string    `json:"command"` // runs the same study again
	Verify      string    `json:"verify"`  // checks this run
	Baseline    string    `json:"baseline"`
	Blocks      int       `json:"blocks"` // complete ones
	Planned     int       `json:"planned_trials"`
	Done        int       `json:"done_trials"`
	Failed      int       `json:"failed_trials"`
	Complete    bool      `json:"complete"`
	Stopped     string    `json:"stopped"` // why the run ended when it did
	PlanDigest  string    `json:"plan_digest"`
	Seed        uint64    `json:"seed"`
	Version     string    `json:"version"`
	Level       float64   `json:"level"` // of all intervals, e.g. 0.95
}

// Variant is one system under test.
type Variant struct {
	Name     string   `json:"name"`
	Stack    []string `json:"stack"`
	Baseline bool     `json:"baseline"`
	Control  bool     `json:"control"`
}

// Kinds of loads, by what they are made of.
const (
	KindRequests  = "requests"
	KindStream    = "stream"    // bulk transfer
	KindDatagrams = "datagrams" // at a fixed rate
)

// Load is one load and how to say it, e.g. "1,000/s open loop, 32 connections".
type Load struct {
	Name    string `json:"name"`
	Text    string `json:"text"`
	Arrival string `json:"model"` // "open" or "closed"
	Kind    string `json:"kind"`
	// Main are the metrics of the main table, in order. The first is what the
	// answer is about.
	Main []string `json:"main"`
	// ResponseIsService marks closed loops, which cannot see queueing.
	ResponseIsService bool    `json:"response_is_service"`
	Seconds           float64 `json:"seconds"`
}

// Metric is one thing that is measured.
type Metric struct {
	Name    string `json:"name"`  // e.g. "response.p99"
	Label   string `json:"label"` // e.g. "response time, 99th percentile"
	Unit    string `json:"unit"`  // "s", "/s", "share", "s/1k requests", "s/Gbit", "s/1k packets", "bytes", "bit/s", "/GB"
	Better  string `json:"better"`
	Primary bool   `json:"primary"`
}

// Estimate is a number with its interval. N is the number of trials or pairs.
type Estimate struct {
	Value  float64 `json:"value"`
	Lo     float64 `json:"lo"`
	Hi     float64 `json:"hi"`
	N      int     `json:"n"`
	Method string  `json:"method"`
}

// Cell is one metric of one variant under one load: the value of every trial,
// and their estimate (absent with a reason where it cannot be given).
type Cell struct {
	Variant  string    `json:"variant"`
	Load     string    `json:"load"`
	Metric   string    `json:"metric"`
	Values   []Value   `json:"values"`
	Estimate *Estimate `json:"estimate,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	// Pooled marks quantiles that rest on all trials together, because one
	// alone has fewer than ten samples beyond them.
	Pooled bool `json:"pooled,omitempty"`
	// Text replaces the number where a bound is what is known, e.g. ">= 99.98 %".
	Text string `json:"text,omitempty"`
}

// Value is one trial's value.
type Value struct {
	Trial int     `json:"trial"`
	Block int     `json:"block"`
	Value float64 `json:"value"`
	// Invalid trials are shown but not used.
	Invalid bool `json:"invalid,omitempty"`
}

// Verdicts of a comparison.
const (
	VerdictDifferent  = "different"
	VerdictNone       = "~" // no difference shown
	VerdictEquivalent = "equivalent"
	VerdictUnknown    = "unknown" // cannot be told; Reason says why
)

// Comparison is a variant against the baseline, paired by block.
type Comparison struct {
	Variant    string    `json:"variant"`
	Load       string    `json:"load"`
	Metric     string    `json:"metric"`
	Difference *Estimate `json:"difference,omitempty"`
	Ratio      *Estimate `json:"ratio,omitempty"`
	P          float64   `json:"p"`
	// PHolm is P corrected over the family of primary metrics; 0 and
	// Exploratory true for the rest.
	PHolm       float64 `json:"p_holm"`
	Exploratory bool    `json:"exploratory"`
	Verdict     string  `json:"verdict"`
	Reason      string  `json:"reason,omitempty"`
	// Floor is the noise floor from the A/A control, an absolute difference.
	Floor float64 `json:"floor"`
	// Detectable is the smallest difference that would have been seen.
	Detectable float64 `json:"detectable"`
	// Few says that there are pairs, and too few for an interval yet.
	Few bool `json:"-"`
}

// Curve is a percentile curve. Kind is "response", "service" or "failed".
type Curve struct {
	Variant string       `json:"variant"`
	Load    string       `json:"load"`
	Kind    string       `json:"kind"`
	N       uint64       `json:"n"`
	Points  []CurvePoint `json:"points"`
}

// CurvePoint is one quantile: pooled over blocks, and the range over blocks.
type CurvePoint struct {
	Q     float64 `json:"q"` // 0 to 1, below 1
	Value float64 `json:"value"`
	Lo    float64 `json:"lo"`
	Hi    float64 `json:"hi"`
}

// Timeline is the latency of one trial over time. Each cell counts the
// successes of one slot whose response time lies between two bounds; Bounds
// holds the edges in seconds, and Cells are [slot, bound index, count].
type Timeline struct {
	Trial      int         `json:"trial"`
	SlotWidth  float64     `json:"slot_s"`
	Bounds     []float64   `json:"bounds_s"`
	Cells      [][3]uint32 `json:"cells"`
	Succeeded  []uint64    `json:"succeeded"`
	Failed     []uint64    `json:"failed"`
	MeanSecond []float64   `json:"mean_s"`
	MaxSecond  []float64   `json:"max_s"`
}

// Flow is one trial of a load that is not made of requests, over time: one
// value an interval. What its kind does not have is empty.
type Flow struct {
	Trial       int       `json:"trial"`
	Lengths     []float64 `json:"length_s"`
	Up          []float64 `json:"up_bps"`
	Down        []float64 `json:"down_bps"`
	Retransmits []uint64  `json:"retransmits"`
	Loss        []float64 `json:"loss"`
	Jitter      []float64 `json:"jitter_s"`
}

// Resource is what one component used under one load: the median over blocks
// with the range. Component is e.g. "client sidecar", "server app", "generator".
type Resource struct {
	Variant   string    `json:"variant"`
	Load      string    `json:"load"`
	Component string    `json:"component"`
	Cores     *Estimate `json:"cores,omitempty"`
	CPUPer1k  *Estimate `json:"cpu_s_per_1k,omitempty"`   // of loads that are made of requests
	CPUPerGb  *Estimate `json:"cpu_s_per_gbit,omitempty"` // of the others
	Throttled *Estimate `json:"throttled_s,omitempty"`    // seconds in the window
	Memory    *Estimate `json:"memory_bytes,omitempty"`   // peak in the window
}

// LedgerRow is one fact across the variants. Differs marks rows in which the
// variants are not alike.
type LedgerRow struct {
	Key     string       `json:"key"`
	Differs bool         `json:"differs"`
	Cells   []LedgerCell `json:"cells"` // in the order of Model.Variants
}

// LedgerCell is what was observed of one variant; empty: nothing was.
type LedgerCell struct {
	Values  []string `json:"values"`
	Sources []string `json:"sources"`
	// Claimed is what the variant said must be seen; Broken if it was not.
	Claimed string `json:"claimed,omitempty"`
	Broken  bool   `json:"broken,omitempty"`
}

// Topology is the site, for the picture.
type Topology struct {
	Nodes []Node `json:"nodes"`
	// Paths are the hops of a request, by variant.
	Paths []Path `json:"paths"`
	// Traffic is what passed the devices, by variant and load.
	Traffic []Traffic `json:"traffic,omitempty"`
}

// Traffic is what passed every device under one variant and load: medians over
// trials.
type Traffic struct {
	Variant string   `json:"variant"`
	Load    string   `json:"load"`
	Trials  int      `json:"trials"`
	Devices []Device `json:"devices"`
}

// Device is a network device of a pod or a node, or a direction of an emulated
// link, whose place is "a>b". In is to the place, Out from it. Large segments
// that the kernel keeps whole are one packet.
type Device struct {
	Kind       string  `json:"kind"` // "pod", "node", "underlay" or "link"
	Place      string  `json:"place"`
	Name       string  `json:"name"`
	In         float64 `json:"in_bps"`
	Out        float64 `json:"out_bps"`
	InPackets  float64 `json:"in_pps"`
	OutPackets float64 `json:"out_pps"`
	Dropped    float64 `json:"dropped_pps"`
}

// Node is a node with its pods.
type Node struct {
	Region  string `json:"region"`
	Cluster string `json:"cluster"`
	Name    string `json:"name"`
	Pods    []Pod  `json:"pods"`
}

// Pod is a pod with its role, "client" or "server".
type Pod struct {
	Name string `json:"name"`
	Role string `json:"role"`
}

// Path is the way a request takes through one variant, e.g. "client-0
// generator", "client-0 sidecar", "node-0 nftables", "server-0 sidecar", ...
type Path struct {
	Variant string   `json:"variant"`
	Hops    []string `json:"hops"`
}

// Trial is one line of the list of trials.
type Trial struct {
	Index   int       `json:"index"`
	Block   int       `json:"block"`
	Order   int       `json:"order"`
	Variant string    `json:"variant"`
	Load    string    `json:"load"`
	State   string    `json:"state"` // "done", "failed" or "invalid"
	Error   string    `json:"error,omitempty"`
	Started time.Time `json:"started"`
	Rate    float64   `json:"rate"`
	P50     float64   `json:"p50_s"`
	P99     float64   `json:"p99_s"`
	Success float64   `json:"success"`
	Logs    []string  `json:"logs,omitempty"`
}

// Gate is a gate of the study and how it fared. Value is the interval's
// unfavourable end.
type Gate struct {
	Text   string  `json:"text"`
	Passed bool    `json:"passed"`
	Value  float64 `json:"value"`
	Detail string  `json:"detail"`
}

// Entry is one line of provenance.
type Entry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Format writes a model for people or programs.
type Format interface {
	Write(ctx context.Context, w io.Writer, m *Model) error
}

// File is one of several files of a format. Name has no folder in it.
type File struct {
	Name string
	Data []byte
}

// Files is a Format that can also be written as several files, where that is
// what its readers want: a figure each, a result each.
type Files interface {
	Format
	Files(ctx context.Context, m *Model) ([]File, error)
}
