package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// replaceTimeout is how long an Envoy may take to follow a file.
const replaceTimeout = 30 * time.Second

// Replace replaces a file beside the Envoy's configuration, at once and whole.
func (e *Envoy) Replace(name string, data []byte) error {
	w, ok := e.process.(model.Rewriter)
	if !ok {
		return &model.UnsupportedError{What: "changing an Envoy while it runs", Missing: "this target's processes have no files that can be replaced", Hint: "use the lab"}
	}
	if err := w.WriteFile(name, data); err != nil {
		return fmt.Errorf("changing the Envoy in %s: %w", e.Where.Name(), err)
	}
	return nil
}

// Until asks the admin interface for a page until that is as wanted; that it does
// not answer at once is no error. Where wanted says what is wrong for good, that
// is.
func (e *Envoy) Until(ctx context.Context, page string, wanted func(body []byte) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, replaceTimeout)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		body, err := e.Ask(ctx, page)
		done := false
		if err == nil {
			if done, err = wanted(body); err != nil {
				return fmt.Errorf("changing the Envoy in %s: %w", e.Where.Name(), err)
			}
		}
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			why := errors.Join(err, ctx.Err())
			return fmt.Errorf("the Envoy in %s has not followed within %s: %w; %s is %.500s", e.Where.Name(), replaceTimeout, why, page, bytes.TrimSpace(body))
		case <-tick.C:
		}
	}
}
