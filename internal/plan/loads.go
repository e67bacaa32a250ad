package plan

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// columns is how wide the plan's text is.
const columns = 100

func loads(b *strings.Builder, s model.Study) {
	rows := [][]string{{"", "load", "sends", "connections", "window", "timeout", "request"}}
	more := [][]string{}
	for i, l := range s.Loads {
		number := strconv.Itoa(i + 1)
		rows = append(rows, []string{
			number, l.Name, sends(l), strconv.Itoa(l.Connections), l.Duration.String(), l.Timeout.String(),
			fmt.Sprintf("%s, %s to %s", l.Protocol, senders(l), l.To),
		})
		for _, d := range append(details(l), harms(l, s.Faults)...) {
			more = append(more, []string{number, fit(d, columns-len(number)-3)})
			number = strings.Repeat(" ", len(number))
		}
	}
	table(b, rows)
	if len(more) > 0 {
		table(b, more)
	}
}

// harms say what is done while a load runs.
func harms(l model.Load, faults []model.Scenario) []string {
	var all []string
	for _, f := range faults {
		if f.Name != l.Fault {
			continue
		}
		for _, e := range f.Events {
			text := fmt.Sprintf("fault %s: at %s %s", f.Name, e.At, plugin(e.Fault))
			if e.Heal > 0 {
				text += fmt.Sprintf(", healed at %s", e.Heal)
			}
			all = append(all, text)
		}
	}
	return all
}

// fit cuts what is too long, such as a file's content.
func fit(text string, room int) string {
	text = strings.ReplaceAll(text, "\n", " ")
	if len(text) > room {
		return strings.ToValidUTF8(text[:room-2], "") + ".."
	}
	return text
}

func senders(l model.Load) string {
	if n := len(l.Generators); n > 0 {
		return fmt.Sprintf("%d pods", n+1)
	}
	return l.From
}

func perSecond(rate float64) string { return strconv.FormatFloat(rate, 'f', -1, 64) + "/s" }

// sends says in a word what a load sends; details says the rest.
func sends(l model.Load) string {
	switch p := l.Pattern; {
	case l.Arrival == model.ArrivalClosed:
		return "closed loop"
	case l.Relative != nil:
		return fmt.Sprintf("%s of %s %s", percent(l.Relative.Share), l.Relative.Among, l.Relative.Of)
	case l.Search != nil:
		return "open loop, search"
	case len(p.Times) > 0:
		return "open loop, replay"
	case len(p.Segments) == 1:
		return fmt.Sprintf("open loop, %s to %s", perSecond(p.Segments[0].From), perSecond(p.Segments[0].To))
	case len(p.Segments) > 1:
		return fmt.Sprintf("open loop, %d steps", len(p.Segments))
	case l.Rate == 0:
		return "open loop, by bitrate" // the protocol's own key
	}
	return "open loop, " + perSecond(l.Rate)
}

func details(l model.Load) []string {
	var all []string
	if len(l.Config) > 0 {
		all = append(all, string(l.Config))
	}
	if s := l.Search; s != nil {
		texts := make([]string, len(s.Objectives))
		for i, o := range s.Objectives {
			texts[i] = o.Text
		}
		all = append(all, "highest rate with "+strings.Join(texts, ", "),
			fmt.Sprintf("searched from %s to %s within %s: probes of %s, %s", perSecond(s.From), perSecond(s.To),
				percent(s.Precision), s.Probe, count(s.Confirmations, "confirmation")))
	}
	if text := strings.Join(pattern(l.Pattern), ", "); text != "" {
		all = append(all, text)
	}
	if text := strings.Join(manners(l), ", "); text != "" {
		all = append(all, text)
	}
	if len(l.Generators) > 0 {
		all = append(all, "from "+strings.Join(append([]string{l.From}, l.Generators...), ", "))
	}
	return all
}

func pattern(p model.Pattern) []string {
	var all []string
	if n := len(p.Times); n > 0 {
		all = append(all, fmt.Sprintf("%s from %s to %s", count(n, "request"), p.Times[0], p.Times[n-1]))
	}
	if len(p.Segments) > 1 {
		rates := make([]string, len(p.Segments))
		for i, s := range p.Segments {
			rates[i] = perSecond(s.From)
		}
		all = append(all, strings.Join(rates, ", ")+" in turn")
	}
	if p.Poisson {
		all = append(all, "at random times (Poisson)")
	}
	if p.Burst > 1 {
		all = append(all, fmt.Sprintf("%d at a time", p.Burst))
	}
	return all
}

// manners are the settings that most loads leave alone.
func manners(l model.Load) []string {
	var all []string
	add := func(given bool, format string, args ...any) {
		if given {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	spans := func(what string, d time.Duration) { add(d > 0, "%s %s", what, d) }
	add(l.Driver != "", "sent by %s", l.Driver)
	add(len(l.Limits) > 0, "limits: %s", l.Limits)
	spans("think", l.Think)
	add(l.Pace > 0, "at most %s", perSecond(l.Pace))
	add(l.Drop, "dropped when blocked")
	spans("coalesce", l.Coalesce)
	spans("spin", l.Spin)
	add(l.Breakdown > 0, "broken down for %s after the blocks", l.Breakdown)
	if t := l.TLS; t != nil {
		add(true, "TLS")
		add(t.ServerName != "", "server name %s", t.ServerName)
		add(t.CA != "", "a CA of its own")
		add(t.Insecure, "any certificate")
	}
	return all
}
