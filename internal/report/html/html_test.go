package html_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/report"
	"github.com/windtunnel/windtunnel/internal/report/html"
)

const web = "../../../web"

func write(t *testing.T, m *report.Model) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := (html.Format{}).Write(t.Context(), &out, m); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// data returns what stands inside the data element, as a browser would read
// it: from its start tag to the first end tag.
func data(t *testing.T, page []byte) []byte {
	t.Helper()
	_, rest, ok := bytes.Cut(page, []byte(`<script type="application/json" id="data">`))
	if !ok {
		t.Fatal("the page has no data element")
	}
	inside, _, _ := bytes.Cut(rest, []byte("</script"))
	if bytes.HasPrefix(inside, []byte("{")) {
		return inside
	}
	zip, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(inside)))
	if err != nil {
		t.Fatalf("the data is neither JSON nor gzip: %v", err)
	}
	plain, err := io.ReadAll(zip)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

func fixture(t *testing.T) *report.Model {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(web, "test/fixtures/example.json"))
	if err != nil {
		t.Fatal(err)
	}
	m := new(report.Model)
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields()
	if err := strict.Decode(m); err != nil {
		t.Fatalf("the fixture does not fit the model: %v", err)
	}
	return m
}

func TestWriteKeepsTheModel(t *testing.T) {
	t.Parallel()
	want := fixture(t)
	got := new(report.Model)
	if err := json.Unmarshal(data(t, write(t, want)), got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the model changed on its way (-want +got):\n%s", diff)
	}
}

func TestWriteIsSafe(t *testing.T) {
	t.Parallel()
	evil := []string{
		`</script><script>alert(1)</script>`,
		`<!--<script>`,
		"line\u2028separator\u2029",
		`]]> & "quotes" '\`,
		`{{data}}`,
		"\x00\xff",
	}
	scripts := bytes.Count(bytes.ToLower(write(t, &report.Model{})), []byte("<script"))
	for _, text := range evil {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			m := &report.Model{Schema: report.ModelSchema, Name: text, Question: text, Findings: []model.Finding{{Cause: text}}}
			page := write(t, m)
			if n := bytes.Count(bytes.ToLower(page), []byte("<script")); n != scripts {
				t.Errorf("%d script elements, want %d", n, scripts)
			}
			inside := data(t, page)
			if i := bytes.IndexAny(inside, "<>&\u2028\u2029"); i >= 0 {
				t.Errorf("unescaped %q in the data", inside[i])
			}
			var got report.Model
			if err := json.Unmarshal(inside, &got); err != nil {
				t.Fatal(err)
			}
			// JSON has no invalid UTF-8: it is replaced, not passed on.
			if want := strings.ToValidUTF8(text, "\ufffd"); got.Name != want || got.Findings[0].Cause != want {
				t.Errorf("got %q, want %q", got.Name, want)
			}
		})
	}
}

// A page must hold a hundred trials, each with its latency over time.
func TestSize(t *testing.T) {
	t.Parallel()
	m := fixture(t)
	if size := len(write(t, m)); size > 900<<10 {
		t.Errorf("the page of the fixture has %d bytes", size)
	}
	if len(m.Timelines) == 0 {
		t.Fatal("the fixture has no timelines")
	}
	kept := m.Timelines
	for i := len(kept); i < 100; i++ {
		copied := kept[i%len(kept)]
		copied.Trial = i
		// Real trials differ: a copy would compress too well.
		copied.MeanSecond, copied.MaxSecond = varied(copied.MeanSecond, i), varied(copied.MaxSecond, i)
		m.Timelines = append(m.Timelines, copied)
	}
	if size := len(write(t, m)); size > 1500<<10 {
		t.Errorf("the page of a hundred trials has %d bytes", size)
	}
}

func varied(xs []float64, by int) []float64 {
	out := make([]float64, len(xs))
	for i, x := range xs {
		out[i] = x * (1 + math.Sin(float64(i*by))/10)
	}
	return out
}

func TestWriteFails(t *testing.T) {
	t.Parallel()
	m := &report.Model{Run: report.Run{TookSeconds: math.NaN()}}
	if err := (html.Format{}).Write(t.Context(), io.Discard, m); err == nil {
		t.Error("no error for a model that JSON cannot say")
	}
	broken := errors.New("disk full")
	if err := (html.Format{}).Write(t.Context(), failing{broken}, &report.Model{}); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

var _ report.Format = html.Format{}
