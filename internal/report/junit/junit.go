// Package junit writes gates, findings and trials as test cases, for systems
// that show the results of a build.
package junit

import (
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/report"
)

// Format is JUnit's XML, as Jenkins, GitLab and GitHub actions read it.
type Format struct{}

type suites struct {
	XMLName  xml.Name `xml:"testsuites"`
	Name     string   `xml:"name,attr"`
	Time     string   `xml:"time,attr"`
	Tests    int      `xml:"tests,attr"`
	Failures int      `xml:"failures,attr"`
	Errors   int      `xml:"errors,attr"`
	Skipped  int      `xml:"skipped,attr"`
	Suites   []suite  `xml:"testsuite"`
}

type suite struct {
	Name      string `xml:"name,attr"`
	Timestamp string `xml:"timestamp,attr"`
	Tests     int    `xml:"tests,attr"`
	Failures  int    `xml:"failures,attr"`
	Errors    int    `xml:"errors,attr"`
	Skipped   int    `xml:"skipped,attr"`
	Cases     []test `xml:"testcase"`
}

type test struct {
	Class   string `xml:"classname,attr"`
	Name    string `xml:"name,attr"`
	Failure *doubt `xml:"failure"`
	Error   *doubt `xml:"error"`
	Skipped *doubt `xml:"skipped"`
	Output  string `xml:"system-out,omitempty"`
}

type doubt struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// Write writes three suites: gates, which pass or fail; findings, of which the
// invalid ones fail and the suspect ones are skipped; trials, which pass, are
// errors where they failed, and are skipped where they are not used.
func (Format) Write(_ context.Context, w io.Writer, m *report.Model) error {
	all := suites{Name: m.Name, Time: fmt.Sprintf("%.0f", m.Run.TookSeconds), Suites: []suite{
		newSuite(m, "gates", gates(m)), newSuite(m, "findings", findings(m)), newSuite(m, "trials", trials(m)),
	}}
	for _, s := range all.Suites {
		all.Tests += s.Tests
		all.Failures += s.Failures
		all.Errors += s.Errors
		all.Skipped += s.Skipped
	}
	text, err := xml.MarshalIndent(all, "", " ")
	if err != nil {
		return fmt.Errorf("writing JUnit: %w", err)
	}
	if _, err = io.WriteString(w, xml.Header+string(text)+"\n"); err != nil {
		return fmt.Errorf("writing JUnit: %w", err)
	}
	return nil
}

func newSuite(m *report.Model, name string, cases []test) suite {
	s := suite{Name: m.Name + " " + name, Timestamp: m.Run.Started.UTC().Format("2006-01-02T15:04:05"), Tests: len(cases), Cases: cases}
	for i := range cases {
		cases[i].Class = m.Name + "." + name
		switch {
		case cases[i].Failure != nil:
			s.Failures++
		case cases[i].Error != nil:
			s.Errors++
		case cases[i].Skipped != nil:
			s.Skipped++
		}
	}
	return s
}

func gates(m *report.Model) []test {
	var all []test
	for _, g := range m.Gates {
		t := test{Name: g.Text, Output: g.Detail}
		if load, _, found := strings.Cut(g.Detail, ": "); found {
			t.Name += " (" + load + ")" // a gate of all loads is one case each
		}
		if !g.Passed {
			t.Failure = &doubt{Message: g.Detail, Type: "gate"}
		}
		all = append(all, t)
	}
	return all
}

func findings(m *report.Model) []test {
	var all []test
	for _, f := range m.Findings {
		t := test{Name: f.Rule}
		if where := strings.Trim(f.Variant+"/"+f.Load, "/"); where != "" {
			t.Name += ": " + where
		}
		if len(f.Trials) > 0 {
			t.Name += ", trials " + strings.Trim(fmt.Sprint(f.Trials), "[]")
		}
		text := fmt.Sprintf("%s\nevidence: %s\nadvice: %s", f.Cause, f.Evidence, f.Advice)
		switch f.Severity {
		case model.SeverityInvalid:
			t.Failure = &doubt{Message: f.Cause, Type: f.Rule, Text: text}
		case model.SeveritySuspect:
			t.Skipped = &doubt{Message: "suspect: " + f.Cause}
			t.Output = text
		default:
			t.Output = text
		}
		all = append(all, t)
	}
	return all
}

func trials(m *report.Model) []test {
	var all []test
	for _, r := range m.Trials {
		t := test{Name: fmt.Sprintf("trial %d: %s under %s, block %d", r.Index, r.Variant, r.Load, r.Block)}
		switch r.State {
		case "failed":
			t.Error = &doubt{Message: r.Error, Type: "trial"}
		case "invalid":
			t.Skipped = &doubt{Message: "invalid: shown, and not used; see the findings"}
		}
		all = append(all, t)
	}
	return all
}
