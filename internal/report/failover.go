package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Failover is one trial of a load under a fault, over time. Times count from
// the start of the window; a request is in the slot in which it was due.
type Failover struct {
	Trial     int        `json:"trial"`
	SlotWidth float64    `json:"slot_s"`
	Answerers []Answerer `json:"answerers"`
	Answered  [][]uint64 `json:"answered"` // successes by answerer, then by slot
	Failed    []uint64   `json:"failed"`   // unsent requests included
	Median    []float64  `json:"median_s"` // response time of successes; 0: there are none
	Slowest   []float64  `json:"slowest_s"`
	Harms     []Harm     `json:"harms"`
	Missing   uint64     `json:"missing"` // requests that the trace had no room for
}

// Answerer is who gave answers: a region, or a server where all are in one.
type Answerer struct {
	Name string `json:"name"`
	Home bool   `json:"home"` // of the nearest region
}

// Harm is one event of a fault as it was observed.
type Harm struct {
	Kind   string   `json:"kind"`
	Struck []string `json:"struck"` // pods that it takes away
	// Injected and Healed are the spans within which it set in and was over;
	// absent: it did not come to that while the load ran.
	Injected *Span  `json:"injected,omitempty"`
	Healed   *Span  `json:"healed,omitempty"`
	Error    string `json:"error,omitempty"`
}

// Span is from one moment to another, in seconds from the start of the window.
type Span struct {
	From float64 `json:"from_s"`
	To   float64 `json:"to_s"`
}

const (
	failoverSlot  = 100 * time.Millisecond // what recovery is read in, too: metric.ReadRecovery
	failoverSlots = 240                    // at most: as many as a picture can show
	mostAnswerers = 8                      // servers of one region that are told apart: as many as there are colours
	notKnown      = "not known"
)

// failovers are the trials of loads under a fault that kept their trace.
func (b *builder) failovers() []Failover {
	all := []Failover{}
	for i := range b.outcomes {
		if o := &b.outcomes[i]; len(o.Faults) > 0 && o.Load != nil && o.Load.Trace != nil && o.Window.Duration() > 0 {
			all = append(all, failover(o))
		}
	}
	return all
}

func failover(o *model.Outcome) Failover {
	window := o.Window.Duration()
	wide := failoverSlot * time.Duration(math.Ceil(float64(window)/float64(failoverSlot*failoverSlots)))
	n := int((window + wide - 1) / wide)
	t := o.Load.Trace
	f := Failover{
		Trial: o.Trial.Index, SlotWidth: wide.Seconds(), Failed: make([]uint64, n), Median: make([]float64, n), Slowest: make([]float64, n),
		Harms: []Harm{}, Missing: t.Missing,
	}
	for _, r := range o.Faults {
		f.Harms = append(f.Harms, harmOf(r, o.Window))
	}
	names := namesOf(o)
	at := map[string]int{}
	for _, a := range names.all {
		at[a.Name] = len(f.Answerers)
		f.Answerers, f.Answered = append(f.Answerers, a), append(f.Answered, make([]uint64, n))
	}
	took := make([][]int64, n)
	for i, due := range t.Due {
		slot := int(time.Duration(due) * time.Microsecond / wide)
		if slot < 0 || slot >= n {
			continue
		}
		if t.Failure(i) != "" {
			f.Failed[slot]++
			continue
		}
		took[slot] = append(took[slot], t.Response[i])
		f.Answered[at[names.of(t.Responder(i))]][slot]++
	}
	for slot, all := range took {
		if len(all) > 0 {
			slices.Sort(all)
			f.Median[slot], f.Slowest[slot] = seconds(all[(len(all)-1)/2]), seconds(all[len(all)-1])
		}
	}
	return f
}

func seconds(micros int64) float64 { return (time.Duration(micros) * time.Microsecond).Seconds() }

func harmOf(r model.FaultRecord, w model.Window) Harm {
	span := func(from, to int64) *Span {
		if from == 0 || to == 0 || from > w.End {
			return nil // what is undone when the load has ended is no part of it
		}
		return &Span{From: time.Duration(from - w.Start).Seconds(), To: time.Duration(to - w.Start).Seconds()}
	}
	h := Harm{Kind: r.Event.Fault.Kind, Struck: append([]string{}, r.Struck...), Error: r.Error, Injected: span(r.InjectStart, r.InjectEnd)}
	if r.Event.Heal != 0 {
		h.Healed = span(r.HealStart, r.HealEnd)
	}
	return h
}

// answerers tell what to call those who answered.
type answerers struct {
	all  []Answerer
	name map[string]string // by identity
}

// of is the answerer of an identity.
func (a *answerers) of(identity string) string {
	if name, ok := a.name[identity]; ok {
		return name
	}
	return notKnown
}

// namesOf tells regions apart where there are several, and servers elsewhere.
func namesOf(o *model.Outcome) answerers {
	a := answerers{name: map[string]string{}}
	regions := map[string]bool{}
	for _, b := range o.Endpoints.Backends {
		regions[b.Region] = true
	}
	for _, b := range o.Endpoints.Backends {
		name := b.Identity
		switch {
		case len(regions) > 1:
			name = b.Region
		case len(o.Endpoints.Backends) > mostAnswerers:
			name = "servers"
		}
		a.name[b.Identity] = name
		if !slices.ContainsFunc(a.all, func(x Answerer) bool { return x.Name == name }) {
			a.all = append(a.all, Answerer{Name: name, Home: b.Nearest || len(regions) == 1})
		}
	}
	slices.SortFunc(a.all, func(x, y Answerer) int {
		if x.Home != y.Home {
			return map[bool]int{true: -1, false: 1}[x.Home]
		}
		return strings.Compare(x.Name, y.Name)
	})
	if slices.ContainsFunc(o.Load.Trace.Responders, func(id string) bool { return a.name[id] == "" }) || slices.Contains(o.Load.Trace.Who, model.Unidentified) {
		a.all = append(a.all, Answerer{Name: notKnown})
	}
	return a
}

// Strips are the failovers of a load for a terminal: a line a variant, one
// character a part of the window.
type Strips struct {
	Title string
	Key   string
	Lines [][2]string // variant and strip
}

// StripsOf draws the first good trial of each variant of every load under a
// fault, at most so many characters wide.
func StripsOf(m *Model, columns int) []Strips {
	var all []Strips
	for _, l := range m.Loads {
		s := Strips{Title: l.Name + "   who answered over time"}
		wide := 0.0
		for _, v := range m.Variants {
			f := m.failover(v.Name, l.Name)
			if f == nil {
				continue
			}
			line, each := strip(f, columns)
			s.Lines, wide = append(s.Lines, [2]string{v.Name, line}), max(wide, each)
		}
		if len(s.Lines) > 0 {
			s.Key = fmt.Sprintf("each variant's first trial, one character %s; | harm and heal as observed; "+
				"· home answers, o another region, x some failed, X most failed", FormatValue("s", wide))
			all = append(all, s)
		}
	}
	return all
}

// failover finds the first trial that is no failure; nil if there is none.
func (m *Model) failover(variant, load string) *Failover {
	for _, t := range m.Trials {
		if t.Variant != variant || t.Load != load || t.State != "done" {
			continue
		}
		if i := slices.IndexFunc(m.Failovers, func(f Failover) bool { return f.Trial == t.Index }); i >= 0 {
			return &m.Failovers[i]
		}
	}
	return nil
}

// strip draws one trial, and says how many seconds a character is.
func strip(f *Failover, columns int) (line string, each float64) {
	var moments []float64
	for _, h := range f.Harms {
		for _, s := range []*Span{h.Injected, h.Healed} {
			if s != nil {
				moments = append(moments, s.From)
			}
		}
	}
	slices.Sort(moments)
	step := max(1, (len(f.Failed)+columns-1)/columns)
	each = float64(step) * f.SlotWidth
	var b strings.Builder
	for i := 0; i < len(f.Failed); i += step {
		b.WriteRune(f.sign(i, min(i+step, len(f.Failed))))
		for len(moments) > 0 && moments[0] < float64(i+step)*f.SlotWidth {
			b.WriteByte('|')
			moments = moments[1:]
		}
	}
	return b.String(), each
}

// sign says what became of the requests of some slots.
func (f *Failover) sign(from, to int) rune {
	var home, away, failed uint64
	for i := from; i < to; i++ {
		failed += f.Failed[i]
		for k, a := range f.Answerers {
			if a.Home || a.Name == notKnown {
				home += f.Answered[k][i]
			} else {
				away += f.Answered[k][i]
			}
		}
	}
	switch {
	case home+away+failed == 0:
		return ' '
	case failed > home+away:
		return 'X'
	case failed > 0:
		return 'x'
	case away > home:
		return 'o'
	}
	return '·'
}
