// Package json writes the report's model itself.
package json

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/windtunnel/windtunnel/internal/report"
)

// Format is indented JSON; the schema member is its version.
type Format struct{}

// Write writes the model.
func (Format) Write(_ context.Context, w io.Writer, m *report.Model) error {
	out := json.NewEncoder(w)
	out.SetIndent("", " ")
	if err := out.Encode(m); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	return nil
}
