// Package unit describes what runs in a lab: a unit is a control plane or a
// node, with its files and its processes. Its root folder becomes the root of
// the unit's own file system.
package unit

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Where things are in a unit's own file system.
const (
	Bin    = "/kubelab/bin"    // the programs, read-only
	Images = "/kubelab/images" // the images every node has, read-only
	Log    = "/kubelab/log"    // a log a process
	Conf   = "/kubelab/conf"   // the unit's files, and its Spec
)

// Path is where a unit's programs are looked for.
const Path = Bin + ":" + Bin + "/cni:/usr/sbin:/usr/bin:/sbin:/bin"

const specFile = "unit.json"

// Spec is a unit.
type Spec struct {
	Name      string // also the host name
	Namespace string // the network namespace
	Cgroup    string // the group of the processes; containers' groups are beside it
	Processes []Process
	// Files holds the files in Conf, by name.
	Files map[string][]byte `json:"-"`
}

// Process is one step of a unit's start. A process that ends is started again.
type Process struct {
	Name string
	// Args is empty in a step that only waits.
	Args []string
	// Once says that it ends by itself, and that the next step needs its success.
	Once bool
	// Ready is what must answer before the next step: an https URL or a socket's path.
	Ready string
}

// Write writes a unit's files below its root folder on the host.
func (s Spec) Write(root string) error {
	dir := filepath.Join(root, Conf)
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing old files of %s: %w", s.Name, err)
	}
	spec, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the unit %s: %w", s.Name, err)
	}
	problems := []error{write(dir, specFile, spec)}
	for name, data := range s.Files {
		problems = append(problems, write(dir, name, data))
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("writing the files of %s: %w", s.Name, err)
	}
	return nil
}

func write(dir, name string, data []byte) error {
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// Read reads a unit from its root folder on the host.
func Read(root string) (Spec, error) {
	var s Spec
	data, err := os.ReadFile(filepath.Join(root, Conf, specFile))
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return Spec{}, fmt.Errorf("reading the unit in %s: %w", root, err)
	}
	return s, nil
}
