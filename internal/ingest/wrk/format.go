package wrk

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/ingest"
)

// Format is the catalog entry of both tools.
func Format() ingest.Format {
	return ingest.Format{
		Name: Name, Summary: "what wrk and wrk2 print, of one run or of several, with or without the distribution",
		Detect: func(head []byte) bool {
			return bytes.Contains(head, []byte("Running ")) && bytes.Contains(head, []byte(" test @ "))
		},
		Read: readAll,
	}
}

// readAll reads runs one after the other: each begins with "Running 2s test @ URL".
func readAll(r io.Reader, about ingest.About) ([]ingest.Measurement, error) {
	var all []ingest.Measurement
	p, start := newReport(), 1
	end := func() error {
		if !p.begun {
			return nil
		}
		m, err := p.measurement(about)
		if err != nil {
			return fmt.Errorf("the run from line %d on: %w", start, err)
		}
		if len(all) >= ingest.MaxMeasurements {
			return fmt.Errorf("more than %d runs", ingest.MaxMeasurements)
		}
		m.Name = fmt.Sprintf("run %d", len(all)+1)
		all = append(all, *m)
		return nil
	}
	n := 0
	err := ingest.Lines(r, func(line string) error {
		n++
		if strings.HasPrefix(line, "Running ") && strings.Contains(line, " test @ ") {
			if err := end(); err != nil {
				return err
			}
			p, start = newReport(), n
		}
		return p.line(line)
	})
	if err == nil {
		err = end()
	}
	if err != nil {
		return nil, fmt.Errorf("reading wrk's output: %w", err)
	}
	if len(all) == 1 {
		all[0].Name = ""
	}
	return all, nil
}

func (p *report) measurement(about ingest.About) (*ingest.Measurement, error) {
	if err := p.whole(); err != nil {
		return nil, err
	}
	out, err := p.convert(about)
	if err != nil {
		return nil, err
	}
	out.Tool.Note(ingest.NoRequests)
	m := &ingest.Measurement{Result: out}
	m.Label(ingest.LabelFormat, "text")
	m.Label(ingest.LabelURL, p.url)
	m.Label(ingest.LabelThreads, strconv.FormatUint(p.threads, 10))
	if p.planned > 0 {
		m.Label(ingest.LabelPlanned, strconv.FormatFloat(p.planned.Seconds(), 'f', -1, 64))
	}
	m.Label(ingest.LabelAchieved, p.achieved)
	return m, nil
}
