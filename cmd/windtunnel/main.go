//go:build !agent

package main

import (
	"context"
	"debug/buildinfo"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/windtunnel/windtunnel/internal/cli"
	"github.com/windtunnel/windtunnel/internal/generator"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// run is main with a result, so that tests can be the program, too.
func run() int {
	beAgent(os.Args[1:])
	return cli.Main(context.Background(), outside(), withKube(catalog(os.Getenv("XDG_RUNTIME_DIR"))))
}

// agentProgram is this program without all that a load generator does not need:
// a third of its size and half of its memory. It is beside this one, or this
// one generates load itself.
const agentProgram = "windtunnel-agent"

// beAgent goes on as agentProgram where that can do what is asked for. One of
// another commit, or one that is older than this file, is left alone: the two
// talk to each other. make build makes that one last.
func beAgent(args []string) {
	if len(args) == 0 || !slices.Contains(generator.Names(), args[0]) {
		return
	}
	self, err := os.Executable()
	if err != nil {
		return
	}
	path := filepath.Join(filepath.Dir(self), agentProgram)
	theirs, err := buildinfo.ReadFile(path)
	if err != nil || older(path, self) {
		return
	}
	if ours, ok := debug.ReadBuildInfo(); ok && source(ours) == source(theirs) {
		_ = sys.Become(path, args) // returns only if that cannot be; then this one does it
	}
}

func older(path, than string) bool {
	a, errA := os.Stat(path)
	b, errB := os.Stat(than)
	return errA != nil || errB != nil || a.ModTime().Before(b.ModTime())
}

// source says what a program was built from: the module's version, the commit,
// and whether it had changes.
func source(b *debug.BuildInfo) [3]string {
	from := [3]string{b.Main.Version}
	for _, s := range b.Settings {
		switch s.Key {
		case "vcs.revision":
			from[1] = s.Value
		case "vcs.modified":
			from[2] = s.Value
		}
	}
	return from
}
