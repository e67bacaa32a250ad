package labtest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/model"
)

// New makes a plug-in of a configuration, as a study does.
func New[T any](tb testing.TB, p model.Plugin[T], config string) T {
	tb.Helper()
	made, err := p.New(json.RawMessage(config))
	if err != nil {
		tb.Fatal(err)
	}
	return made
}

// Configs checks what a plug-in says to configurations: an error with the words,
// or nothing where there are no words.
func Configs[T any](t *testing.T, p model.Plugin[T], words map[string]string) {
	t.Helper()
	for config, want := range words {
		_, err := p.New(json.RawMessage(config))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want an error with %q", config, err, want)
		}
	}
}
