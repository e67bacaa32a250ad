package lab

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/test/kubelab/internal/build"
	"github.com/windtunnel/windtunnel/test/kubelab/internal/plan"
)

func TestSysctlsAreSavedOnceABoot(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sysctls.json")
	if err := saveSysctls(path); err != nil {
		t.Fatal(err)
	}
	first, err := readSysctls(path)
	if err != nil || first.Values["kernel/panic"] == "" {
		t.Fatalf("%+v, %v", first, err)
	}
	keep := saved{Boot: first.Boot, Values: map[string]string{"kernel/panic": "42"}}
	writeJSON(t, path, keep)
	if err := saveSysctls(path); err != nil {
		t.Fatal(err)
	}
	if got, err := readSysctls(path); err != nil || !reflect.DeepEqual(got, keep) {
		t.Errorf("saved again in the same boot: %+v, %v", got, err)
	}
	writeJSON(t, path, saved{Boot: "another", Values: map[string]string{"kernel/panic": "42"}})
	if err := restoreSysctls(path); err != nil {
		t.Errorf("values of another boot are left alone: %v", err)
	}
	if now, err := os.ReadFile("/proc/sys/kernel/panic"); err != nil || strings.TrimSpace(string(now)) == "42" {
		t.Errorf("kernel/panic is %s, %v", now, err)
	}
	if err := saveSysctls(path); err != nil {
		t.Fatal(err)
	}
	if got, err := readSysctls(path); err != nil || !reflect.DeepEqual(got, first) {
		t.Errorf("saved again in another boot: %+v, %v", got, err)
	}
}

func writeJSON(t *testing.T, path string, v any) {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestRecord(t *testing.T) {
	t.Parallel()
	l := Lab{Name: "x", State: t.TempDir(), Log: slog.New(slog.DiscardHandler)}
	if _, err := l.read(); err == nil || !strings.Contains(err.Error(), "kubelab up") {
		t.Errorf("without a lab: %v", err)
	}
	p, err := plan.New("x", []int{2, 1})
	if err != nil {
		t.Fatal(err)
	}
	want := record{p, build.Result{Bin: "/bin", Images: "/images"}}
	if err := l.write(want); err != nil {
		t.Fatal(err)
	}
	// An up compares what it wants with what was written.
	if got, err := l.read(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, %v; want %+v", got, err, want)
	}
}

func TestLock(t *testing.T) {
	t.Parallel()
	l := Lab{Name: "x", State: t.TempDir(), Log: slog.New(slog.DiscardHandler)}
	unlock, err := l.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err = l.lock(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a second lock: %v", err)
	}
	unlock()
	again, err := l.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again()
}

// TestLeftNothing has a name that no lab has.
func TestLeftNothing(t *testing.T) {
	t.Parallel()
	l := Lab{Name: "nosuchlab", State: filepath.Join(t.TempDir(), "none"), Log: slog.New(slog.DiscardHandler)}
	if left, err := l.Left(); err != nil || left != nil {
		t.Errorf("left: %q, %v", left, err)
	}
}

func TestCoreDNSHasItsAddress(t *testing.T) {
	t.Parallel()
	if strings.Count(coreDNS, "@DNS@") != 1 {
		t.Error("the address is not there to be replaced")
	}
}
