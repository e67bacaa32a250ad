package h2load

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Format is the catalog entry.
func Format() ingest.Format {
	return ingest.Format{
		Name: Name, Summary: "what h2load prints, and its --log-file",
		Detect: func(head []byte) bool { return isReport(head) || isLog(head) },
		Read: func(r io.Reader, about ingest.About) ([]ingest.Measurement, error) {
			in, err := ingest.Unzip(r)
			if err != nil {
				return nil, err
			}
			head, err := in.Peek(headBytes)
			if err != nil && !errors.Is(err, io.EOF) {
				return nil, fmt.Errorf("reading h2load's output: %w", err)
			}
			if isReport(head) {
				return readReport(in, about)
			}
			m, err := readLog(in, about)
			if err != nil {
				return nil, err
			}
			return []ingest.Measurement{*m}, nil
		},
	}
}

const headBytes = 64 << 10

func isReport(head []byte) bool {
	return bytes.Contains(head, []byte("\nfinished in ")) && bytes.Contains(head, []byte("\nrequests: ")) && bytes.Contains(head, []byte(" started, "))
}

func isLog(head []byte) bool {
	line, _, _ := strings.Cut(string(head), "\n")
	_, err := request(line)
	return err == nil
}

// printed is what h2load has printed.
type printed struct {
	out              *model.LoadResult
	total, started   uint64
	succeeded        uint64
	timeouts, failed uint64
	protocol         string
	rate             string
	seen             bool
}

func readReport(r io.Reader, about ingest.About) ([]ingest.Measurement, error) {
	about.Arrival = model.ArrivalClosed
	about.Rate = 0
	p := printed{out: ingest.NewResult(Name, about, model.BasisSent)}
	err := ingest.Lines(r, p.line)
	if err == nil && !p.seen {
		err = errors.New(`it has no line "requests: ... total, ... started"`)
	}
	if err == nil {
		err = p.count()
	}
	if err != nil {
		return nil, fmt.Errorf("reading h2load's output: %w", err)
	}
	t := p.out.Tool
	t.Note(ingest.FiguresOnly)
	t.Note(ingest.NoRequests)
	t.Note("h2load is a closed loop: no request is due while its stream waits")
	t.Note("h2load prints no percentiles: only minimum, maximum and mean")
	m := ingest.Measurement{Result: p.out}
	m.Label(ingest.LabelFormat, "text")
	m.Label(ingest.LabelProtocol, p.protocol)
	m.Label(ingest.LabelAchieved, p.rate)
	return []ingest.Measurement{m}, nil
}

func (p *printed) count() error {
	o := p.out
	if p.timeouts > p.failed || p.succeeded+p.failed > p.total {
		return fmt.Errorf("%d succeeded and %d failed of %d requests", p.succeeded, p.failed, p.total)
	}
	o.Succeeded = p.succeeded
	if p.timeouts > 0 {
		o.Failed[model.CauseTimeout] = p.timeouts
	}
	if other := p.failed - p.timeouts; other > 0 {
		var bad uint64
		for code, n := range o.Statuses {
			if code >= 400 { //nolint:mnd // statuses from here on are failures
				bad += n
			}
		}
		bad = min(bad, other)
		if bad > 0 {
			o.Failed[model.CauseStatus] = bad
		}
		if other > bad {
			o.Failed[model.CauseProtocol] = other - bad
			o.Tool.Note("failed streams without a status are counted as protocol errors: h2load does not tell why they failed")
		}
		o.Tool.Note(ingest.Mixed)
	}
	o.Sent = o.Succeeded + o.FailedTotal()
	o.Due = o.Sent
	if left := p.total - o.Sent; left > 0 {
		o.Unsent, o.Due = left, o.Due+left
		o.Tool.Note("requests that were to be sent and did not end are counted as unsent")
	}
	return nil
}

func (p *printed) line(line string) (err error) {
	f := strings.Fields(line)
	switch {
	case strings.HasPrefix(line, "spawning thread "): // "#0: 2 total client(s). 200 total requests"
		var n int
		if _, rest, ok := strings.Cut(line, ": "); ok {
			if _, err = fmt.Sscanf(rest, "%d total client(s)", &n); err == nil && n > 0 {
				p.out.Connections += n
			}
		}
	case strings.HasPrefix(line, "Application protocol: "):
		p.protocol = f[2]
	case strings.HasPrefix(line, "finished in ") && len(f) >= 4: // "76.07ms, 2629.02 req/s, 192.55KB/s"
		p.rate = f[3]
		p.out.Elapsed, err = took(strings.TrimSuffix(f[2], ","))
	case strings.HasPrefix(line, "requests: "):
		p.seen = true
		return p.requests(strings.TrimPrefix(line, "requests: "))
	case strings.HasPrefix(line, "status codes: "):
		return p.statuses(strings.TrimPrefix(line, "status codes: "))
	case strings.HasPrefix(line, "traffic: "):
		_, rest, _ := strings.Cut(line, "(")
		n, _, _ := strings.Cut(rest, ")")
		p.out.BytesReceived, err = strconv.ParseUint(n, 10, 63)
	case strings.HasPrefix(line, "time for request: ") && len(f) >= 6:
		for i, name := range []string{"min", "max", "mean"} {
			if p.out.Tool.Figures[name], err = took(f[3+i]); err != nil {
				return err
			}
		}
	}
	return err
}

// took reads "50us", "10.31ms", "1.00s", and "1m2s".
func took(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err == nil && d < 0 {
		err = fmt.Errorf("%s is negative", s)
	}
	return d, err
}

// requests reads "200 total, 200 started, 200 done, 200 succeeded, 0 failed, 0 errored, 0 timeout";
// what errored or timed out is among what failed.
func (p *printed) requests(text string) error {
	into := map[string]*uint64{"total": &p.total, "started": &p.started, "succeeded": &p.succeeded, "failed": &p.failed, "timeout": &p.timeouts}
	return pairs(text, func(n uint64, name string) {
		if v := into[name]; v != nil {
			*v = n
		}
	})
}

// statuses reads "200 2xx, 0 3xx, 0 4xx, 0 5xx": only their classes are told.
func (p *printed) statuses(text string) error {
	const hundred = 100
	return pairs(text, func(n uint64, name string) {
		if n > 0 && strings.HasSuffix(name, "xx") {
			p.out.Statuses[int(name[0]-'0')*hundred] = n
			p.out.Tool.Note("statuses are known by their first digit only")
		}
	})
}

func pairs(text string, each func(uint64, string)) error {
	for pair := range strings.SplitSeq(text, ", ") {
		n, name, ok := strings.Cut(strings.TrimSpace(pair), " ")
		v, err := strconv.ParseUint(n, 10, 48)
		if err != nil || !ok || name == "" {
			return fmt.Errorf("%.60q is no count with a name", pair)
		}
		each(v, name)
	}
	return nil
}
