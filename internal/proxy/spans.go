package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

const (
	spansFile = "spans.jsonl" // beside the Envoy's configuration
	maxSpans  = 64 << 20      // bytes that are read of it
)

// FlushSpans are arguments with which an Envoy writes its log soon: by default
// it keeps lines for 10 s.
func FlushSpans() []string { return []string{"--file-flush-interval-msec", "50"} }

// LogSpans has the HTTP connection managers of listeners log traced requests,
// and no others. What each logs begins with its stat prefix.
func LogSpans(listeners any) {
	switch v := listeners.(type) {
	case Object:
		if kind, _ := v["@type"].(string); strings.HasSuffix(kind, ".HttpConnectionManager") {
			logs, _ := v["access_log"].(List) // those that the layer has anyway
			v["access_log"] = append(slices.Clip(logs), spanLog(v["stat_prefix"]))
		}
		for _, inner := range v {
			LogSpans(inner)
		}
	case List:
		for _, inner := range v {
			LogSpans(inner)
		}
	}
}

// spanLog logs by Envoy's own stamps, in microseconds.
func spanLog(of any) Object {
	log := Extension("envoy.access_loggers.file", "envoy.extensions.access_loggers.file.v3.FileAccessLog", Object{
		"path": "{dir}/" + spansFile,
		"log_format": Object{"json_format": Object{
			"of":       of,
			"id":       "%REQ(" + strings.ToUpper(model.HeaderRequestID) + ")%",
			"start":    "%START_TIME(%s.%6f)%",
			"took":     "%COMMON_DURATION(DS_RX_BEG:DS_TX_END:us)%",
			"upstream": "%COMMON_DURATION(US_TX_BEG:US_RX_END:us)%",
			"local":    "%DOWNSTREAM_LOCAL_ADDRESS%",
			"peer":     "%UPSTREAM_HOST%",
			"app":      "%RESP(" + strings.ToUpper(model.HeaderTiming) + ")%",
		}},
	})
	log["filter"] = Object{"header_filter": Object{"header": Object{
		"name": model.HeaderRequestID, "string_match": Object{"prefix": model.TracedPrefix},
	}}}
	return log
}

// Spans are what the Envoy has logged so far. of says what a stat prefix stands
// for; those that it does not know are left out.
func (e *Envoy) Spans(of func(stat string) (service string, inbound, known bool)) ([]model.Span, error) {
	ended, ok := e.process.(model.Finisher)
	if !ok {
		return nil, &model.UnsupportedError{What: "a breakdown of latency", Missing: "this target's processes have no files that can be read", Hint: "use the lab"}
	}
	raw, err := ended.ReadFile(spansFile, maxSpans)
	if err != nil {
		return nil, fmt.Errorf("reading what the Envoy in %s has traced: %w", e.Where.Name(), err)
	}
	spans, err := parseSpans(raw, e.Where.Name(), of)
	if err != nil {
		return nil, fmt.Errorf("reading what the Envoy in %s has traced: %w", e.Where.Name(), err)
	}
	return spans, nil
}

// parseSpans reads the log up to its last whole line.
func parseSpans(raw []byte, pod string, of func(stat string) (service string, inbound, known bool)) ([]model.Span, error) {
	var all []model.Span
	for line := range bytes.Lines(raw) {
		if line[len(line)-1] != '\n' {
			break
		}
		var l spanLine
		if err := json.Unmarshal(line, &l); err != nil {
			return nil, fmt.Errorf("%.100q is no line of its log: %w", line, err)
		}
		number, traced := model.TracedNumber(l.ID)
		service, inbound, known := of(l.Of)
		if !traced || !known || l.Took == nil || l.Upstream == nil {
			continue // one that has failed has no upstream, and is not broken down
		}
		start, err := unixNano(l.Start)
		if err != nil {
			return nil, err
		}
		us := time.Microsecond.Nanoseconds()
		s := model.Span{
			Request: number, Pod: pod, Service: service, Inbound: inbound,
			Start: start, Took: *l.Took * us, Upstream: *l.Upstream * us, App: model.Timing(l.App), Own: model.OwnTiming(l.App),
		}
		s.Local, _ = netip.ParseAddrPort(l.Local) // none where it has no address
		s.Peer, _ = netip.ParseAddrPort(l.Peer)
		all = append(all, s)
	}
	return all, nil
}

// spanLine is a line of the log; what Envoy does not know is null.
type spanLine struct {
	Of       string `json:"of"`
	ID       string `json:"id"`
	Start    string `json:"start"`
	Took     *int64 `json:"took"`
	Upstream *int64 `json:"upstream"`
	Local    string `json:"local"`
	Peer     string `json:"peer"`
	App      string `json:"app"`
}

// unixNano reads seconds since 1970 with six decimals, without the error that a
// float of that size has.
func unixNano(text string) (int64, error) {
	const decimals = 6
	seconds, micros, ok := strings.Cut(text, ".")
	s, err1 := strconv.ParseInt(seconds, 10, 64)
	us, err2 := strconv.ParseInt(micros, 10, 64)
	if !ok || len(micros) != decimals || s < 0 || us < 0 || s > math.MaxInt64/int64(time.Second)-1 || errors.Join(err1, err2) != nil {
		return 0, fmt.Errorf("%.30q is no time in seconds with %d decimals", text, decimals)
	}
	return s*int64(time.Second) + us*int64(time.Microsecond), nil
}
