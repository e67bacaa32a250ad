package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// echoServer starts the program's own server on a free port and returns where.
func echoServer(t *testing.T, bin string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), bin, "echo", "--listen", "127.0.0.1:0")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // the context has ended by then
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if m := regexp.MustCompile(`listens on (\S+):\s`).FindStringSubmatch(lines.Text()); m != nil {
			return m[1]
		}
	}
	t.Fatal("the echo server said nothing of where it listens")
	return ""
}

// blocks are the fenced blocks of a kind in a document.
func blocks(t *testing.T, doc, kind string) []string {
	t.Helper()
	raw, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range regexp.MustCompile("(?s)```"+kind+"\n(.*?)```").FindAllStringSubmatch(string(raw), -1) {
		all = append(all, m[1])
	}
	return all
}

// shell runs a command of the documentation, and again where the host stalled
// for so much of it that requests went unsent: thresholds are rightly missed then.
func shell(t *testing.T, dir, bin, command string) (out []byte, err error) {
	t.Helper()
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		sh := exec.CommandContext(ctx, "sh", "-c", command)
		sh.Dir, sh.Env = dir, append(os.Environ(), "PATH="+filepath.Dir(bin)+":"+os.Getenv("PATH"))
		out, err = sh.CombinedOutput()
		cancel()
		if err == nil || !strings.Contains(string(out), " unsent") {
			break
		}
	}
	return out, err
}

// Every command of docs/load.md works. They run against a server on a free port,
// each for a short time.
func TestLoadDocumentation(t *testing.T) {
	t.Parallel()
	bin := program(t)
	addr, dir := echoServer(t, bin), t.TempDir()
	n := 0
	for _, block := range blocks(t, "../../docs/load.md", "console") {
		for line := range strings.Lines(block) {
			command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ ")
			if !ok || strings.HasPrefix(command, "windtunnel echo") {
				continue
			}
			command = strings.ReplaceAll(command, "127.0.0.1:8080", addr)
			if strings.HasPrefix(command, "windtunnel load") {
				n++
				command = regexp.MustCompile(` --duration \S+`).ReplaceAllString(command, "") + " --duration 200ms"
			}
			if out, err := shell(t, dir, bin, command); err != nil {
				t.Errorf("%s: %v\n%s", command, err, out)
			}
		}
	}
	if n < 15 {
		t.Errorf("only %d loads were found in docs/load.md", n)
	}
}

// The JSON example of docs/load.md has the keys that --json prints.
func TestLoadJSONIsDocumented(t *testing.T) {
	t.Parallel()
	bin := program(t)
	out, err := exec.CommandContext(t.Context(), bin, "load", "http://"+echoServer(t, bin)+"/", "--rate", "500", "--duration", "200ms", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	documented := blocks(t, "../../docs/load.md", "json")
	if len(documented) != 1 {
		t.Fatalf("%d JSON examples in docs/load.md, want 1", len(documented))
	}
	if diff := cmp.Diff(keys(t, []byte(documented[0])), keys(t, out)); diff != "" {
		t.Errorf("keys of --json (-documented +printed):\n%s", diff)
	}
}

// keys are the paths of all keys; maps by status or name are one.
func keys(t *testing.T, raw []byte) []string {
	t.Helper()
	var v any
	if err := json.NewDecoder(bytes.NewReader(raw)).Decode(&v); err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, x := range v {
				all[path+k] = true
				if !slices.Contains([]string{"failed", "statuses", "servers"}, k) {
					walk(path+k+".", x)
				}
			}
		case []any:
			for _, x := range v {
				if path != "findings." {
					walk(path, x)
				}
			}
		}
	}
	walk("", v)
	return slices.Sorted(maps.Keys(all))
}

// TLS is verified unless the user says otherwise, and what is wrong is told
// before anything is loaded; with --no-check it is counted by cause.
func TestLoadOverTLS(t *testing.T) {
	t.Parallel()
	bin := program(t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it complains of clients that do not trust it
	server.StartTLS()
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		flags []string
		code  int
		want  string
	}{
		"verified":        {[]string{"--cacert", ca}, 0, "100 % of 20 succeeded"},
		"not verified":    {[]string{"--insecure"}, 0, "100 % of 20 succeeded"},
		"HTTP/2":          {[]string{"--cacert", ca, "--http2"}, 0, "100 % of 20 succeeded"},
		"unknown signer":  {nil, 1, "unknown authority"},
		"wrong name":      {[]string{"--cacert", ca, "--server-name", "wrong.test"}, 1, "not wrong.test"},
		"counted":         {[]string{"--no-check"}, 0, "TLS error"},
		"counted, HTTP/2": {[]string{"--no-check", "--http2"}, 0, "TLS error"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"load", server.URL, "--rate", "100", "--duration", "200ms", "-c", "20"}, tt.flags...)
			cmd := exec.CommandContext(t.Context(), bin, args...)
			out, _ := cmd.CombinedOutput() // the code is judged below
			if cmd.ProcessState.ExitCode() != tt.code || !strings.Contains(string(out), tt.want) {
				t.Errorf("exit code %d, want %d and %q in\n%s", cmd.ProcessState.ExitCode(), tt.code, tt.want, out)
			}
		})
	}
}
