package wrk

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/ingest"
)

// maxPoints bounds what is kept of one distribution: wrk's own has at most as
// many microseconds as its timeout.
const maxPoints = 20_000_000

func times() map[string]float64 {
	return map[string]float64{"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
}

func sizes() map[string]float64 {
	return map[string]float64{"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40, "PB": 1 << 50}
}

func descending(counts map[int64]uint64) []int64 {
	keys := slices.Sorted(maps.Keys(counts))
	slices.Reverse(keys)
	return keys
}

// line reads one line of the output; what is of no use is skipped.
func (p *report) line(line string) error {
	f := strings.Fields(line)
	switch {
	case len(f) == 0:
		return nil
	case f[0] == "windtunnel" || f[0] == "windtunnel-latency":
		return p.scripted(f)
	case strings.Contains(line, "Latency Distribution"):
		p.heading = line
		return nil
	case strings.Contains(line, "Percentile spectrum:"):
		p.section = &spectrum{}
		if strings.Contains(p.heading, "Uncorrected") {
			p.uncorrected = p.section
		} else {
			p.recorded = p.section
		}
		return nil
	case strings.HasPrefix(f[0], "#[") || strings.HasPrefix(f[0], "---"):
		p.section = nil
		return nil
	case len(f) == 2 && strings.HasSuffix(f[0], "%"):
		return p.quantile(f)
	case p.section != nil && len(f) == 4 && f[0] != "Value":
		return p.section.point(f)
	}
	return p.totals(line, f)
}

// totals reads the lines that count things.
func (p *report) totals(line string, f []string) (err error) {
	if told, bad := p.described(line, f); told || bad != nil {
		return bad
	}
	switch {
	case strings.Contains(line, " threads and "): // "1 threads and 8 connections"
		_, err = fmt.Sscanf(strings.TrimSpace(line), "%d threads and %d connections", &p.threads, &p.connections)
	case strings.Contains(line, " requests in "): // "62292 requests in 1.00s, 9.03MB read"
		if p.done || len(f) < 6 {
			return fmt.Errorf("%.100q: a second total, or no whole one", line)
		}
		p.done = true
		if p.requests, err = strconv.ParseUint(f[0], 10, 63); err != nil {
			return err
		}
		if p.took, err = duration(strings.TrimSuffix(f[3], ",")); err != nil {
			return err
		}
		var bytes float64
		bytes, err = number(f[4], sizes())
		p.read = uint64(min(bytes, 1<<60))
	case strings.HasPrefix(line, "  Socket errors:"): // "connect 0, read 0, write 0, timeout 0"
		for i := 2; i+1 < len(f); i += 2 {
			if p.socket[f[i]], err = strconv.ParseUint(strings.TrimSuffix(f[i+1], ","), 10, 48); err != nil {
				return err
			}
		}
	case strings.HasPrefix(line, "  Non-2xx or 3xx responses:"):
		p.status, err = strconv.ParseUint(f[len(f)-1], 10, 63)
	}
	return err
}

// described reads the lines around the totals; false if the line is none of them.
func (p *report) described(line string, f []string) (told bool, err error) {
	switch {
	case strings.HasPrefix(line, "Running ") && strings.Contains(line, " test @ "): // "Running 2s test @ URL"
		p.begun = true
		length, url, _ := strings.Cut(strings.TrimPrefix(line, "Running "), " test @ ")
		p.url = strings.TrimSpace(url)
		p.planned, err = duration(length)
	case strings.HasPrefix(line, "  Thread calibration:"):
		p.calibrated = true
	case strings.HasPrefix(line, "Requests/sec:"):
		p.achieved = f[len(f)-1]
	case f[0] == "Latency" && len(f) == 5: // "Latency   818.67us    3.12ms  30.11ms   94.92%": mean, deviation, maximum
		if strings.Contains(line, "nan") {
			return true, nil
		}
		var bad error
		p.quantiles["mean"], err = duration(f[1])
		p.quantiles["max"], bad = duration(f[3])
		err = errors.Join(err, bad)
	default:
		return false, nil
	}
	return true, err
}

func duration(s string) (time.Duration, error) {
	v, err := number(s, times())
	if err != nil {
		return 0, err
	}
	return ingest.Seconds(v)
}

// quantile reads "99.900%   19.15ms", of the first distribution.
func (p *report) quantile(f []string) error {
	q, err := strconv.ParseFloat(strings.TrimSuffix(f[0], "%"), 64)
	if err != nil {
		return err
	}
	d, err := duration(f[1])
	name := "p" + strconv.FormatFloat(q, 'g', -1, 64)
	if strings.Contains(p.heading, "Uncorrected") {
		name = "uncorrected " + name
	}
	if len(p.quantiles) < 100 {
		p.quantiles[name] = d
	}
	return err
}

// point reads "0.109     0.000000            1         1.00": value in
// milliseconds, share, values so far.
func (s *spectrum) point(f []string) error {
	ms, err := strconv.ParseFloat(f[0], 64)
	if err != nil {
		return err
	}
	v, err := ingest.Seconds(ms / 1000)
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(f[2], 10, 63)
	if err != nil {
		return err
	}
	if len(s.values) >= maxPoints {
		return fmt.Errorf("more than %d points", maxPoints)
	}
	s.values, s.counts = append(s.values, v), append(s.counts, n)
	return nil
}

// scripted reads what Script prints: "windtunnel duration 1000642" and
// "windtunnel-latency 91 4711", in microseconds.
func (p *report) scripted(f []string) error {
	const words = 3
	if len(f) != words {
		return fmt.Errorf("%d words, not %d", len(f), words)
	}
	n, err := strconv.ParseUint(f[2], 10, 63)
	if err != nil {
		return err
	}
	if f[0] == "windtunnel" {
		if len(p.script) < 100 {
			p.script[f[1]] = n
		}
		return nil
	}
	v, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil || v < 0 || v > int64(time.Hour/time.Microsecond) {
		return fmt.Errorf("%q is no latency in microseconds", f[1])
	}
	if _, twice := p.exact[v]; twice || len(p.exact) >= maxPoints {
		return fmt.Errorf("%d us comes twice, or is one of more than %d values", v, maxPoints)
	}
	p.exact[v] = n
	return nil
}
