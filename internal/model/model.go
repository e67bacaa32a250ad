// Package model holds Windtunnel's nouns as plain values, and the small
// interfaces between its parts. docs/terms.md is the authority for the words.
//
// Blueprint values (Study, Topology, Load, ...) say what is wanted: they are
// plain, comparable by content and free of anything that belongs to a host.
// Targets turn them into live things (Site, Pod, Running).
package model

import (
	"encoding/json"
	"time"
)

// Study is a question and its design, after parsing: names resolved, defaults
// filled in, nothing left to interpret.
type Study struct {
	Name     string `json:"name"`
	Question string `json:"question"`
	Target   string `json:"target"`
	// Kube is set where the target is kube.
	Kube *Kube `json:"kube,omitempty"`
	// Skipped are variants that the study has for other targets.
	Skipped  []Skipped `json:"skipped,omitempty"`
	Topology Topology  `json:"topology"`
	App      PluginRef `json:"app"`
	Baseline string    `json:"baseline"`
	Variants []Variant `json:"variants"`
	Loads    []Load    `json:"loads"`
	// Faults are the scenarios that loads name.
	Faults []Scenario `json:"faults,omitempty"`
	Design Design     `json:"design"`
	Gates  []Gate     `json:"gates,omitempty"`
	// Published is what others have said, for reports to set beside the results.
	Published []Published `json:"published,omitempty"`
	// Limits are what components may use, in all trials.
	Limits ComponentLimits `json:"limits,omitempty"`
	// Fleet is what reports turn the cost into; nil: nothing.
	Fleet *Fleet `json:"fleet,omitempty"`
}

// Fleet is a number of pods, and the requests a second that all of them get.
type Fleet struct {
	Pods int     `json:"pods"`
	Rate float64 `json:"rate"`
}

// PluginRef names a plug-in of the catalog and carries its configuration as
// the plug-in will read it.
type PluginRef struct {
	Kind   string          `json:"kind"`
	Config json.RawMessage `json:"config,omitempty"`
}

// Variant is one system under test: a named stack of layers, bottom up.
type Variant struct {
	Name  string      `json:"name"`
	Stack []PluginRef `json:"stack"`
	// Control marks the A/A control: the baseline's stack a second time. What
	// differs between the two is noise.
	Control bool `json:"control,omitempty"`
	// Limits are the variant's own; they come before the study's.
	Limits ComponentLimits `json:"limits,omitempty"`
	// Targets are those on which the variant runs; none: all.
	Targets []string `json:"targets,omitempty"`
}

// Design says how trials are repeated, ordered, stopped and judged.
type Design struct {
	// Blocks is the number of blocks that are always run. At least 6: fewer
	// cannot give a 95 % interval by Wilcoxon's signed ranks.
	Blocks int `json:"blocks"`
	// MaxBlocks is where a study with a stop rule gives up; equal to Blocks
	// where there is no stop rule.
	MaxBlocks int `json:"max_blocks"`
	// StopInterval is the half-width of every primary interval, as a share of
	// the estimate, below which the study may stop after Blocks. 0: no rule.
	StopInterval float64 `json:"stop_interval,omitempty"`
	// Warmup is how long each load runs before the measured window opens.
	Warmup time.Duration `json:"warmup_ns"`
	// Control adds the A/A control as a variant named "control".
	Control bool `json:"control"`
	// Equivalence is the margin, as a share, inside which two variants may be
	// called equivalent. 0: no claim of equivalence is made.
	Equivalence float64 `json:"equivalence,omitempty"`
	// Primary are the metrics that are corrected for as one family.
	Primary []string `json:"primary"`
	Seed    uint64   `json:"seed"`
}

// Gate is a condition on a result, e.g. "envoy.steady.response.p99 < 20ms".
type Gate struct {
	Text    string  `json:"text"`
	Variant string  `json:"variant"`
	Load    string  `json:"load,omitempty"` // empty: every load
	Metric  string  `json:"metric"`
	Op      string  `json:"op"` // one of < <= > >=
	Value   float64 `json:"value"`
}

// Arrival says what makes the generator send the next request.
type Arrival string

// The arrivals.
const (
	// ArrivalOpen sends by the clock, whatever the system under test does.
	ArrivalOpen Arrival = "open"
	// ArrivalClosed sends when an answer has come in.
	ArrivalClosed Arrival = "closed"
)

// Load says who sends what to whom.
type Load struct {
	Name     string `json:"name"`
	Protocol string `json:"protocol"`
	// Config is the protocol's own configuration, as its plug-in reads it.
	Config json.RawMessage `json:"config,omitempty"`
	// Driver is the outside tool that sends, e.g. "vegeta"; empty: our engine.
	Driver string `json:"driver,omitempty"`
	// Program is the path of that tool; empty: it is looked for.
	Program string  `json:"program,omitempty"`
	Arrival Arrival `json:"model"`
	// Rate is in requests per second, over all connections; open loop only.
	// Where the pattern varies the rate, it is the mean over the window.
	Rate    float64 `json:"rate,omitempty"`
	Pattern Pattern `json:"pattern,omitzero"`
	// Relative says that the rate is a share of another load's result: Rate is 0
	// in the plan, and what the calibration has frozen in a trial.
	Relative *Relative `json:"relative,omitempty"`
	// Search says that each trial looks for the highest rate that holds; Rate is
	// 0 in the plan, and a probe's own while it runs.
	Search *Search `json:"search,omitempty"`
	// Think is how long each connection of a closed loop rests between an answer
	// and its next request: a connection is then a virtual user. It is the mean
	// of an exponential distribution where the pattern is Poisson.
	Think time.Duration `json:"think_ns,omitempty"`
	// Pace is the most requests per second that a closed loop sends, over all
	// connections; 0: as many as are answered. Each connection has times of its
	// own and, when late, catches up.
	Pace        float64       `json:"pace,omitempty"`
	Connections int           `json:"connections"`
	Duration    time.Duration `json:"duration_ns"`
	// Timeout is how long one request may take, from when it was sent.
	Timeout time.Duration `json:"timeout_ns"`
	// Drop says that a request which is due when no connection is free is
	// given up at once, as unsent; otherwise it waits, and is counted as blocked.
	Drop bool `json:"drop,omitempty"`
	// Coalesce lets the generator send requests together that are due within
	// that time, the first of them late by as much: fewer wake-ups, more
	// dispersion. 0: every request is sent when it is due.
	Coalesce time.Duration `json:"coalesce_ns,omitempty"`
	// Spin is how long before a request is due the generator stops sleeping and
	// watches the clock: less lateness, for a core of its own.
	Spin time.Duration `json:"spin_ns,omitempty"`
	TLS  *TLS          `json:"tls,omitempty"`
	From string        `json:"from"` // pod that sends
	// Generators are further pods that send; each takes its share of one
	// schedule and of the connections.
	Generators []string `json:"generators,omitempty"`
	To         string   `json:"to"` // service that answers
	// Limits are what components may use under this load; they come before the
	// variant's.
	Limits ComponentLimits `json:"limits,omitempty"`
	// Fault is the scenario that the load runs under; empty: none.
	Fault string `json:"fault,omitempty"`
	// Breakdown is the window of one more trial of each variant, after all blocks
	// and outside of all results, in which requests are traced; 0: there is none.
	Breakdown time.Duration `json:"breakdown_ns,omitempty"`
}

// Pattern is how requests of an open loop are spread over time. The zero value
// is a constant rate.
type Pattern struct {
	// Poisson makes the times between requests random, as many independent
	// users would, with the same mean.
	Poisson bool `json:"poisson,omitempty"`
	// Burst is how many requests are due together, at the same mean rate; 0: 1.
	Burst int `json:"burst,omitempty"`
	// Segments are what the rate is in parts of the window, one after the other;
	// the warm-up has the rate with which the first begins.
	Segments []Segment `json:"segments,omitempty"`
	// Times are when requests are due, from the start of the window, ascending:
	// a replay. The warm-up has their mean rate.
	Times []time.Duration `json:"times_ns,omitempty"`
}

// Segment is a part of a window in which the rate, in requests per second,
// goes evenly from one value to another.
type Segment struct {
	From     float64       `json:"from"`
	To       float64       `json:"to"`
	Duration time.Duration `json:"duration_ns"`
}

// Relative is a rate as a share of what variants achieved under another load,
// or of the highest rate that they held.
type Relative struct {
	Share float64 `json:"share"` // 0.75: three quarters
	Of    string  `json:"of"`    // the other load
	Among Among   `json:"among"`
}

// Among says whose result counts.
type Among string

// Whose result counts: that of the worst variant, of the best, or each its own.
// With the first two, all variants meet the same rate.
const (
	AmongLowest  Among = "lowest"
	AmongHighest Among = "highest"
	AmongOwn     Among = "own"
)

// Search asks for the highest rate from From to To, in requests per second, at
// which all objectives hold.
type Search struct {
	Objectives []Objective `json:"objectives"`
	From       float64     `json:"from"`
	To         float64     `json:"to"`
	// Precision is how close, as a share, the rate that holds and one that does
	// not must come.
	Precision float64       `json:"precision"`
	Probe     time.Duration `json:"probe_ns"` // window of one probe
	// Confirmations are how often in a row the rate that was found must hold for
	// the load's whole duration.
	Confirmations int `json:"confirmations"`
}

// Objective is a condition on one load's result, e.g. "response.p99 < 20ms".
type Objective struct {
	Text   string  `json:"text"`
	Metric string  `json:"metric"`
	Op     string  `json:"op"` // one of < <= > >=
	Value  float64 `json:"value"`
}

// TLS says how a load's connections are secured.
type TLS struct {
	// ServerName is asked for (SNI) and must be in the server's certificate;
	// empty: the host that requests name.
	ServerName string `json:"server_name,omitempty"`
	// CA is what certificates are verified with, in PEM; empty: the system's.
	CA string `json:"ca,omitempty"`
	// Insecure accepts any certificate.
	Insecure bool `json:"insecure,omitempty"`
}

// Trial is one variant under one load, run once. Trials of one repetition
// form a block; Order is the trial's place in the random order of its block.
type Trial struct {
	Index   int    `json:"index"`
	Block   int    `json:"block"`
	Order   int    `json:"order"`
	Variant string `json:"variant"`
	Load    string `json:"load"`
	Seed    uint64 `json:"seed"`
	// Calibration trials come before the blocks and have indexes of their own;
	// Block is then the repetition.
	Calibration bool `json:"calibration,omitempty"`
	// Breakdown trials come after the blocks and have indexes of their own. Their
	// requests are traced; Block is 1.
	Breakdown bool `json:"breakdown,omitempty"`
}

// Frozen is what the calibration found, before the first block: nothing of it
// changes later.
type Frozen struct {
	Rates []FrozenRate `json:"rates"`
}

// FrozenRate is the rate of a load under a variant.
type FrozenRate struct {
	Load    string  `json:"load"`
	Variant string  `json:"variant"`
	Rate    float64 `json:"rate"`  // requests per second
	Basis   float64 `json:"basis"` // what it is a share of
}
