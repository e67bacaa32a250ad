package oci

import (
	"errors"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/windtunnel/windtunnel/internal/model"
)

// hub is a registry in this process. It counts requests, and can change
// the layers that it sends.
type hub struct {
	host    string
	asked   atomic.Int64
	tampers atomic.Bool
}

func start(t *testing.T) *hub {
	t.Helper()
	h := &hub{}
	inner := registry.New(registry.Logger(log.New(t.Output(), "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.asked.Add(1)
		if h.tampers.Load() && r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
			kept := httptest.NewRecorder()
			inner.ServeHTTP(kept, r)
			body := kept.Body.Bytes()
			const time = 4 // in the header of gzip: nothing but the digest depends on it
			body[time] ^= 1
			_, _ = w.Write(body)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	h.host = strings.TrimPrefix(server.URL, "http://")
	return h
}

// push makes an image of one layer, under the tag 1, and returns its digest.
func (h *hub) push(t *testing.T, files ...string) string {
	t.Helper()
	layer, err := tarball.LayerFromOpener(tarball.Opener(layerOf(t, files...)))
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(h.host + "/mesh/proxy:1")
	if err != nil {
		t.Fatal(err)
	}
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: runtime.GOARCH}}},
		mutate.IndexAddendum{Add: empty.Image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "other"}}})
	if err = remote.WriteIndex(ref, index); err != nil {
		t.Fatal(err)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

func TestGet(t *testing.T) {
	t.Parallel()
	h := start(t)
	digest := h.push(t, "usr/lib/p=#!/bin/sh\n", "bin/p->/usr/lib/p")
	c := Cache{Dir: t.TempDir()}
	s := Source{Image: h.host + "/mesh/proxy:1", ImagePath: "/bin/p"}
	got, err := c.Get(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(got.Path)
	if err != nil || string(text) != "#!/bin/sh\n" {
		t.Errorf("it is %q, %v", text, err)
	}
	if info, err := os.Stat(got.Path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if want := h.host + "/mesh/proxy@" + digest; got.Image != want {
		t.Errorf("recorded as %s, want %s", got.Image, want)
	}
	if facts := got.Facts("x"); len(facts) != 2 || !strings.HasSuffix(facts[0].Value, digest) || !strings.HasPrefix(facts[1].Value, "sha256:") {
		t.Errorf("facts %+v", facts)
	}
	// By its digest it is asked for once; offline never.
	asked := h.asked.Load()
	pinned := Source{Image: h.host + "/mesh/proxy@" + digest, ImagePath: "/bin/p"}
	for _, offline := range []bool{false, true} {
		c.Offline = offline
		if again, err := c.Get(t.Context(), pinned); err != nil || again != got {
			t.Errorf("offline %v: %+v, %v", offline, again, err)
		}
	}
	if again, err := c.Get(t.Context(), s); err != nil || again != got {
		t.Errorf("by its tag, offline: %+v, %v", again, err)
	}
	if n := h.asked.Load() - asked; n != 0 {
		t.Errorf("%d requests for what is there", n)
	}
	// The tag moves.
	c.Offline = false
	h.push(t, "bin/p=other")
	if moved, err := c.Get(t.Context(), s); err != nil || moved.Path == got.Path || moved.Digest == got.Digest {
		t.Errorf("after the tag has moved: %+v, %v", moved, err)
	}
}

// What somebody has changed in the cache is not run.
func TestChanged(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.push(t, "p=one")
	c := Cache{Dir: t.TempDir()}
	s := Source{Image: h.host + "/mesh/proxy:1", ImagePath: "/p"}
	got, err := c.Get(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if err = os.WriteFile(got.Path, []byte("evil"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Offline = true
	if _, err = c.Get(t.Context(), s); !errors.Is(err, model.ErrUnsupported) || !strings.Contains(err.Error(), "is not what was got") {
		t.Errorf("offline: %v", err)
	}
	c.Offline = false
	if again, err := c.Get(t.Context(), s); err != nil || again != got {
		t.Errorf("not got again: %+v, %v", again, err)
	}
	if text, err := os.ReadFile(got.Path); err != nil || string(text) != "one" {
		t.Errorf("it is %q, %v", text, err)
	}
}

// Whatever goes wrong, the message says what to do and nothing half is left.
func TestRefused(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.push(t, "p=one")
	broken := start(t)
	broken.push(t, "p=one")
	broken.tampers.Store(true)
	gone := start(t)
	for what, c := range map[string]struct {
		source  Source
		offline bool
		problem string
	}{
		"no such path":       {Source{h.host + "/mesh/proxy:1", "/q"}, false, "it has no /q"},
		"no such image":      {Source{gone.host + "/mesh/proxy:1", "/p"}, false, "asking " + gone.host},
		"other bytes":        {Source{broken.host + "/mesh/proxy:1", "/p"}, false, "error verifying sha256"},
		"offline":            {Source{h.host + "/mesh/proxy:1", "/p"}, true, "has not been asked for"},
		"offline, by digest": {Source{h.host + "/mesh/proxy@sha256:" + strings.Repeat("0", 64), "/p"}, true, "not in the cache"},
	} {
		cache := Cache{Dir: filepath.Join(t.TempDir(), "cache"), Offline: c.offline}
		_, err := cache.Get(t.Context(), c.source)
		if !errors.Is(err, model.ErrUnsupported) || !strings.Contains(err.Error(), c.problem) || !strings.Contains(err.Error(), "set path") {
			t.Errorf("%s: %v", what, err)
		}
		programs, err := filepath.Glob(filepath.Join(cache.Dir, "sha256-*", "*", "*"))
		if err != nil || len(programs) > 0 {
			t.Errorf("%s has left %v, %v", what, programs, err)
		}
	}
	if _, err := (Cache{Dir: "here"}).Get(t.Context(), Source{h.host + "/mesh/proxy:1", "/p"}); err == nil {
		t.Error("a folder that moves with the working directory was taken")
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		source  Source
		problem string
	}{
		{Source{}, ""},
		{Source{"registry/x@sha256:" + strings.Repeat("a", 64), "/p"}, ""},
		{Source{"x:1", "/usr/bin/p"}, ""},
		{Source{"", "/p"}, "image_path is of no image"},
		{Source{"X Y", "/p"}, "which names no image"},
		{Source{"x@sha256:1", "/p"}, "which names no image"},
		{Source{"x:1", ""}, `image_path is ""; it must be the program's absolute path`},
		{Source{"x:1", "usr/bin/p"}, "image_path is"},
		{Source{"x:1", "/usr/.."}, "image_path is"},
	} {
		err := c.source.Problems()
		if c.problem == "" && err != nil || c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)) {
			t.Errorf("%+v: %v, want %q", c.source, err, c.problem)
		}
	}
}
