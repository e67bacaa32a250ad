package runner

import (
	"testing"

	"github.com/windtunnel/windtunnel/internal/model"
)

func TestThin(t *testing.T) {
	t.Parallel()
	series := func(subject string, n int, grows bool) model.Series {
		s := model.Series{Subject: subject, Metric: "m"}
		for i := range n {
			s.At = append(s.At, int64(i))
			v := 0.0
			if grows {
				v = float64(i)
			}
			s.Values = append(s.Values, v)
		}
		return s
	}
	for _, test := range []struct {
		name  string
		in    model.Series
		least int
		most  int
	}{
		{"a component's readings all stay", series("client/app", 1000, true), 1000, 1000},
		{"few stay", series("device:pod client eth0", 5, true), 5, 5},
		{"many are thinned", series("device:pod client eth0", 1000, true), mostTraffic / 2, mostTraffic + 2},
		{"a counter that stands still", series("stack:pod client", 1000, false), 2, 2},
	} {
		got := thin(test.in)
		if n := len(got.At); n < test.least || n > test.most || n != len(got.Values) {
			t.Errorf("%s: %d readings stay", test.name, n)
		}
		if first, last := got.At[0], got.At[len(got.At)-1]; first != 0 || last != test.in.At[len(test.in.At)-1] {
			t.Errorf("%s: the edges are %d and %d", test.name, first, last)
		}
		if test.most > 2 && got.At[1] != 1 {
			t.Errorf("%s: the reading at the window's start is gone", test.name)
		}
	}
}
