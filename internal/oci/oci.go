// Package oci gets programs out of OCI images, without a container engine: one
// file of an image is put into a folder of the user's, by the image's digest,
// and run on this host's own libraries.
package oci

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Source names a program in an image, as studies do.
type Source struct {
	// Image is where the program is: registry/name@sha256:..., or with a tag,
	// whose digest is then recorded.
	Image string `json:"image,omitempty"`
	// ImagePath is the program's path in the image.
	ImagePath string `json:"image_path,omitempty"`
}

// Problems are all that is wrong with it. Nothing at all is no problem.
func (s Source) Problems() error {
	var errs []error
	bad := func(key, format string, a ...any) {
		errs = append(errs, &model.ConfigError{Key: key, Text: fmt.Sprintf(format, a...)})
	}
	switch {
	case s.Image == "" && s.ImagePath != "":
		bad("image_path", "is of no image: set image, too")
	case s.Image != "":
		if _, err := name.ParseReference(s.Image); err != nil {
			bad("image", "is %q, which names no image: %v", s.Image, err)
		}
		if !path.IsAbs(s.ImagePath) || path.Clean(s.ImagePath) == "/" {
			bad("image_path", "is %q; it must be the program's absolute path in the image", s.ImagePath)
		}
	}
	return errors.Join(errs...)
}

// Program is a file of an image on this host.
type Program struct {
	Path   string // on this host
	Image  string // with the digest that the registry knows it by
	Digest string // of the file itself, "sha256:..."
}

// Facts are what a run's ledger says of it; nothing of one that is of no image.
func (p Program) Facts(layer string) model.Ledger {
	if p.Image == "" {
		return nil
	}
	return model.Ledger{
		{Layer: layer, Key: model.FactImage, Value: p.Image, Source: model.SourceProgram},
		{Layer: layer, Key: model.FactDigest, Value: p.Digest, Source: model.SourceProgram},
	}
}

// Cache is the folder where programs are kept.
type Cache struct {
	Dir string
	// Offline asks no registry: inside the lab there is no network to ask it by.
	// What is wanted has been got before, outside.
	Offline bool
}

// Usual is the user's cache.
func Usual() (Cache, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return Cache{}, fmt.Errorf("looking for a folder to keep programs of images in: %w (set $XDG_CACHE_HOME or $HOME)", err)
	}
	alone, err := alone()
	return Cache{Dir: filepath.Join(dir, "windtunnel", "images"), Offline: alone}, err
}

// alone says whether this process is where no registry can be: process 1 of a
// place that has no network but loopback, as the lab is to its runner.
func alone() (bool, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return false, fmt.Errorf("looking for a network to get images by: %w", err)
	}
	beyond := func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && !n.IP.IsLoopback()
	}
	return os.Getpid() == 1 && !slices.ContainsFunc(addrs, beyond), nil
}

// patience is how long an image may take to arrive.
const patience = 10 * time.Minute

// Get returns the program, from the cache if it is there. An image by its digest
// is then not asked for; one by a tag is, as the tag may have moved.
func (c Cache) Get(ctx context.Context, s Source) (Program, error) {
	if err := errors.Join(c.usable(), s.Problems()); err != nil {
		return Program{}, err
	}
	ref, err := name.ParseReference(s.Image)
	if err != nil {
		return Program{}, fmt.Errorf("reading the image's name %q: %w", s.Image, err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pinned, err := c.resolve(ctx, ref)
	if err != nil {
		return Program{}, unsupported(s, err)
	}
	kept, err := c.kept(pinned, s.ImagePath)
	switch {
	case err == nil:
		return kept, nil
	case c.Offline:
		return Program{}, unsupported(s, err)
	}
	if kept, err = c.pull(ctx, pinned, s.ImagePath); err != nil {
		return Program{}, unsupported(s, err)
	}
	return kept, nil
}

func unsupported(s Source, err error) error {
	return &model.UnsupportedError{
		What: "the program " + s.ImagePath + " of the image " + s.Image, Missing: err.Error(),
		Hint: "let this host reach the registry, without signing in; or set path to a program that is here",
	}
}

func (c Cache) usable() error {
	if !filepath.IsAbs(c.Dir) {
		return fmt.Errorf("the folder for programs of images is %q, which is not an absolute path", c.Dir)
	}
	return nil
}

// resolve says which digest a name has now; offline, which it had when it was
// asked for last.
func (c Cache) resolve(ctx context.Context, ref name.Reference) (name.Digest, error) {
	if pinned, ok := ref.(name.Digest); ok {
		return pinned, nil
	}
	note := filepath.Join(c.Dir, "names", hash(ref.Name()))
	if c.Offline {
		text, err := os.ReadFile(note) //nolint:gosec // in the cache, under a digest
		if err != nil {
			return name.Digest{}, fmt.Errorf("its digest has not been asked for from outside the lab: %w", err)
		}
		return name.NewDigest(ref.Context().Name() + "@" + string(text))
	}
	found, err := remote.Head(ref, remote.WithContext(ctx))
	if err != nil {
		return name.Digest{}, fmt.Errorf("asking %s: %w", ref.Context().RegistryStr(), err)
	}
	if err := write(note, []byte(found.Digest.String())); err != nil {
		return name.Digest{}, fmt.Errorf("noting its digest: %w", err)
	}
	return ref.Context().Digest(found.Digest.String()), nil
}

// place is where a program of an image is kept: every image has a folder, by its
// digest, and every program in it another, with its own name and its digest.
func (c Cache) place(image name.Digest, inside string) string {
	return filepath.Join(c.Dir, strings.ReplaceAll(image.DigestStr(), ":", "-")+"-"+runtime.GOARCH, hash(path.Clean(inside)))
}

const (
	programFile = "program"
	digestFile  = "digest"
)

// kept returns a program that is there, if it still is what was got.
func (c Cache) kept(image name.Digest, inside string) (Program, error) {
	dir := c.place(image, inside)
	want, err := os.ReadFile(filepath.Join(dir, digestFile)) //nolint:gosec // in the cache, under digests
	if err != nil {
		return Program{}, fmt.Errorf("it is not in the cache: %w", err)
	}
	p := Program{Path: filepath.Join(dir, programFile), Image: image.Name(), Digest: string(want)}
	f, err := os.Open(p.Path)
	if err != nil {
		return Program{}, fmt.Errorf("it is not in the cache: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return Program{}, fmt.Errorf("reading it from the cache: %w", err)
	}
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); got != p.Digest {
		return Program{}, fmt.Errorf("%s is not what was got from the image: its digest is %s", p.Path, got)
	}
	return p, nil
}

// pull gets a program from the registry into the cache. Everything that the
// registry sends is checked against the image's digest.
func (c Cache) pull(ctx context.Context, ref name.Digest, inside string) (p Program, err error) {
	platform := v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
	img, err := remote.Image(ref, remote.WithContext(ctx), remote.WithPlatform(platform))
	if err != nil {
		return p, fmt.Errorf("asking %s: %w", ref.Context().RegistryStr(), err)
	}
	layers, err := img.Layers()
	if err != nil {
		return p, fmt.Errorf("reading what it is made of: %w", err)
	}
	opened := make([]opener, 0, len(layers))
	for _, l := range layers {
		opened = append(opened, l.Uncompressed)
	}
	return c.keep(ref, inside, opened)
}

// keep puts a program of layers into its place, whole or not at all.
func (c Cache) keep(ref name.Digest, inside string, layers []opener) (p Program, err error) {
	dir := c.place(ref, inside)
	if err = os.MkdirAll(dir, private); err != nil {
		return p, fmt.Errorf("making a place for it: %w", err)
	}
	f, err := os.CreateTemp(dir, programFile+"-")
	if err != nil {
		return p, fmt.Errorf("making a place for it: %w", err)
	}
	defer func() { err = errors.Join(err, gone(f.Name())) }()
	sum := sha256.New()
	err = errors.Join(extract(io.MultiWriter(f, sum), layers, inside, usual()), f.Chmod(private), f.Close())
	if err != nil {
		return p, err
	}
	p = Program{Path: filepath.Join(dir, programFile), Image: ref.Name(), Digest: "sha256:" + hex.EncodeToString(sum.Sum(nil))}
	// A program without its digest is not taken for one.
	if err = errors.Join(gone(filepath.Join(dir, digestFile)), os.Rename(f.Name(), p.Path)); err != nil {
		return p, fmt.Errorf("putting it into its place: %w", err)
	}
	return p, write(filepath.Join(dir, digestFile), []byte(p.Digest))
}

// private is the mode of folders and programs: they are the user's alone.
const private = 0o700

// gone removes a file that need not be there.
func gone(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// write makes a small file appear whole.
func write(file string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), private); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".new-")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return errors.Join(err, gone(f.Name()))
	}
	return nil
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
