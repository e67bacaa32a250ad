package host

import (
	"os"
	"testing"

	"github.com/windtunnel/windtunnel/internal/model"
)

func TestParse(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("testdata/stat")
	if err != nil {
		t.Fatal(err)
	}
	got, err := parse(b)
	if want := (stat{steal: 0.4, busy: 1.6, softIRQ: 0.05, running: 3}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// What cannot be read must not look like a quiet host.
func TestNonsenseIsNoZero(t *testing.T) {
	t.Parallel()
	for _, b := range []string{"", "cpu 1 2 3\nprocs_running 1\n", "cpu 1 2 3 4 5 6 7 x\nprocs_running 1\n", "cpu 1 2 3 4 5 6 7 8\n"} {
		if got, err := parse([]byte(b)); err == nil {
			t.Errorf("%q is %+v", b, got)
		}
	}
}

func TestSampleThisHost(t *testing.T) {
	t.Parallel()
	readings, err := Sampler{}.Sample(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range readings {
		if r.Subject != model.SubjectHost || r.At == 0 {
			t.Errorf("%+v", r)
		}
		if r.Metric != model.SampleSteal && r.Metric != model.SampleSoftIRQ && r.Value <= 0 { // this test itself runs
			t.Errorf("%s is %v", r.Metric, r.Value)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("cpu  100 0 50 1000 20 5 5 40 0 0\nprocs_running 1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := parse(b); err == nil && (s.busy < 0 || s.steal < 0 || s.running < 0) {
			t.Errorf("%+v", s)
		}
	})
}
