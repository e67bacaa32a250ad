package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/windtunnel/windtunnel/internal/layer/haproxy"
	"github.com/windtunnel/windtunnel/internal/sys"
)

const imageStudy = `apiVersion: windtunnel/v1
kind: Study
metadata: {name: image}
question: Does a program out of an image run in the lab, which has no network?
baseline: direct
variants:
  - {name: direct, stack: []}
  - {name: haproxy, stack: [{haproxy: {image: %q, image_path: /bin/haproxy, concurrency: 1}}]}
app: {kind: echo, replicas: 1}
loads:
  - {name: steady, protocol: http1, model: open, rate: 50/s, connections: 1, duration: 100ms}
design: {blocks: 6, warmup: 50ms, control: false}
`

// pushed is a registry in this process with an image of this host's HAProxy, by
// its digest.
func pushed(t *testing.T, found string) (ref string, server *httptest.Server) {
	t.Helper()
	binary, err := os.ReadFile(found)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err = errors.Join(
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/haproxy", Linkname: "/usr/sbin/haproxy"}),
		w.WriteHeader(&tar.Header{Name: "usr/sbin/haproxy", Mode: 0o755, Size: int64(len(binary))}))
	if err == nil {
		_, err = w.Write(binary)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	server = httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	ref = strings.TrimPrefix(server.URL, "http://") + "/mesh/haproxy:1"
	tag, err := name.ParseReference(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err = remote.Write(tag, img); err != nil {
		t.Fatal(err)
	}
	return ref, server
}

// A program is got before the lab is entered, and run inside. The ledger says of
// which image it is. When the registry is gone, what was asked for by a tag is
// refused before anything is made: the tag may have moved.
func TestProgramOutOfAnImage(t *testing.T) {
	t.Parallel()
	bin := program(t)
	if !canLab(t, bin) {
		t.Skip("no lab here")
	}
	found, err := haproxy.Find("")
	if err != nil && sys.Required(haproxy.Name) {
		t.Fatal(err)
	} else if err != nil {
		t.Skip(err)
	}
	ref, server := pushed(t, found)
	dir := t.TempDir()
	file, out := filepath.Join(dir, "image.yaml"), filepath.Join(dir, "run")
	if err = os.WriteFile(file, fmt.Appendf(nil, imageStudy, ref), 0o600); err != nil {
		t.Fatal(err)
	}
	windtunnel := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), bin, args...)
		cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+dir)
		text, failure := cmd.CombinedOutput()
		return string(text), failure
	}
	text, err := windtunnel("run", file, "--out", out, "--quiet")
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	records, err := os.ReadFile(filepath.Join(out, "records.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	image := strings.TrimSuffix(ref, ":1") + "@sha256:"
	if !bytes.Contains(records, []byte(image)) || bytes.Contains(records, []byte(`"failure"`)) {
		t.Errorf("no trial says that it ran a program of %s..., or some failed", image)
	}
	server.Close()
	text, err = windtunnel("run", file, "--out", out+"2", "--quiet")
	const unsupported = 4
	if failed, ok := errors.AsType[*exec.ExitError](err); !ok || failed.ExitCode() != unsupported || !strings.Contains(text, "let this host reach the registry") {
		t.Errorf("without the registry: %v\n%s", err, text)
	}
}
