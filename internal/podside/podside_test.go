package podside

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// log is a buffer that a process and a test may use at a time.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

type ran struct {
	code int
	err  error
}

func begin(t *testing.T, j Job) (in *io.PipeWriter, out *bufio.Reader, errors *log, done chan ran) {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	errors, done = &log{}, make(chan ran, 1)
	go func() {
		code, err := Run(t.Context(), inR, outW, errors)
		_ = outW.Close()
		done <- ran{code, err}
	}()
	line, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = inW.Write(append(line, '\n')); err != nil {
		t.Fatal(err)
	}
	return inW, bufio.NewReader(outR), errors, done
}

func started(t *testing.T, out *bufio.Reader) Started {
	t.Helper()
	var s Started
	line, err := out.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err = json.Unmarshal(line, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func wait(t *testing.T, done chan ran) ran {
	t.Helper()
	timer := time.NewTimer(10 * time.Second)
	defer timer.Stop()
	select {
	case r := <-done:
		return r
	case <-timer.C:
		t.Fatal("the process goes on")
		return ran{}
	}
}

func TestRunPipes(t *testing.T) {
	t.Parallel()
	in, out, _, done := begin(t, Job{Command: []string{"/bin/cat"}, Piped: true})
	if s := started(t, out); s.PID == 0 || s.Error != "" {
		t.Fatalf("started: %+v", s)
	}
	if _, err := io.WriteString(in, "hello\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := out.ReadString('\n'); err != nil || line != "hello\n" {
		t.Errorf("%q, %v", line, err)
	}
	_ = in.Close() // the runner has gone
	wait(t, done)
}

func TestRunEndsWithItsInput(t *testing.T) {
	t.Parallel()
	in, out, _, done := begin(t, Job{Command: []string{"/bin/sh", "-c", "trap '' TERM; sleep 1000 & sleep 1000; sleep 1000"}})
	started(t, out)
	_ = in.Close()
	if r := wait(t, done); r.code == 0 || r.err != nil {
		t.Errorf("%+v", r)
	}
}

func TestRunWritesFilesAndTellsTheStatus(t *testing.T) {
	t.Parallel()
	_, out, errors, done := begin(t, Job{
		Command: []string{"/bin/sh", "-c", "cat {dir}/a; echo $X; ls -l {dir}/a; exit 7"}, Env: []string{"X={dir}"},
		Files: map[string][]byte{"a": []byte("in {dir}\n")},
	})
	started(t, out)
	go func() { _, _ = io.Copy(io.Discard, out) }()
	if r := wait(t, done); r.code != 7 {
		t.Errorf("%+v", r)
	}
	lines := strings.Split(errors.String(), "\n")
	dir := lines[1]
	if lines[0] != "in "+dir || !strings.HasPrefix(lines[2], "-rw-------") {
		t.Errorf("printed %q", errors)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", dir, err)
	}
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	for name, j := range map[string]Job{
		"no command": {}, "no program": {Command: []string{"/nowhere"}}, "a path": {Command: []string{"/bin/true"}, Files: map[string][]byte{"../x": nil}},
	} {
		_, out, _, done := begin(t, j)
		if s := started(t, out); s.Error == "" || s.PID != 0 {
			t.Errorf("%s: %+v", name, s)
		}
		if r := wait(t, done); r.err == nil || r.code == 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := Probe(strings.NewReader("\n\n"), &out, "v1"); err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(&out)
	var h Hello
	var a, b Reading
	if err := d.Decode(&h); err != nil || h.Version != "v1" || h.Kernel == "" || h.CPUs < 1 {
		t.Errorf("%+v, %v", h, err)
	}
	if d.Decode(&a) != nil || d.Decode(&b) != nil || b.Monotonic <= a.Monotonic || b.Wall < a.Wall {
		t.Errorf("%+v, then %+v", a, b)
	}
}

func TestGroupsOfBothVersions(t *testing.T) {
	t.Parallel()
	want := Reading{CPU: 2.5, Throttled: 0.75, Periods: 3, Memory: 4096}
	for version, files := range map[string]map[string]string{
		"v2": {"cpu.stat": "usage_usec 2500000\nnr_throttled 3\nthrottled_usec 750000\n", "memory.current": "4096\n"},
		"v1": {
			"cpuacct/cpuacct.usage": "2500000000\n", "cpu/cpu.stat": "nr_periods 9\nnr_throttled 3\nthrottled_time 750000000\n",
			"memory/memory.usage_in_bytes": "4096\n",
		},
	} {
		base := t.TempDir()
		for name, text := range files {
			path := filepath.Join(base, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		g, err := findGroup(base)
		if diff := cmp.Diff(want, g.read()); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", version, err, diff)
		}
	}
	if _, err := findGroup(t.TempDir()); err == nil {
		t.Error("a group where there is none")
	}
}

// A proxy's admin interface is asked on the pod's own loopback, and nothing else.
func TestGet(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/config_dump" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte("{}"))
	}))
	t.Cleanup(server.Close)
	var out bytes.Buffer
	if err := Get(t.Context(), server.URL+"/config_dump", &out); err != nil || out.String() != "{}" {
		t.Errorf("%q, %v", out.String(), err)
	}
	for address, want := range map[string]string{
		server.URL + "/other":  "404",
		"http://192.0.2.1/":    "only http://127.0.0.1 is asked",
		"https://127.0.0.1/":   "only http://127.0.0.1 is asked",
		"http://localhost/":    "only http://127.0.0.1 is asked",
		"http://127.0.0.1:1/x": "asking the proxy",
		"http://[":             "reading the address",
	} {
		if err := Get(t.Context(), address, &out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
}

func TestSignal(t *testing.T) {
	t.Parallel()
	_, out, _, done := begin(t, Job{Command: []string{"/bin/sleep", "1000"}})
	pid := strconv.Itoa(started(t, out).PID)
	for _, name := range []string{"stop", "continue", "kill"} {
		if err := Signal(t.Context(), pid, name); err != nil {
			t.Error(err)
		}
	}
	if r := wait(t, done); r.code == 0 {
		t.Errorf("%+v", r)
	}
	for _, bad := range [][2]string{{"1", "kill"}, {"-1", "kill"}, {"x", "kill"}, {pid, "hup"}} {
		if err := Signal(t.Context(), bad[0], bad[1]); err == nil {
			t.Errorf("%v is no error", bad)
		}
	}
}
