package study

import "testing"

// A gate's value is read in the unit of its metric, and kept in SI units.
func TestGateValues(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		metric, text string
		want         float64
	}{
		"latency":       {"response.p99", "20ms", 0.02},
		"jitter":        {"jitter", "50us", 50e-6},
		"round trip":    {"rtt", "2ms", 2e-3},
		"rate":          {"rate", "2000/s", 2000},
		"messages":      {"messages", "10/s", 10},
		"success":       {"success", "99.9%", 0.999},
		"loss":          {"loss", "0.1%", 0.001},
		"goodput":       {"goodput", "5Gbit/s", 5e9},
		"one direction": {"goodput.down", "100Mbit/s", 1e8},
		"CPU per Gbit":  {"cpu.gbit.total", "300ms", 0.3},
		"retransmits":   {"retransmits", "12.5", 12.5},
		"recovery":      {"failover.recovered99", "500ms", 0.5},
		"failed":        {"failover.failed", "20", 20},
		"remote":        {"failover.wrong_region", "1%", 0.01},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := gateValue(tt.metric, tt.text); err != nil || got != tt.want {
				t.Errorf("%s %s: %v, %v; want %v", tt.metric, tt.text, got, err, tt.want)
			}
		})
	}
	for metric, text := range map[string]string{"loss": "0.001", "goodput": "5e9", "jitter": "5", "datagrams": "5 packets"} {
		if v, err := gateValue(metric, text); err == nil {
			t.Errorf("%s %s is read as %v", metric, text, v)
		}
	}
}
