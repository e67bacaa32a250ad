//go:build !kube && !agent

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/windtunnel/windtunnel/internal/cli"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// kubeProgram is this program with Kubernetes' libraries.
const kubeProgram = "windtunnel-kube"

// withKube lets kubeProgram, from the same folder or from PATH, take over where
// real clusters are the target.
func withKube(c cli.Catalog) cli.Catalog {
	c.KubeProgram = func(args []string) error {
		var looked []string
		if self, err := os.Executable(); err == nil {
			looked = append(looked, filepath.Join(filepath.Dir(self), kubeProgram))
		}
		if path, err := sys.Look(kubeProgram); err == nil {
			looked = append(looked, path)
		}
		for _, path := range looked {
			if _, err := os.Stat(path); err == nil {
				return sys.Become(path, args)
			}
		}
		return &model.UnsupportedError{
			What: "the target kube", Missing: fmt.Sprintf("no program %s beside this one or in PATH", kubeProgram),
			Hint: "make build-kube makes both; go build -tags kube -o " + kubeProgram + " ./cmd/windtunnel makes that one",
		}
	}
	return c
}
