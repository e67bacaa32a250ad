package audit

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/model"
)

const pictureWidth = 60

// Picture shows what a finding saw, as lines of text; none where a picture would
// not help.
func Picture(e Evidence, f model.Finding) []string {
	if len(f.Trials) == 0 {
		return nil
	}
	o := e.trial(f.Trials[0])
	for _, t := range f.Trials[1:] {
		if next := e.trial(t); next != nil && o != nil && f.Rule == "failing prefix" && next.Load.FailedPrefix > o.Load.FailedPrefix {
			o = next
		}
	}
	if o == nil || o.Load == nil {
		return nil
	}
	switch f.Rule {
	case "failing prefix":
		return strip(e, o)
	case roundTripsName:
		if t, ok := tripsOf(e); ok {
			return marked(e, f, t.RTT, "RTT")
		}
	case quotaName, periodName:
		return marked(e, f, 100*time.Millisecond, "periods") //nolint:mnd // of a CPU quota
	}
	return nil
}

func (e Evidence) trial(index int) *model.Outcome {
	i := slices.IndexFunc(e.Outcomes, func(o model.Outcome) bool { return o.Trial.Index == index })
	if i < 0 {
		return nil
	}
	return &e.Outcomes[i]
}

// strip shows successes and failures over time: one character a step.
func strip(e Evidence, o *model.Outcome) []string {
	var ok, bad [pictureWidth]int
	var length time.Duration
	if r := e.run(o); r != nil && len(r.Requests) > 1 {
		first, last := r.Requests[0].Sent, r.Requests[len(r.Requests)-1].Sent
		length = last.Sub(first)
		for i := range r.Requests {
			q := &r.Requests[i]
			at := min(int(float64(q.Sent.Sub(first))/float64(max(length, 1))*pictureWidth), pictureWidth-1)
			if right(q) {
				ok[at]++
			} else {
				bad[at]++
			}
		}
	} else {
		slots := o.Load.Timeline.Slots
		length = o.Load.Timeline.SlotWidth * time.Duration(len(slots))
		for i, s := range slots {
			at := i * pictureWidth / len(slots)
			ok[at] += int(s.Succeeded) //nolint:gosec // G115: counts of one trial
			bad[at] += int(s.Failed)   //nolint:gosec // G115: counts of one trial
		}
	}
	if length == 0 {
		return nil
	}
	var b strings.Builder
	for i := range pictureWidth {
		switch {
		case ok[i] == 0 && bad[i] == 0:
			b.WriteByte(' ')
		case ok[i] == 0:
			b.WriteByte('x')
		case bad[i] == 0:
			b.WriteByte('.')
		default:
			b.WriteByte('%')
		}
	}
	return []string{
		fmt.Sprintf("|%s|  x failed  . answered  %% both", b.String()),
		fmt.Sprintf("0%*s", pictureWidth+1, round(length)),
	}
}

// marked is the distribution of the finding's trials on a log scale, with marks
// at the multiples of a time.
func marked(e Evidence, f model.Finding, every time.Duration, what string) []string {
	all := &hist.Histogram{}
	for _, t := range f.Trials {
		if o := e.trial(t); o != nil && o.Load != nil {
			if r := e.run(o); r != nil && len(r.Requests) > 0 {
				for _, l := range r.Latencies() {
					all.Record(int64(l))
				}
			} else if h := answered(o.Load); h != nil {
				all.Merge(h)
			}
		}
	}
	if all.Count() == 0 {
		return nil
	}
	counts, lo, hi := bins(all, pictureWidth, every+every/20)
	most := math.Log1p(slices.Max(counts))
	levels := []rune(" .:-=+*#%@")
	var b strings.Builder
	for _, n := range counts {
		b.WriteRune(levels[int(math.Ceil(math.Log1p(n)/most*float64(len(levels)-1)))])
	}
	marks := []rune(strings.Repeat(" ", pictureWidth))
	for k := 1; k < 10; k++ {
		at := int((math.Log(every.Seconds()*float64(k)) - lo) / (hi - lo) * pictureWidth)
		if at >= 0 && at < pictureWidth && marks[at] == ' ' {
			marks[at] = rune('0' + k)
		}
	}
	return []string{
		fmt.Sprintf("|%s|  requests (log), darker is more", b.String()),
		fmt.Sprintf("|%s|  %s of %s", string(marks), what, round(every)),
		fmt.Sprintf("%s%*s", round(all.Min()), pictureWidth+2-len(round(all.Min()).String()), round(time.Duration(math.Exp(hi)*float64(time.Second)))),
	}
}
