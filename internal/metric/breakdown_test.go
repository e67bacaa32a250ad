package metric_test

import (
	"testing"

	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestSharesOfFew(t *testing.T) {
	t.Parallel()
	if s := metric.SharesOf(&model.Breakdown{}); s.N != 0 || s.P50.Known || s.AtMedian != 0 {
		t.Errorf("of nothing: %+v", s)
	}
	one := &model.Breakdown{Total: []int64{3000}, Traced: 1, Parts: []model.Part{
		{Kind: model.PartApp, Took: []int64{4000}}, {Kind: model.PartParallel, Took: []int64{-1000}}, {Kind: model.PartProxy, Took: []int64{model.NoTime}},
	}}
	s := metric.SharesOf(one)
	if s.AtMedian != 3e-6 || !s.P50.Known || s.P99.Known {
		t.Errorf("of one: %+v", s)
	}
	if s.Parts[1].AtMedian != -1e-6 || s.Parts[2].N != 0 || s.Parts[2].P50.Known || s.Parts[2].AtMedian != 0 {
		t.Errorf("parts of one: %+v", s.Parts)
	}
}
