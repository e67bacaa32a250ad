// Package iperf3 reads what iperf3 prints with --json or --json-stream on the
// client's side.
package iperf3

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Name is the format's and the tool's name.
const Name = "iperf3"

const maxBytes = 64 << 20 // a day of intervals of a second

type result struct {
	Error string `json:"error"`
	Start struct {
		Version   string `json:"version"`
		System    string `json:"system_info"`
		MSS       int    `json:"tcp_mss_default"`
		Timestamp struct {
			Seconds int64 `json:"timesecs"`
		} `json:"timestamp"`
		Connecting struct {
			Host string `json:"host"`
			Port int    `json:"port"`
		} `json:"connecting_to"`
		TestStart struct {
			Protocol string  `json:"protocol"`
			Streams  int     `json:"num_streams"`
			Block    int     `json:"blksize"`
			Reverse  int     `json:"reverse"`
			Duration float64 `json:"duration"`
		} `json:"test_start"`
	} `json:"start"`
	Intervals []interval `json:"intervals"`
	End       struct {
		Streams []struct {
			Sender struct {
				RTT int64 `json:"mean_rtt"` // microseconds
			} `json:"sender"`
			UDP struct {
				OutOfOrder uint64 `json:"out_of_order"`
			} `json:"udp"`
		} `json:"streams"`
		Sum         sum    `json:"sum"` // of UDP
		Sent        *sum   `json:"sum_sent"`
		Received    *sum   `json:"sum_received"`
		BackReceive *sum   `json:"sum_received_bidir_reverse"`
		Congestion  string `json:"sender_tcp_congestion"`
		CPU         struct {
			Host   float64 `json:"host_total"`
			Remote float64 `json:"remote_total"`
		} `json:"cpu_utilization_percent"`
	} `json:"end"`
}

type interval struct {
	Sum  sum  `json:"sum"`
	Back *sum `json:"sum_bidir_reverse"`
}

type sum struct {
	Seconds     float64 `json:"seconds"`
	Bytes       uint64  `json:"bytes"`
	Retransmits uint64  `json:"retransmits"`
	Omitted     bool    `json:"omitted"`
	Jitter      float64 `json:"jitter_ms"`
	Lost        int64   `json:"lost_packets"`
	Packets     uint64  `json:"packets"`
}

// Format is the catalog entry.
func Format() ingest.Format {
	return ingest.Format{
		Name: Name, Summary: "what iperf3's client prints with --json or --json-stream",
		Detect: func(head []byte) bool {
			head = bytes.TrimSpace(head)
			has := func(s string) bool { return bytes.Contains(head, []byte(s)) }
			return bytes.HasPrefix(head, []byte("{")) && (isStream(head) || has(`"start"`) && has(`"connected"`) && has(`"version"`) && has("iperf"))
		},
		Read: func(r io.Reader, about ingest.About) ([]ingest.Measurement, error) {
			m, err := readOne(r, about)
			if err != nil {
				return nil, fmt.Errorf("reading iperf3's result: %w", err)
			}
			return []ingest.Measurement{*m}, nil
		},
	}
}

// Read reads one result.
func Read(r io.Reader, about ingest.About) (*model.LoadResult, error) {
	m, err := readOne(r, about)
	if err != nil {
		return nil, fmt.Errorf("reading iperf3's result: %w", err)
	}
	return m.Result, nil
}

func readOne(r io.Reader, about ingest.About) (*ingest.Measurement, error) {
	data, err := ingest.ReadAll(r, maxBytes)
	if err != nil {
		return nil, err
	}
	var f result
	format := "JSON"
	if data = bytes.TrimSpace(data); isStream(data) {
		format, err = "JSON stream", f.events(data)
	} else {
		err = json.Unmarshal(data, &f)
	}
	if err != nil {
		return nil, err
	}
	out, err := f.convert(about)
	if err != nil {
		return nil, err
	}
	m := &ingest.Measurement{Result: out}
	start := &f.Start
	if s := start.Timestamp.Seconds; s > 0 && s < 1<<33 {
		m.Started = time.Unix(s, 0).UTC()
	}
	m.Label(ingest.LabelFormat, format)
	m.Label(ingest.LabelVersion, start.Version)
	m.Label(ingest.LabelProtocol, start.TestStart.Protocol)
	m.Label(ingest.LabelPlanned, strconv.FormatFloat(start.TestStart.Duration, 'f', -1, 64))
	m.Label(ingest.LabelURL, address(start.Connecting.Host, start.Connecting.Port))
	m.Label("host", start.System)
	m.Label("generator's CPU, percent", strconv.FormatFloat(f.End.CPU.Host, 'f', 1, 64))
	m.Label("server's CPU, percent", strconv.FormatFloat(f.End.CPU.Remote, 'f', 1, 64))
	return m, nil
}

func address(host string, port int) string {
	if host == "" {
		return ""
	}
	return host + ":" + strconv.Itoa(port)
}

// isStream says whether the first line is an event.
func isStream(data []byte) bool {
	first, _, _ := bytes.Cut(data, []byte{'\n'})
	return bytes.HasPrefix(bytes.ReplaceAll(first, []byte{' '}, nil), []byte(`{"event":`))
}

// events reads the events of --json-stream, a line each: start, interval, end,
// and error.
func (f *result) events(data []byte) error {
	return ingest.Lines(bytes.NewReader(data), func(line string) error {
		if strings.TrimSpace(line) == "" {
			return nil
		}
		var e struct {
			Event string
			Data  json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return err
		}
		switch e.Event {
		case "start":
			return json.Unmarshal(e.Data, &f.Start)
		case "interval":
			var v interval
			err := json.Unmarshal(e.Data, &v)
			f.Intervals = append(f.Intervals, v)
			return err
		case "end":
			return json.Unmarshal(e.Data, &f.End)
		case "error":
			return json.Unmarshal(e.Data, &f.Error)
		}
		return nil // e.g. the server's output
	})
}

func (f *result) convert(about ingest.About) (*model.LoadResult, error) {
	if f.Error != "" {
		return nil, fmt.Errorf("iperf3 failed: %.300s", f.Error)
	}
	about.Connections = f.Start.TestStart.Streams
	out := ingest.NewResult(Name, about, model.BasisNothing)
	out.Tool.Version = f.Start.Version
	switch f.Start.TestStart.Protocol {
	case "TCP":
		out.Arrival, out.Rate = model.ArrivalClosed, 0
		return out, f.stream(out)
	case "UDP":
		out.Arrival = model.ArrivalOpen
		return out, f.datagrams(out)
	}
	return nil, fmt.Errorf("protocol %.20q: neither TCP nor UDP", f.Start.TestStart.Protocol)
}

func (f *result) stream(out *model.LoadResult) error {
	e := &f.End
	if e.Sent == nil || e.Received == nil {
		return errors.New("it has no sum_sent and sum_received: the run did not end")
	}
	elapsed, err := ingest.Seconds(e.Received.Seconds)
	if err != nil {
		return err
	}
	s := &model.StreamResult{
		Streams: f.Start.TestStart.Streams, Direction: "up", Up: e.Received.Bytes, Block: f.Start.TestStart.Block,
		Retransmits: e.Sent.Retransmits, MSS: f.Start.MSS, Congestion: e.Congestion,
	}
	reverse := f.Start.TestStart.Reverse != 0
	switch {
	case e.BackReceive != nil:
		s.Direction, s.Down = "both", e.BackReceive.Bytes
	case reverse:
		s.Direction, s.Up, s.Down = "down", 0, e.Received.Bytes
	}
	if reverse {
		out.Tool.Note("retransmits are the server's")
	} else {
		out.Tool.Note("intervals count what was sent, the totals what was received")
	}
	if s.RTT, err = f.rtt(); err != nil {
		return err
	}
	for i := range f.Intervals {
		v := &f.Intervals[i]
		if v.Sum.Omitted {
			continue
		}
		length, err := ingest.Seconds(v.Sum.Seconds)
		if err != nil {
			return fmt.Errorf("interval %d: %w", i, err)
		}
		one := model.StreamInterval{Length: length, Up: v.Sum.Bytes, Retransmits: v.Sum.Retransmits}
		if reverse {
			one.Up, one.Down = 0, v.Sum.Bytes
		}
		if v.Back != nil {
			one.Down = v.Back.Bytes
		}
		s.Intervals = append(s.Intervals, one)
	}
	out.Elapsed, out.Stream = elapsed, s
	out.BytesSent, out.BytesReceived = s.Up, s.Down
	return nil
}

// rtt is the mean of the streams' means.
func (f *result) rtt() (time.Duration, error) {
	var total, n int64
	for _, s := range f.End.Streams {
		const most = int64(time.Hour / time.Microsecond)
		if s.Sender.RTT < 0 || s.Sender.RTT > most {
			return 0, fmt.Errorf("a round trip of %d us", s.Sender.RTT)
		}
		if s.Sender.RTT > 0 {
			total, n = total+s.Sender.RTT, n+1
		}
	}
	if n == 0 {
		return 0, nil
	}
	return time.Duration(total / n * int64(time.Microsecond)), nil
}

func (f *result) datagrams(out *model.LoadResult) error {
	s := &f.End.Sum
	if s.Lost < 0 || uint64(s.Lost) > s.Packets {
		return fmt.Errorf("%d of %d datagrams lost", s.Lost, s.Packets)
	}
	elapsed, err := ingest.Seconds(s.Seconds)
	if err != nil {
		return err
	}
	jitter, err := ingest.Seconds(s.Jitter / 1000)
	if err != nil {
		return err
	}
	d := &model.DatagramResult{
		Size: f.Start.TestStart.Block, Sent: s.Packets, Received: s.Packets - uint64(s.Lost), Lost: uint64(s.Lost), Jitter: jitter,
	}
	for _, one := range f.End.Streams {
		d.Reordered += one.UDP.OutOfOrder
	}
	for i := range f.Intervals {
		v := &f.Intervals[i].Sum
		if v.Omitted {
			continue
		}
		length, err := ingest.Seconds(v.Seconds)
		if err != nil {
			return fmt.Errorf("interval %d: %w", i, err)
		}
		d.Intervals = append(d.Intervals, model.DatagramInterval{Length: length, Sent: v.Packets})
	}
	out.Tool.Note("intervals tell what was sent only; what the receiver's socket and interface dropped is not told")
	out.Tool.Note("iperf3 counts a datagram that comes late as lost first and takes it back then; duplicates are not told")
	out.Elapsed, out.Datagrams = elapsed, d
	out.BytesSent = s.Bytes
	return nil
}
