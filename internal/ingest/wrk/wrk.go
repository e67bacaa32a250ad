// Package wrk reads what wrk and wrk2 print: with --latency, and of wrk also
// what Script makes it print.
package wrk

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/hist"
	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/model"
)

// The names of the tools.
const (
	Name     = "wrk"
	NameWrk2 = "wrk2"
)

// Script is the end of a Lua script for wrk that prints its whole distribution,
// of which wrk itself prints four quantiles only.
//
//go:embed done.lua
var Script string

// calibration is how long wrk2 runs before it forgets all it has recorded and
// begins anew: 10 s and 5 ms for each connection of a thread.
const (
	calibration     = 10 * time.Second
	calibrationConn = 5 * time.Millisecond
)

// Calibration is how much of a run wrk2 throws away: nothing of one that ends
// before.
func Calibration(connections, threads int) time.Duration {
	return calibration + calibrationConn*time.Duration(connections/max(threads, 1))
}

// report is what a run has printed.
type report struct {
	threads, connections uint64
	requests             uint64
	took                 time.Duration
	read                 uint64 // bytes
	status               uint64
	socket               map[string]uint64
	quantiles            map[string]time.Duration
	// spectra are wrk2's, by what the heading says; exact is Script's.
	recorded, uncorrected *spectrum
	exact                 map[int64]uint64 // by microseconds
	done                  bool
	script                map[string]uint64
	section               *spectrum
	heading               string
	begun                 bool
	calibrated            bool // wrk2 says so
	url, achieved         string
	planned               time.Duration
}

func newReport() *report {
	return &report{socket: map[string]uint64{}, quantiles: map[string]time.Duration{}, exact: map[int64]uint64{}, script: map[string]uint64{}}
}

// whole is an error if the end of the output is missing.
func (p *report) whole() error {
	if !p.done {
		return errors.New(`it has no line "... requests in ...": it is no whole output of wrk`)
	}
	return nil
}

// Read reads the output of either tool.
func Read(r io.Reader, about ingest.About) (*model.LoadResult, error) {
	p := newReport()
	err := ingest.Lines(r, p.line)
	if err == nil {
		err = p.whole()
	}
	var out *model.LoadResult
	if err == nil {
		out, err = p.convert(about)
	}
	if err != nil {
		return nil, fmt.Errorf("reading wrk's output: %w", err)
	}
	return out, nil
}

func (p *report) convert(about ingest.About) (*model.LoadResult, error) {
	about.Connections = int(min(p.connections, math.MaxInt32))
	about.Duration = p.took
	about.Arrival = model.ArrivalClosed
	tool, basis := Name, model.BasisSent
	if p.recorded != nil || p.calibrated {
		tool, basis, about.Arrival = NameWrk2, model.BasisDue, model.ArrivalOpen
	} else {
		about.Rate = 0
	}
	out := ingest.NewResult(tool, about, basis)
	out.Tool.Figures = p.quantiles
	out.BytesReceived = p.read
	out.Tool.Note("bytes sent: wrk does not tell")
	if p.status > p.requests {
		return nil, fmt.Errorf("%d bad statuses in %d requests", p.status, p.requests)
	}
	out.Succeeded = p.requests - p.status
	p.failures(out)
	if p.recorded != nil {
		return out, p.wrk2(out)
	}
	if p.calibrated {
		out.Tool.Note(ingest.FiguresOnly)
		return out, nil
	}
	return out, p.wrk(out)
}

func (p *report) failures(out *model.LoadResult) {
	for cause, n := range map[model.Cause]uint64{
		model.CauseStatus: p.status, model.CauseConnect: p.socket["connect"], model.CauseClosed: p.socket["read"],
		model.CauseReset: p.socket["write"], model.CauseTimeout: p.socket["timeout"],
	} {
		if n > 0 {
			out.Failed[cause] = n
		}
	}
	out.Due = out.Succeeded + out.FailedTotal()
	out.Sent = out.Due
	if p.status > 0 {
		out.Tool.Note(ingest.Mixed)
	}
	if p.socket["timeout"] > 0 {
		out.Tool.Note("wrk counts a request that is timed out again at each of its checks")
	}
}

// wrk takes the distribution that Script printed. wrk 4.0 and 4.1 add values
// that were never measured ("correction for coordinated omission", of a closed
// loop, with the mean interval for a period); they are taken out again.
func (p *report) wrk(out *model.LoadResult) error {
	t := out.Tool
	t.Note("times are in whole microseconds")
	if len(p.exact) == 0 {
		t.Note("only the quantiles that wrk printed are known, not the distribution; wrk 4.0 and 4.1 have added values to it that were never measured")
		return nil
	}
	if p.script["requests"] != p.requests {
		return fmt.Errorf("the script counts %d requests, wrk %d", p.script["requests"], p.requests)
	}
	var n uint64
	for _, c := range p.exact {
		n += c
	}
	if n != p.requests {
		added := n - p.requests
		if err := uncorrect(p.exact, p.requests, p.connections, p.script["duration"]); err != nil {
			return err
		}
		if mean, ok := t.Figures["mean"]; ok {
			delete(t.Figures, "mean")
			t.Figures["mean with added values"] = mean
		}
		t.Note(fmt.Sprintf("wrk had added %d values that it never measured to its distribution, from which its own quantiles are; they were taken out again, exactly", added))
	}
	for v, c := range p.exact {
		out.Service.RecordN(v*int64(time.Microsecond), c)
	}
	out.Response.Merge(out.Service)
	return nil
}

// wrk2 takes the two spectra.
func (p *report) wrk2(out *model.LoadResult) error {
	t := out.Tool
	t.Note("latencies are known at the points of wrk2's spectrum: what lies between two counts as the higher one")
	if err := p.recorded.fill(out.Response); err != nil {
		return err
	}
	if p.uncorrected == nil {
		t.Note("service times: wrk2 prints them with --u_latency only")
	} else if err := p.uncorrected.fill(out.Service); err != nil {
		return err
	}
	thrown := Calibration(int(min(p.connections, math.MaxInt32)), int(min(p.threads, math.MaxInt32)))
	if p.took <= thrown {
		return nil
	}
	n := out.Response.Count()
	if n > p.requests {
		return fmt.Errorf("the spectrum holds %d values, the whole run %d requests", n, p.requests)
	}
	t.Note(fmt.Sprintf("wrk2 forgets the first %s, its calibration: what follows is measured", thrown))
	out.Elapsed = p.took - thrown
	out.Succeeded = n
	if bad := out.FailedTotal(); bad > 0 {
		t.Note("failures are of the whole run: wrk2 does not tell which were after its calibration")
		out.Succeeded = n - min(n, p.status)
	}
	out.Due = out.Succeeded + out.FailedTotal()
	out.Sent = out.Due
	out.BytesReceived = 0
	t.Note("bytes received: wrk2 tells them of the whole run only")
	return nil
}

// uncorrect undoes wrk's stats_correct: for every value of at least twice the
// interval it has added one interval less, two less and so on, down to the
// interval itself, without. From the highest value down, that can be told.
func uncorrect(counts map[int64]uint64, requests, connections, duration uint64) error {
	if connections == 0 || requests/connections == 0 || duration == 0 || duration > math.MaxInt64 {
		return errors.New("wrk has added values to its distribution, and they cannot be told from what it measured")
	}
	interval := int64(duration / (requests / connections)) //nolint:gosec // G115: checked above
	const limit = 50_000_000                               // steps: hours of stalls at full rate
	steps := 0
	for _, v := range descending(counts) {
		n := counts[v]
		if v < 2*interval || n == 0 { //nolint:mnd // see above
			continue
		}
		for m := v - interval; m > interval; m -= interval {
			if steps++; steps > limit || counts[m] < n {
				return fmt.Errorf("wrk has added values to its distribution, and they do not fit an interval of %d us", interval)
			}
			counts[m] -= n
		}
	}
	var left uint64
	for _, n := range counts {
		left += n
	}
	if left != requests {
		return fmt.Errorf("wrk has added values to its distribution; without them %d are left of %d requests", left, requests)
	}
	return nil
}

// spectrum is wrk2's "Detailed Percentile spectrum".
type spectrum struct {
	values []time.Duration
	counts []uint64 // cumulative
}

func (s *spectrum) fill(h *hist.Histogram) error {
	var before uint64
	for i, v := range s.values {
		if s.counts[i] < before || i > 0 && v < s.values[i-1] {
			return errors.New("its percentile spectrum does not ascend")
		}
		h.RecordN(int64(v), s.counts[i]-before)
		before = s.counts[i]
	}
	return nil
}

// number reads "62.73k" or "9.03MB" with the given steps.
func number(s string, units map[string]float64) (float64, error) {
	i := strings.IndexFunc(s, func(c rune) bool { return c != '.' && (c < '0' || c > '9') })
	unit := ""
	if i >= 0 {
		s, unit = s[:i], s[i:]
	}
	v, err := strconv.ParseFloat(s, 64)
	scale, ok := units[unit]
	if err != nil || !ok {
		return 0, fmt.Errorf("%q with the unit %q is no number of wrk's", s, unit)
	}
	return v * scale, nil
}
