package report

import (
	"slices"

	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
)

// traffic is what passed the devices, by variant and load; none where it was
// not sampled.
func (b *builder) traffic() []Traffic {
	var all []Traffic
	for _, v := range b.study.Variants {
		for _, l := range b.study.Loads {
			if t := TrafficOf(b.of(v.Name, l.Name)); len(t.Devices) > 0 {
				t.Variant, t.Load = v.Name, l.Name
				all = append(all, t)
			}
		}
	}
	return all
}

// TrafficOf is the median of what passed each device in some trials.
func TrafficOf(outcomes []*model.Outcome) Traffic {
	t := Traffic{Trials: len(outcomes)}
	byDevice := map[metric.Device][]metric.Device{}
	var order []metric.Device
	for _, o := range outcomes {
		for _, d := range metric.Devices(o) {
			key := metric.Device{Kind: d.Kind, Place: d.Place, Name: d.Name}
			if byDevice[key] == nil {
				order = append(order, key)
			}
			byDevice[key] = append(byDevice[key], d)
		}
	}
	for _, key := range order {
		of := func(get func(metric.Device) float64) float64 {
			var values []float64
			for _, d := range byDevice[key] {
				values = append(values, get(d))
			}
			return middle(values)
		}
		t.Devices = append(t.Devices, Device{
			Kind: key.Kind, Place: key.Place, Name: key.Name,
			In:         of(func(d metric.Device) float64 { return d.In }),
			Out:        of(func(d metric.Device) float64 { return d.Out }),
			InPackets:  of(func(d metric.Device) float64 { return d.InPackets }),
			OutPackets: of(func(d metric.Device) float64 { return d.OutPackets }),
			Dropped:    of(func(d metric.Device) float64 { return d.Dropped }),
		})
	}
	return t
}

// middle is the median; of an even number the mean of the two in the middle.
func middle(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2 //nolint:mnd // halves
}
