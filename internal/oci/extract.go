package oci

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"strings"
)

// opener opens a layer's archive, uncompressed.
type opener func() (io.ReadCloser, error)

// limits bound what an image may make this host do.
type limits struct {
	bytes   int64 // of all layers, uncompressed
	program int64 // bytes of the program
	entries int   // of all layers
	links   int   // followed on the way to the program
}

func usual() limits { return limits{bytes: 8 << 30, program: 1 << 30, entries: 1 << 20, links: 40} }

// entry is what an image's file system has at a path.
type entry struct {
	layer int
	place int // among the layer's entries
	kind  byte
	link  string // of symbolic links their target, of hard links the path
	size  int64
}

// tree is an image's file system, by absolute clean path: only what is in it,
// nothing of it is made real on this host.
type tree map[string]entry

// extract copies one file of an image. Links are followed within the image: "/"
// and ".." never lead out of it. Nothing but the file's own bytes comes from the
// image; where they go is the caller's.
func extract(to io.Writer, layers []opener, inside string, most limits) error {
	all, err := index(layers, most)
	if err != nil {
		return err
	}
	at, e, err := all.find(inside, most.links)
	if err != nil {
		return err
	}
	if e.size > most.program {
		return fmt.Errorf("%s has %d bytes, and programs of up to %d are taken", at, e.size, most.program)
	}
	found, place := false, 0
	err = read(layers[e.layer], most.bytes, func(name string, h *tar.Header, body io.Reader) error {
		if place++; place != e.place || name != at || h.Typeflag != tar.TypeReg {
			return nil
		}
		found = true
		n, failure := io.Copy(to, io.LimitReader(body, most.program))
		if failure == nil && n != e.size {
			failure = fmt.Errorf("it has %d bytes, not %d", n, e.size)
		}
		return failure
	})
	if err == nil && !found {
		err = errors.New("the layer has changed while it was read")
	}
	if err != nil {
		return fmt.Errorf("copying %s: %w", at, err)
	}
	return nil
}

// Names with which a layer takes away what is below it.
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// index reads all layers, the lowest first, and puts each over those before it.
func index(layers []opener, most limits) (tree, error) {
	all, entries, left := tree{}, 0, most.bytes
	for i, open := range layers {
		above, hidden, place := tree{}, hides{}, 0
		err := read(open, left, func(name string, h *tar.Header, _ io.Reader) error {
			place++
			if entries++; entries > most.entries {
				return fmt.Errorf("it has more than %d files", most.entries)
			}
			if left -= h.Size; left < 0 {
				return fmt.Errorf("it has more than %d bytes", most.bytes)
			}
			if hidden.marks(name) {
				return nil
			}
			above[name] = entry{layer: i, place: place, kind: h.Typeflag, link: h.Linkname, size: h.Size}
			if h.Typeflag != tar.TypeDir {
				hidden[name] = true // what was a folder is one no more
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("reading the image's files: %w", err)
		}
		maps.DeleteFunc(all, func(name string, _ entry) bool { return hidden.hide(name) })
		maps.Copy(all, above)
	}
	return all, nil
}

// hides are what a layer takes away of those below it: true, a path and all
// below it; false, only what is below it.
type hides map[string]bool

// marks notes what a layer's entry takes away, if that is what it is for.
func (h hides) marks(name string) bool {
	dir, base := path.Split(name)
	switch {
	case base == opaque:
		if dir = path.Clean(dir); !h[dir] {
			h[dir] = false
		}
	case strings.HasPrefix(base, whiteout):
		h[path.Join(dir, strings.TrimPrefix(base, whiteout))] = true
	default:
		return false
	}
	return true
}

// hide says whether a path is taken away.
func (h hides) hide(name string) bool {
	if h[name] {
		return true
	}
	for at := name; at != "/"; {
		at = path.Dir(at)
		if _, known := h[at]; known {
			return true
		}
	}
	return false
}

// read visits all entries of an archive, and then reads what is left, so that
// its digest is checked.
func read(open opener, most int64, visit func(name string, h *tar.Header, body io.Reader) error) (err error) {
	layer, err := open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, layer.Close()) }()
	// Headers and padding are of no account: they are less than a file and its name.
	const spare = 64 << 20
	bounded := &io.LimitedReader{R: layer, N: 2*most + spare}
	archive := tar.NewReader(bounded)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = visit(path.Clean("/"+h.Name), h, archive)
		}
		if err != nil {
			return err
		}
	}
	if _, err := io.Copy(io.Discard, bounded); err != nil {
		return err
	}
	if bounded.N == 0 {
		return errors.New("a layer is too large")
	}
	return nil
}

// find follows links from a path to a file.
func (t tree) find(inside string, links int) (at string, e entry, err error) {
	at = "/"
	rest := strings.Split(path.Clean("/"+inside), "/")
	for len(rest) > 0 {
		switch part := rest[0]; part {
		case "", ".":
		case "..":
			at = path.Dir(at)
		default:
			at = path.Join(at, part)
		}
		rest = rest[1:]
		if e = t[at]; e.kind != tar.TypeSymlink && e.kind != tar.TypeLink {
			continue
		}
		if links--; links < 0 {
			return at, e, fmt.Errorf("too many links lead to %s", inside)
		}
		var target string
		at, target = follow(at, e)
		rest = append(strings.Split(target, "/"), rest...)
	}
	e, known := t[at]
	switch {
	case !known && at != "/":
		return at, e, fmt.Errorf("it has no %s", at)
	case e.kind != tar.TypeReg:
		return at, e, fmt.Errorf("%s is no ordinary file of it", at)
	}
	return at, e, nil
}

// follow says from where a link goes on, and what comes then. Hard links name a
// path from the root.
func follow(at string, link entry) (from, target string) {
	if link.kind == tar.TypeLink || path.IsAbs(link.link) {
		return "/", link.link
	}
	return path.Dir(at), link.link
}
