package delay

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestRules(t *testing.T) {
	t.Parallel()
	var got []string
	for _, r := range (Link{A: "a", B: "b"}).Rules() {
		got = append(got, strings.Join(r, " "))
	}
	const want = "-A FORWARD -i a -o b -j NFQUEUE --queue-num 1; -A FORWARD -i b -o a -j NFQUEUE --queue-num 2"
	if all := strings.Join(got, "; "); all != want {
		t.Errorf("%s\nwant\n%s", all, want)
	}
}

// The words are those of the delay line: internal/sys/wan of the main module.
func TestLines(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal(Link{"a", "b", 40 * time.Millisecond}.Lines())
	const want = `[{"name":"a\u003eb","queue":1,"seed":1,"settings":{"delay_ns":40000000}},` +
		`{"name":"b\u003ea","queue":2,"seed":2,"settings":{"delay_ns":40000000}}]`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
}

// A delay line that cannot work says why, and no rule is left that would stop
// all packets.
func TestDelayLineThatFails(t *testing.T) {
	t.Parallel()
	for says, script := range map[string]string{
		"the delay line: no queue":    `read lines; echo '{"error":"no queue"}'; cat >/dev/null`,
		"waiting for the delay line":  `read lines; exit 3`,
		"starting the delay line /no": "",
	} {
		command := []string{"/bin/sh", "-c", script}
		if script == "" {
			command = []string{"/nowhere/windtunnel", "delay-line"}
		}
		r, err := Start(t.Context(), Link{"a", "b", time.Millisecond}, command...)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, %v", says, r, err)
		}
	}
}
