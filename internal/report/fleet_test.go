package report_test

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/report"
	"github.com/windtunnel/windtunnel/internal/report/markdown"
	"github.com/windtunnel/windtunnel/internal/report/text"
)

// A fleet's cores are CPU per 1,000 requests times its rate, and its memory is one
// sidecar's times its pods, both with the measured interval.
func TestFleet(t *testing.T) {
	t.Parallel()
	s := testStudy(6)
	s.Fleet = &model.Fleet{Pods: 2000, Rate: 50_000}
	m := buildStudy(t, s, func(o *model.Outcome) {
		if o.Trial.Variant == "envoy" {
			for _, pod := range []string{"server-0", "client"} {
				o.Samples = append(o.Samples, model.Series{Subject: pod + "/sidecar", Metric: model.SampleMemory, At: []int64{o.Window.Start, o.Window.End}, Values: []float64{40 << 20, 50 << 20}})
			}
		}
	})
	if len(m.Fleet.Costs) != 4 {
		t.Fatalf("%d costs", len(m.Fleet.Costs))
	}
	for _, c := range m.Fleet.Costs {
		cell := m.Cell(c.Variant, c.Load, "cpu.total")
		if got, want := c.Cores.Lo, cell.Estimate.Lo*50; math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: at least %g cores, want %g", c.Variant, got, want)
		}
		if (c.Memory != nil) != (c.Variant == "envoy") || (c.ExtraCores != nil) != (c.Variant != "direct") {
			t.Errorf("%s: memory %v, extra %v", c.Variant, c.Memory, c.ExtraCores)
		}
		if c.Memory != nil && c.Memory.Value != 2000*(50<<20) {
			t.Errorf("%g bytes", c.Memory.Value)
		}
	}
	for _, f := range []report.Format{text.Format{}, markdown.Format{}} {
		var out bytes.Buffer
		if err := f.Write(t.Context(), &out, m); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"What it costs you", "2,000 pods that get 50,000 requests/s", "97.7 GiB", "of 2 sidecars here", "is up to 50.0 times that"} {
			if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), want) {
				t.Errorf("%T does not say %q:\n%s", f, want, out.String())
			}
		}
	}
}

func TestFleetOfNothing(t *testing.T) {
	t.Parallel()
	s := testStudy(6)
	s.Fleet = &model.Fleet{Pods: 10, Rate: 100}
	m := buildStudy(t, s, func(o *model.Outcome) {
		o.Samples, o.Unavailable = nil, []string{"no control groups here"}
		o.Load.Elapsed = 2 * time.Second
	})
	if len(m.Fleet.Costs) != 0 || len(m.Fleet.Assumed) != 1 || len(report.FleetTable(m).Rows) != 0 {
		t.Errorf("%+v", m.Fleet)
	}
	if build(t, 6, nil).Fleet != nil {
		t.Error("a fleet that no study asks for")
	}
}
