package model

// Published is what another source says about the study's question, set beside
// our results.
type Published struct {
	Source string `json:"source"`
	URL    string `json:"url,omitempty"`
	// Tolerance is how much a figure may be off, as a share of it.
	Tolerance float64          `json:"tolerance,omitempty"`
	Cells     []PublishedCell  `json:"cells,omitempty"`
	Claims    []PublishedClaim `json:"claims,omitempty"`
}

// PublishedCell is one metric of one variant under one load in a published
// table, with the figures of all its rows.
type PublishedCell struct {
	Variant string `json:"variant"`
	Load    string `json:"load"`
	// Metric is empty where the figure is none of ours.
	Metric string `json:"metric,omitempty"`
	Column string `json:"column"` // its name in the table
	// Values are in the metric's own unit; without a metric, in Unit.
	Values  []float64 `json:"values"`
	Printed []string  `json:"printed"` // the same figures as they were published
	Unit    string    `json:"unit"`    // of those, e.g. "ms"
	// Incomparable says why the figures are shown and not judged.
	Incomparable string `json:"incomparable,omitempty"`
}

// Relations of a published claim.
const (
	RelationLower  = "lower"
	RelationHigher = "higher"
	RelationEqual  = "equal"
)

// PublishedClaim is a sentence of a source: a metric of Left is lower or higher
// than that of Right, or equal.
type PublishedClaim struct {
	Text     string `json:"text"`
	Metric   string `json:"metric"`
	Load     string `json:"load,omitempty"` // empty: every load
	Left     string `json:"left"`
	Relation string `json:"relation"`
	Right    string `json:"right"`
	// From and To are by how much, as shares of Right; 0: the source does not say.
	From float64 `json:"from,omitempty"`
	To   float64 `json:"to,omitempty"`
}
