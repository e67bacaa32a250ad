package proxy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	t.Parallel()
	here := filepath.Join(t.TempDir(), "envoy")
	if err := os.WriteFile(here, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Find(here); err != nil || got != here {
		t.Errorf("got %s, %v", got, err)
	}
	_, err := Find(here + ".not")
	if err == nil || !strings.Contains(err.Error(), "make envoy") || !strings.Contains(err.Error(), here+".not") {
		t.Errorf("error %v must say where it looked and what to do", err)
	}
}
