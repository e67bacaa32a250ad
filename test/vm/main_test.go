package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestRelay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		said, want string
		code       int
		ended      bool
	}{
		"passed":            {"PASS\r\nvmrun: exit status 0\r\n", "PASS\n", 0, true},
		"failed":            {"FAIL\r\nvmrun: exit status 1\r\n", "FAIL\n", 1, true},
		"on the same line":  {"no newlinevmrun: exit status 2\r\n", "no newline", 2, true},
		"garbled":           {"vmrun: exit status \r\n", "", broken, true},
		"it never ended":    {"=== RUN\r\n", "=== RUN\n", 0, false},
		"cut in the middle": {"=== RU", "=== RU", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			code, ended := relay(&out, strings.NewReader(c.said))
			if out.String() != c.want || code != c.code || ended != c.ended {
				t.Errorf("%q, %d, %v; want %+v", out.String(), code, ended, c)
			}
		})
	}
}

func TestParseInfo(t *testing.T) {
	t.Parallel()
	info := "license=GPL\x00depends=udp_tunnel,ip6-udp_tunnel\x00softdep=pre: crc32c post: late\x00softdep=post: later\x00depends=\x00"
	if got, want := parseInfo([]byte(info)), []string{"udp_tunnel", "ip6-udp_tunnel", "crc32c"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// What is written is what a reader of cpio archives finds.
func TestArchive(t *testing.T) {
	t.Parallel()
	cpio, err := exec.LookPath("cpio")
	busy := busybox()
	argv := []string{cpio, "-idm", "--quiet"}
	if err != nil {
		if argv = []string{busy, "cpio", "-idm"}; exec.CommandContext(t.Context(), busy, "true").Run() != nil {
			t.Skip("neither cpio nor busybox")
		}
	}
	var out bytes.Buffer
	a := &archive{w: &out, made: map[string]bool{}}
	files := map[string]string{"/a/b/one": "1", "/a/two": "22", "/a/b/c/none": "", "/five": "55555"}
	for path, text := range files {
		a.file(path, []byte(text))
	}
	from := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(from, "in"), 0o700), os.WriteFile(filepath.Join(from, "in", "it"), []byte("666666"), 0o600)); err != nil {
		t.Fatal(err)
	}
	a.tree("/there", from)
	a.tree("/nowhere", filepath.Join(from, "none"))
	files["/there/in/it"] = "666666"
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdin = dir, &out
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	for path, text := range files {
		got, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil || string(got) != text {
			t.Errorf("%s holds %q, want %q: %v", path, got, text, err)
		}
	}
}

func TestFindKernelSaysHowToGetOne(t *testing.T) {
	t.Parallel()
	if _, err := findKernel(t.TempDir()); err == nil || !strings.Contains(err.Error(), "get-kernel") {
		t.Errorf("got %v", err)
	}
}
