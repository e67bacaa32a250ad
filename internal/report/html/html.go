// Package html writes the report as one page that holds everything: it opens
// from disk, needs no network and prints well. The page itself is built from
// web/ and embedded; this package only puts the data into it.
package html

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/windtunnel/windtunnel/internal/report"
)

// page is what `npm run build` in web/ made.
//
//go:embed page.html
var page []byte

const placeholder = `id="data">{{data}}</script>`

// plainLimit is how large the data may be before it is compressed: small
// reports stay readable and searchable with a text editor.
const plainLimit = 512 << 10

// errNoPlaceholder means that page.html was not built by web/.
var errNoPlaceholder = errors.New("page.html has no place for the data; build it again with `npm run build` in web/")

// Format is one self-contained page.
type Format struct{}

// Write writes the page with the model in it.
func (Format) Write(ctx context.Context, w io.Writer, m *report.Model) error {
	data, err := encode(m)
	if err != nil {
		return fmt.Errorf("writing the report page: %w", err)
	}
	before, after, found := bytes.Cut(page, []byte(placeholder))
	if !found {
		return errNoPlaceholder
	}
	head, tail, _ := bytes.Cut([]byte(placeholder), []byte("{{data}}"))
	for _, part := range [][]byte{before, head, data, tail, after} {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("writing the report page: %w", err)
		}
		if _, err := w.Write(part); err != nil {
			return fmt.Errorf("writing the report page: %w", err)
		}
	}
	return nil
}

// encode returns text that is safe inside a script element: JSON whose <, >, &,
// U+2028 and U+2029 are escaped by encoding/json, or base64 of its gzip.
func encode(m *report.Model) ([]byte, error) {
	data, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encoding the model: %w", err)
	}
	if len(data) <= plainLimit {
		return data, nil
	}
	var packed bytes.Buffer
	text := base64.NewEncoder(base64.StdEncoding, &packed)
	zip, err := gzip.NewWriterLevel(text, gzip.BestCompression)
	if err != nil {
		return nil, fmt.Errorf("compressing the model: %w", err)
	}
	_, err = zip.Write(data)
	if err = errors.Join(err, zip.Close(), text.Close()); err != nil {
		return nil, fmt.Errorf("compressing the model: %w", err)
	}
	return packed.Bytes(), nil
}
