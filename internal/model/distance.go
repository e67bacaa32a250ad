package model

import "time"

// elsewhereFactor is how much nearer or farther is another place: the levels of
// a memory's hierarchy are three times and more apart.
const elsewhereFactor = 2

// CPUDistance is how far apart the generator's CPU and the others were just
// before and just after a load: the time in which one reads what another has
// just written. 0: not known.
type CPUDistance struct {
	Before time.Duration `json:"before_ns"`
	After  time.Duration `json:"after_ns"`
}

// Moved says whether a hypervisor has moved the CPUs during the load.
func (d CPUDistance) Moved() bool { return Elsewhere(d.Before, d.After) }

// Elsewhere says whether CPUs at two distances were in different places: on one
// core, below one cache, or farther apart. Where one is not known, they were not.
func Elsewhere(a, b time.Duration) bool {
	return a > 0 && b > 0 && max(a, b) > elsewhereFactor*min(a, b)
}

// Disturbance is what a hypervisor did to a try at a trial.
type Disturbance struct {
	// Stolen is the share of all CPUs' time that it took in the window.
	Stolen float64 `json:"stolen"`
	// CPUs is where it had the CPUs.
	CPUs CPUDistance `json:"cpu_distance,omitzero"`
}
