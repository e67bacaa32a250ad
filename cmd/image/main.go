// Command image makes the image of pods of the target kube: `make image`.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"runtime"

	"github.com/windtunnel/windtunnel/internal/image"
)

func main() {
	binary := flag.String("binary", "bin/windtunnel", "static executable for Linux")
	out := flag.String("o", "bin/windtunnel-image.tar", "tarball to write, an OCI layout")
	name := flag.String("name", "localhost/windtunnel:latest", "name of the image")
	architecture := flag.String("arch", runtime.GOARCH, "architecture of the executable")
	flag.Parse()
	if err := write(*binary, *out, *name, *architecture); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err) //nolint:forbidigo // a program of its own, for make
		os.Exit(1)                             //nolint:forbidigo // likewise
	}
}

func write(binary, out, name, architecture string) error {
	program, err := os.ReadFile(binary) //nolint:gosec // the user says which
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := image.Program(program, name, architecture).Write(&b); err != nil {
		return err
	}
	const mode = 0o644
	return os.WriteFile(out, b.Bytes(), mode)
}
