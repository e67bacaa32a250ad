package ping

import (
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/ingesttest"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestRead(t *testing.T) {
	t.Parallel()
	out := ingesttest.Result(t, Read, "ping.txt", ingest.About{})
	if out.Due != 3 || out.Succeeded != 3 || out.Service.Count() != 3 || out.Response.Count() != 0 || out.Elapsed < 500*time.Millisecond {
		t.Errorf("%+v", out)
	}
}

func TestLoss(t *testing.T) {
	t.Parallel()
	const text = `PING 10.0.0.1 (10.0.0.1) 56(84) bytes of data.
[1795272881.660291] 64 bytes from 10.0.0.1: icmp_seq=1 ttl=64 time=0.108 ms
[1795272881.660391] 64 bytes from 10.0.0.1: icmp_seq=1 ttl=64 time=0.208 ms (DUP!)
From 10.0.0.2 icmp_seq=2 Destination Host Unreachable

--- 10.0.0.1 ping statistics ---
3 packets transmitted, 1 received, +1 duplicates, 66.6667% packet loss, time 405ms
`
	out, err := Read(strings.NewReader(text), ingest.About{})
	if err != nil || out.Due != 3 || out.Succeeded != 1 || out.Failed[model.CauseTimeout] != 2 {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestBad(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "garbage", "PING x\n", "PING x\n[a.b] 64 bytes from x: icmp_seq=1 ttl=64 time=1 ms", "PING x\n64 bytes from x: icmp_seq=1 ttl=64 time=z ms",
		"PING x\nmany packets transmitted, 1 received",
	} {
		if _, err := Read(strings.NewReader(text), ingest.About{}); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

func FuzzRead(f *testing.F) { ingesttest.FuzzResult(f, Read) }
