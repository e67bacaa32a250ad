package iperf3

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/ingesttest"
)

func TestStream(t *testing.T) {
	t.Parallel()
	for name, direction := range map[string]string{"tcp.json": "up", "reverse.json": "down", "bidir.json": "both"} {
		s := ingesttest.Result(t, Read, name, ingest.About{}).Stream
		if s.Direction != direction || (s.Up > 0) != (direction != "down") || (s.Down > 0) != (direction != "up") || len(s.Intervals) != 2 || s.Block != 131072 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestDatagrams(t *testing.T) {
	t.Parallel()
	out := ingesttest.Result(t, Read, "udp.json", ingest.About{})
	d := out.Datagrams
	if d.Size != 1000 || d.Sent < 400 || d.Received+d.Lost != d.Sent || len(d.Intervals) != 2 || out.Elapsed < 900*time.Millisecond {
		t.Errorf("%+v", d)
	}
}

func TestBad(t *testing.T) {
	t.Parallel()
	refused, err := os.ReadFile("testdata/refused.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "{}", string(refused), `{"start":{"test_start":{"protocol":"TCP"}}}`, `{"start":{"test_start":{"protocol":"UDP"}},"end":{"sum":{"lost_packets":2,"packets":1}}}`} {
		if _, err := Read(strings.NewReader(text), ingest.About{}); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

func FuzzRead(f *testing.F) { ingesttest.FuzzResult(f, Read) }
