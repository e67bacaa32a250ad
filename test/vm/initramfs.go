package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// initramfs writes the guest's files: this program, busybox, the test binary
// with the folder testdata beside it, the modules, and what to do.
func initramfs(w io.Writer, k kernel, argv []string) error {
	modules, err := k.closure(wanted())
	if err != nil {
		return err
	}
	b := bufio.NewWriter(w)
	a := &archive{w: b, made: map[string]bool{}}
	j := job{Argv: append([]string{testFile}, argv[1:]...), Dir: packageDir, Env: environment(os.Environ())}
	for _, m := range modules {
		j.Modules = append(j.Modules, m.name)
		a.file(filepath.Join(moduleDir, m.name), m.image)
	}
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	a.file(jobFile, text)
	a.copy("/init", "/proc/self/exe")
	a.copy("/bin/busybox", busybox())
	a.copy(testFile, argv[0])
	a.folder(packageDir)
	a.tree(filepath.Join(packageDir, "testdata"), "testdata")
	return errors.Join(a.end(), b.Flush())
}

// busybox is the host's; it must be linked statically.
func busybox() string {
	for _, path := range []string{"/bin/busybox", "/usr/bin/busybox"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return "/bin/busybox" // which a.copy then misses
}

// environment is what tests may see of the host's.
func environment(all []string) []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp"}
	for _, e := range all {
		if strings.HasPrefix(e, "WINDTUNNEL_") || strings.HasPrefix(e, "GO") {
			env = append(env, e)
		}
	}
	return env
}

// archive writes files in cpio's "newc" format, which the kernel unpacks.
type archive struct {
	w    io.Writer
	made map[string]bool // folders
	n    int             // bytes so far
	err  error
}

const (
	typeDir  = 0o40000
	typeFile = 0o100000
)

func (a *archive) entry(name string, mode int, data []byte) {
	const links = 1
	name = strings.TrimPrefix(name, "/")
	a.write(fmt.Appendf(nil, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		0, mode, 0, 0, links, 0, len(data), 0, 0, 0, 0, len(name)+1, 0))
	a.write([]byte(name + "\x00"))
	a.pad()
	a.write(data)
	a.pad()
}

func (a *archive) write(p []byte) {
	if a.err != nil {
		return
	}
	var n int
	n, a.err = a.w.Write(p)
	a.n += n
}

// pad fills up to the next multiple of four.
func (a *archive) pad() { a.write(make([]byte, -a.n&3)) }

// folder makes a folder and those above it.
func (a *archive) folder(path string) {
	if path == "/" || a.made[path] {
		return
	}
	a.folder(filepath.Dir(path))
	a.made[path] = true
	a.entry(path, typeDir|0o755, nil)
}

func (a *archive) file(path string, data []byte) {
	a.folder(filepath.Dir(path))
	a.entry(path, typeFile|0o755, data)
}

func (a *archive) copy(path, from string) {
	data, err := os.ReadFile(from)
	if err != nil {
		a.err = errors.Join(a.err, err)
		return
	}
	a.file(path, data)
}

// tree copies a folder, if there is one.
func (a *archive) tree(to, from string) {
	err := fs.WalkDir(os.DirFS(from), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case path == "." && errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case d.Type().IsRegular():
			a.copy(filepath.Join(to, path), filepath.Join(from, path))
		}
		return nil
	})
	a.err = errors.Join(a.err, err)
}

func (a *archive) end() error {
	a.entry("TRAILER!!!", 0, nil)
	return a.err
}
