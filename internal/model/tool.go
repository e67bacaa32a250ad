package model

import (
	"slices"
	"time"
)

// Tool is an outside program that sent a load, or whose results were read, and
// what is to be known of its figures. What the tool does not tell is absent
// from the result (an empty histogram, a zero count) and named in Notes.
type Tool struct {
	Name    string `json:"name"`              // e.g. "fortio"
	Version string `json:"version,omitempty"` // as the tool says
	Program string `json:"program,omitempty"` // path of what was executed
	// Commands are those that were run, in order: warm-up first, the measured one last.
	Commands [][]string `json:"commands,omitempty"`
	// Basis is what the tool's latencies count from.
	Basis Basis `json:"latency_from"`
	// Figures are latencies as the tool itself printed them, by name ("p99",
	// "mean"): to compare with, where there is a distribution, and all there is
	// where there is none.
	Figures map[string]time.Duration `json:"figures,omitempty"`
	// Notes say what the figures are not: what the tool does not tell, what was
	// derived, and how coarse it is.
	Notes []string `json:"notes,omitempty"`
}

// Basis is what a tool's latency counts from. Only the first includes the time
// that a request had to wait for its turn: with the others a stalled server
// hides behind the requests that were not sent (coordinated omission).
type Basis string

// The bases.
const (
	BasisDue     Basis = "due"     // when the schedule wanted the request
	BasisSent    Basis = "sent"    // when it was sent
	BasisNothing Basis = "nothing" // the tool gives no latency
)

// Note adds a note, once.
func (t *Tool) Note(text string) {
	if !slices.Contains(t.Notes, text) {
		t.Notes = append(t.Notes, text)
	}
}
