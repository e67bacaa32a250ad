package model

// SearchResult is how a trial looked for the highest rate that holds.
type SearchResult struct {
	// Highest is the rate that was confirmed; 0: none.
	Highest float64 `json:"highest"`
	// Above is the lowest rate over Highest that did not hold; 0: there is none.
	Above  float64       `json:"above,omitempty"`
	Limit  SearchLimit   `json:"limit"`
	Probes []SearchProbe `json:"probes"`
}

// SearchLimit says what keeps a search from a higher rate.
type SearchLimit string

// The limits. Only the first is a property of the system under test; with the
// others it holds at least that rate.
const (
	LimitSystem    SearchLimit = "the system"
	LimitGenerator SearchLimit = "the load generator"
	LimitRange     SearchLimit = "the range of the search"
)

// SearchProbe is one load of a search.
type SearchProbe struct {
	Rate float64 `json:"rate"`
	Held bool    `json:"held"`
	Why  string  `json:"why,omitempty"` // it did not hold
	// Generator says that the load generator itself could not keep up: the probe
	// says nothing of the system.
	Generator bool `json:"generator,omitempty"`
	// Confirms says that it ran for the load's whole duration.
	Confirms bool `json:"confirms,omitempty"`
	// Values are those of the objectives' metrics, where they have one.
	Values map[string]float64 `json:"values,omitempty"`
}

// Achieved is the rate that was answered: successes per second.
func (r *LoadResult) Achieved() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Succeeded) / r.Elapsed.Seconds()
}
