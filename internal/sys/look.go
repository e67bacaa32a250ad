package sys

import (
	"fmt"
	"os/exec"
)

// Look finds a program by name in the folders of the search path.
func Look(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("looking for %s: %w", name, err)
	}
	return path, nil
}
