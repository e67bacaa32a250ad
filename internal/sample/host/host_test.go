package host

import "testing"

func TestParse(t *testing.T) {
	t.Parallel()
	got := parse([]byte("cpu  100 0 50 1000 20 5 5 40 0 0\ncpu0 1 1 1 1 1 1 1 1 1 1\nprocs_running 3\nprocs_blocked 0\n"))
	if want := (stat{steal: 0.4, busy: 1.6, running: 3}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("cpu  100 0 50 1000 20 5 5 40 0 0\n"))
	f.Fuzz(func(_ *testing.T, b []byte) { parse(b) })
}
