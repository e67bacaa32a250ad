// Package studies holds the built-in studies.
package studies

import _ "embed" // for the studies' files

// quick is the study that a new user runs first.
//
//go:embed quick.yaml
var quick []byte

//go:embed nginx.yaml
var nginx []byte

// Study is a built-in study file.
type Study struct {
	Name, Question string
	Data           []byte
}

// List returns the built-in studies.
func List() []Study {
	return []Study{
		{"quick", "What do a Service VIP and two mTLS sidecars add to a request?", quick},
		{"nginx", "The same, with nginx as the server", nginx},
	}
}
