package study

import "fmt"

// SplitCondition takes a condition such as "response.p99 < 20ms" apart: its
// metric, one of < <= > >=, and its value.
func SplitCondition(text string) (metric, op, value string, err error) {
	m := regexGate.FindStringSubmatch(text)
	if m == nil {
		return "", "", "", fmt.Errorf("%q is not a condition: write a metric, one of < <= > >=, and a value, such as p99<20ms", text)
	}
	return m[1], m[2], m[3], nil
}

// ParseMetric reads a value as a metric is compared with it: seconds, share,
// bytes, requests or bits per second.
func ParseMetric(metric, value string) (float64, error) { return gateValue(metric, value) }

// ParseTimes reads when requests are due, one time a line, with a unit or in
// seconds, ascending.
func ParseTimes(text string) (Times, error) {
	var t Times
	err := t.parse(text)
	return t, err
}
