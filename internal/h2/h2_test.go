package h2

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// log is a Receiver that writes down what it hears; pieces of bodies are joined.
type log struct {
	lines []string
	body  map[uint32]string
}

func (l *log) add(format string, args ...any) {
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *log) Header(slot uint32, h *Header, end bool) {
	kind := "header"
	if h.Trailer {
		kind = "trailer"
	}
	l.add("%d %s %q%s", slot, kind, h.Text, ending(end))
	if end {
		l.flush(slot)
	}
}

func (l *log) Data(slot uint32, b []byte, end bool) {
	l.body[slot] += string(b)
	if end {
		l.flush(slot)
	}
}

func (l *log) flush(slot uint32) {
	l.add("%d body %q", slot, l.body[slot])
	delete(l.body, slot)
}

func (l *log) Failed(slot uint32, err error) { l.add("%d %v", slot, err) }

func ending(end bool) string {
	if end {
		return " end"
	}
	return ""
}

// script is what a server sends.
type script struct {
	tb testing.TB
	bytes.Buffer
	*http2.Framer
}

func newScript(tb testing.TB, settings ...http2.Setting) *script {
	tb.Helper()
	s := &script{tb: tb}
	s.Framer = http2.NewFramer(&s.Buffer, nil)
	s.AllowIllegalWrites = true
	return s.do(s.WriteSettings(settings...))
}

func (s *script) do(err error) *script {
	s.tb.Helper()
	if err != nil {
		s.tb.Fatal(err)
	}
	return s
}

func (s *script) head(id uint32, end bool, fields ...string) *script {
	s.tb.Helper()
	return s.do(s.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: encode(s.tb, fields...), EndStream: end, EndHeaders: true}))
}

func (s *script) data(id uint32, end bool, text string) *script {
	s.tb.Helper()
	return s.do(s.WriteData(id, end, []byte(text)))
}

func (s *script) text() string { return s.String() }

const three = 3 // requests under way in most tests: streams 1, 3 and 5

func request(body string) *Request {
	return NewRequest([]Field{{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {":authority", "a"}}, []byte(body))
}

// started is a connection whose settings have come, with some requests.
func started(tb testing.TB, body string, settings ...http2.Setting) (c *Conn, sent []byte) {
	tb.Helper()
	c = New(request(body), three, "server")
	c.Open(nil)
	if err := c.Feed([]byte(newScript(tb, settings...).text()), nil); err != nil {
		tb.Fatal(err)
	}
	sent = c.Reply(nil)
	for slot := range uint32(three) {
		sent = c.Begin(sent, slot)
	}
	return c, sent
}

type outcome struct {
	Lines   []string
	Rest    map[uint32]string
	Err     bool
	Drained bool
}

func feed(tb testing.TB, text string, splits ...int) outcome {
	tb.Helper()
	c := New(request(""), three, "server")
	sent := c.Open(nil)
	for slot := range uint32(three) {
		sent = c.Begin(sent, slot)
	}
	l := &log{body: map[uint32]string{}}
	at := 0
	var o outcome
	for _, end := range append(splits, len(text)) {
		if end = max(end, at); end == at {
			continue
		}
		if err := c.Feed([]byte(text[at:end]), l); err != nil {
			o.Err = true
			break
		}
		if at == 0 || c.settled && c.next == 1 {
			sent = c.Reply(sent)
		}
		at = end
	}
	o.Lines, o.Rest, o.Drained = l.lines, l.body, c.Drained()
	return o
}

func TestFeed(t *testing.T) {
	t.Parallel()
	ok := []string{":status", "200", "server", "x"}
	const header = `header "HTTP/2 200\r\nserver: x\r\n"`
	with := func() *script { return newScript(t) }
	raw := func(b string) *script {
		s := newScript(t)
		s.WriteString(b)
		return s
	}
	split := func(end bool) *script {
		s := newScript(t)
		b := encode(t, ok...)
		s.do(s.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: b[:1], EndStream: end}))
		s.do(s.WriteContinuation(1, false, b[1:3]))
		return s.do(s.WriteContinuation(1, true, b[3:]))
	}
	padded := func() *script {
		s := newScript(t)
		s.do(s.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: encode(t, ok...), EndHeaders: true, PadLength: 9, Priority: http2.PriorityParam{StreamDep: 7, Weight: 3}}))
		s.do(s.WriteDataPadded(1, false, []byte("hel"), make([]byte, 7)))
		return s.do(s.WriteDataPadded(1, true, []byte("lo"), make([]byte, 255)))
	}
	endless := func(n int, each func(s *script) error) *script {
		s := newScript(t)
		for range n {
			s.do(each(s))
		}
		return s
	}
	tests := map[string]struct {
		script *script
		want   []string
		rest   map[uint32]string
		fails  bool
		drains bool
	}{
		"header only":              {script: with().head(1, true, ok...), want: []string{"0 " + header + " end", `0 body ""`}},
		"bodies, in turn":          {script: with().head(3, false, ok...).head(1, false, ok...).data(3, false, "a").data(1, true, "c").data(3, true, "b"), want: []string{"1 " + header, "0 " + header, `0 body "c"`, `1 body "ab"`}},
		"empty data at the end":    {script: with().head(1, false, ok...).data(1, false, "a").data(1, true, ""), want: []string{"0 " + header, `0 body "a"`}},
		"trailer":                  {script: with().head(1, false, ok...).data(1, false, "a").head(1, true, "grpc-status", "0"), want: []string{"0 " + header, `0 trailer "grpc-status: 0\r\n" end`, `0 body "a"`}},
		"interim headers":          {script: with().head(1, false, ":status", "103", "link", "x").head(1, true, ok...), want: []string{"0 " + header + " end", `0 body ""`}},
		"padding and priority":     {script: padded(), want: []string{"0 " + header, `0 body "hello"`}},
		"continuation":             {script: split(true), want: []string{"0 " + header + " end", `0 body ""`}},
		"reset":                    {script: with().do2(func(s *script) error { return s.WriteRSTStream(3, http2.ErrCodeRefusedStream) }).head(1, true, ok...), want: []string{"1 reset by the peer", "0 " + header + " end", `0 body ""`}},
		"after the end":            {script: with().head(1, true, ok...).data(1, true, "late").head(1, true, ok...).do2(func(s *script) error { return s.WriteWindowUpdate(1, 5) }).do2(func(s *script) error { return s.WriteRSTStream(1, http2.ErrCodeNo) }), want: []string{"0 " + header + " end", `0 body ""`}},
		"unfinished":               {script: with().head(1, false, ok...).data(1, false, "a"), want: []string{"0 " + header}, rest: map[uint32]string{0: "a"}},
		"unknown frame":            {script: with().do2(func(s *script) error { return s.WriteRawFrame(0x77, 0, 9, []byte("abc")) }).head(1, true, ok...), want: []string{"0 " + header + " end", `0 body ""`}},
		"going away":               {script: with().do2(func(s *script) error { return s.WriteGoAway(1, http2.ErrCodeNo, []byte("bye")) }).head(3, true, ok...).head(1, true, ok...), want: []string{"0 " + header + " end", `0 body ""`}, drains: true},
		"gone":                     {script: with().do2(func(s *script) error { return s.WriteGoAway(0, http2.ErrCodeNo, nil) }), drains: true},
		"data before its header":   {script: with().data(1, false, "a").head(3, true, ok...), want: []string{"0 the answer is malformed", "1 " + header + " end", `1 body ""`}},
		"malformed header":         {script: with().head(1, true, ":status", "200", "A", "b").head(3, true, ok...), want: []string{"0 the answer is malformed", "1 " + header + " end", `1 body ""`}},
		"trailer without end":      {script: with().head(1, false, ok...).head(1, false, "a", "b"), want: []string{"0 " + header, "0 the answer is malformed"}},
		"switching protocols":      {script: with().head(1, false, ":status", "101"), want: []string{"0 the answer is malformed"}},
		"interim at the end":       {script: with().head(1, true, ":status", "100"), want: []string{"0 the answer is malformed"}},
		"stream's window overflow": {script: with().do2(func(s *script) error { return s.WriteWindowUpdate(1, maxWindow) }), want: []string{"0 the answer is malformed"}},
		"window overflow":          {script: with().do2(func(s *script) error { return s.WriteWindowUpdate(0, maxWindow) }), fails: true},
		"window update of 0":       {script: with().do2(func(s *script) error { return s.WriteRawFrame(frameWindowUpdate, 0, 0, make([]byte, 4)) }), fails: true},
		"stream that is not ours":  {script: with().head(2, true, ok...), fails: true},
		"stream that is not yet":   {script: with().head(7, true, ok...), fails: true},
		"data of none":             {script: with().data(0, true, "a"), fails: true},
		"push":                     {script: raw("\x00\x00\x05\x05\x04\x00\x00\x00\x01\x00\x00\x00\x02\x88"), fails: true},
		"long frame":               {script: raw("\x00\x40\x01\x00\x00\x00\x00\x00\x01"), fails: true},
		"padding over the frame":   {script: with().head(1, false, ok...).do2(func(s *script) error { return s.WriteRawFrame(frameData, flagPadded, 1, []byte{2, 0}) }), want: []string{"0 " + header}, fails: true},
		"padding without length":   {script: with().head(1, false, ok...).do2(func(s *script) error { return s.WriteRawFrame(frameData, flagPadded, 1, nil) }), want: []string{"0 " + header}, fails: true},
		"header's padding": {script: with().do2(func(s *script) error {
			return s.WriteRawFrame(frameHeaders, flagPadded|flagEndHeaders, 1, []byte{9, 0x88})
		}), fails: true},
		"short priority":          {script: with().do2(func(s *script) error { return s.WriteRawFrame(framePriority, 0, 1, []byte{9}) }), fails: true},
		"short reset":             {script: with().do2(func(s *script) error { return s.WriteRawFrame(frameReset, 0, 1, []byte{9}) }), fails: true},
		"short ping":              {script: with().do2(func(s *script) error { return s.WriteRawFrame(framePing, 0, 0, []byte{9}) }), fails: true},
		"short going away":        {script: with().do2(func(s *script) error { return s.WriteRawFrame(frameGoAway, 0, 0, []byte{9}) }), fails: true},
		"short settings":          {script: with().do2(func(s *script) error { return s.WriteRawFrame(frameSettings, 0, 0, []byte{9}) }), fails: true},
		"ack with settings":       {script: with().do2(func(s *script) error { return s.WriteRawFrame(frameSettings, flagAck, 0, make([]byte, 6)) }), fails: true},
		"setting: push":           {script: newScript(t, http2.Setting{ID: http2.SettingEnablePush, Val: 1}), fails: true},
		"setting: window":         {script: newScript(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 31}), fails: true},
		"setting: frame":          {script: newScript(t, http2.Setting{ID: http2.SettingMaxFrameSize, Val: 100}), fails: true},
		"continuation of nothing": {script: with().do2(func(s *script) error { return s.WriteContinuation(1, true, nil) }), fails: true},
		"interrupted header":      {script: with().do2(func(s *script) error { return s.WriteHeaders(http2.HeadersFrameParam{StreamID: 1}) }).data(3, true, ""), fails: true},
		"endless header":          {script: endless(5, func(s *script) error { return s.WriteRawFrame(kindOf(s), 0, 1, make([]byte, maxFrame)) }), fails: true},
		"endless interim headers": {script: endless(2000, func(s *script) error { s.head(1, false, ":status", "103", "link", strings.Repeat("x", 60)); return nil }), fails: true},
		"endless continuation":    {script: endless(maxIdle+10, func(s *script) error { return s.WriteRawFrame(kindOf(s), 0, 1, nil) }), fails: true},
		"endless pings":           {script: endless(maxIdle+10, func(s *script) error { return s.WritePing(false, [8]byte{}) }), fails: true},
		"endless settings":        {script: endless(maxIdle+10, func(s *script) error { return s.WriteSettings() }), fails: true},
		"HTTP/1.1":                {script: &script{Buffer: *bytes.NewBufferString("HTTP/1.1 400 Bad Request\r\n\r\n")}, fails: true},
		"no settings":             {script: &script{Buffer: *bytes.NewBufferString("\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678")}, fails: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := tt.script.text()
			first := min(frameHeader, len(text)) // the settings, on which requests follow
			whole := feed(t, text, first)
			rest := tt.rest
			if rest == nil {
				rest = map[uint32]string{}
			}
			if diff := cmp.Diff(outcome{Lines: tt.want, Rest: rest, Err: tt.fails, Drained: tt.drains}, whole); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
			step := max(len(text)/300, 1)
			for split := first; split < len(text); split += step {
				if diff := cmp.Diff(whole, feed(t, text, first, split)); diff != "" {
					t.Fatalf("split at %d (-whole +split):\n%s", split, diff)
				}
			}
			every := make([]int, len(text))
			for i := range every {
				every[i] = i
			}
			if diff := cmp.Diff(whole, feed(t, text, every...)); diff != "" {
				t.Fatalf("byte by byte (-whole +bytes):\n%s", diff)
			}
		})
	}
}

// do2 writes something else.
func (s *script) do2(write func(*script) error) *script {
	s.tb.Helper()
	return s.do(write(s))
}

// kindOf is a header's first frame, or a further one.
func kindOf(s *script) http2.FrameType {
	if s.Len() == frameHeader {
		return frameHeaders
	}
	return frameContinuation
}

func FuzzFeed(f *testing.F) {
	f.Add([]byte(newScript(f).head(1, false, ":status", "200").data(1, true, "hello").text()), uint16(12), uint16(30))
	f.Add([]byte(newScript(f).head(1, false, ":status", "200").head(1, true, "grpc-status", "0").text()), uint16(3), uint16(11))
	f.Fuzz(func(t *testing.T, text []byte, a, b uint16) {
		text = append([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00"), text...)
		one := min(int(a)+frameHeader, len(text))
		two := min(max(int(b), one), len(text))
		whole := feed(t, string(text), frameHeader)
		if diff := cmp.Diff(whole, feed(t, string(text), frameHeader, one, two)); diff != "" {
			t.Errorf("split at %d and %d (-whole +split):\n%s", one, two, diff)
		}
	})
}

// frames lists what was sent, but for the preface.
func frames(tb testing.TB, b []byte) []string {
	tb.Helper()
	b = bytes.TrimPrefix(b, []byte(Preface))
	var out []string
	for len(b) > 0 {
		h := parseHeader(b)
		name := strings.TrimPrefix(http2.FrameType(h.kind).String(), "FRAME_TYPE_")
		switch h.kind {
		case frameData, frameHeaders, frameContinuation:
			out = append(out, fmt.Sprintf("%s %d of %d, flags %x", name, h.id, h.length, h.flags))
		case frameReset, framePing, frameWindowUpdate:
			out = append(out, fmt.Sprintf("%s %d %x, flags %x", name, h.id, b[frameHeader:frameHeader+h.length], h.flags))
		default:
			out = append(out, fmt.Sprintf("%s, flags %x", name, h.flags))
		}
		b = b[frameHeader+h.length:]
	}
	return out
}

func check(tb testing.TB, b []byte, want ...string) {
	tb.Helper()
	if diff := cmp.Diff(want, frames(tb, b)); diff != "" {
		tb.Errorf("sent (-want +got):\n%s", diff)
	}
}

func (c *Conn) hear(tb testing.TB, s *script) []byte {
	tb.Helper()
	if err := c.Feed([]byte(s.text()), &log{body: map[uint32]string{}}); err != nil {
		tb.Fatal(err)
	}
	return c.Reply(nil)
}

// bare is a script without settings.
func bare(tb testing.TB) *script {
	tb.Helper()
	s := newScript(tb)
	s.Reset()
	return s
}

func TestRequestsWaitForSettings(t *testing.T) {
	t.Parallel()
	c := New(request("hello"), three)
	out := c.Open(nil)
	for slot := range uint32(three) {
		out = c.Begin(out, slot)
	}
	check(t, out, "SETTINGS, flags 0", "WINDOW_UPDATE 0 3fff0001, flags 0")
	out = c.hear(t, newScript(t, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 2}))
	check(t, out, "SETTINGS, flags 1", "HEADERS 1 of 6, flags 4", "DATA 1 of 5, flags 1", "HEADERS 3 of 4, flags 4", "DATA 3 of 5, flags 1")
	check(t, c.hear(t, bare(t).head(3, true, ":status", "200")), "HEADERS 5 of 4, flags 4", "DATA 5 of 5, flags 1")
	check(t, c.Begin(nil, 1)) // two are under way
	check(t, c.Cancel(nil, 0), "RST_STREAM 1 00000008, flags 0", "HEADERS 7 of 4, flags 4", "DATA 7 of 5, flags 1")
	check(t, c.Begin(nil, 0))
	check(t, c.Cancel(nil, 0)) // it was never sent
	check(t, c.hear(t, bare(t).head(5, true, ":status", "200")))
}

// A request has a field of its own, the others do not: whether it is the first,
// a further one, or one that has waited.
func TestFieldOfOneRequest(t *testing.T) {
	t.Parallel()
	c := New(NewRequest([]Field{{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {":authority", "a"}, {"x", "y"}}, []byte("hello")), three)
	c.Open(nil)
	out := c.hear(t, newScript(t, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 2}))
	for slot, own := range []string{"1", "", "3"} {
		if own == "" {
			out = c.Begin(out, uint32(slot))
			continue
		}
		out = c.BeginWith(out, uint32(slot), Field{"x-request-id", own})
	}
	out = append(out, c.hear(t, bare(t).head(1, true, ":status", "200"))...) // makes place for the third
	out = c.Begin(out, 0)
	out = append(out, c.hear(t, bare(t).head(3, true, ":status", "200"))...)
	framer := http2.NewFramer(nil, bytes.NewReader(out))
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	var got []string
	for {
		f, err := framer.ReadFrame()
		if err != nil {
			break
		}
		if h, ok := f.(*http2.MetaHeadersFrame); ok {
			var own []string
			for _, field := range h.RegularFields() {
				own = append(own, field.Name+"="+field.Value)
			}
			got = append(got, fmt.Sprint(h.StreamID, h.PseudoValue("path"), " ", strings.Join(own, " ")))
		}
	}
	if want := []string{"1/ x=y x-request-id=1", "3/ x=y", "5/ x=y x-request-id=3", "7/ x=y"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSendingKeepsToTheWindows(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("x", 40000)
	c, sent := started(t, body, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 20000})
	check(t, sent, "SETTINGS, flags 1",
		"HEADERS 1 of 6, flags 4", "DATA 1 of 16384, flags 0", "DATA 1 of 3616, flags 0",
		"HEADERS 3 of 4, flags 4", "DATA 3 of 16384, flags 0", "DATA 3 of 3616, flags 0",
		"HEADERS 5 of 4, flags 4", "DATA 5 of 16384, flags 0", "DATA 5 of 3616, flags 0") // 60000 of the connection's 65535
	s := bare(t)
	s.do(s.WriteWindowUpdate(3, 30000))
	check(t, c.hear(t, s), "DATA 3 of 5535, flags 0") // all that the connection had left
	s = bare(t)
	s.do(s.WriteWindowUpdate(0, 1_000_000))
	check(t, c.hear(t, s), "DATA 3 of 14465, flags 1")
	s = bare(t)
	s.do(s.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10000}))
	s.do(s.WriteWindowUpdate(1, 15000)) // 10000 below nothing, and 15000
	check(t, c.hear(t, s), "SETTINGS, flags 1", "DATA 1 of 5000, flags 0")
	s = bare(t)
	s.do(s.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100000}, http2.Setting{ID: http2.SettingMaxFrameSize, Val: 30000}))
	check(t, c.hear(t, s), "SETTINGS, flags 1", "DATA 5 of 20000, flags 1", "DATA 1 of 15000, flags 1")
}

func TestAnswerBeforeTheBodyWasSent(t *testing.T) {
	t.Parallel()
	c, _ := started(t, strings.Repeat("x", 40000), http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100})
	check(t, c.hear(t, bare(t).head(3, true, ":status", "413")), "RST_STREAM 3 00000008, flags 0")
	s := bare(t)
	s.do(s.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 50000}))
	if got := c.hear(t, s); len(frames(t, got)) < 3 || strings.Contains(strings.Join(frames(t, got), " "), "DATA 3 ") {
		t.Errorf("sent %v", frames(t, got))
	}
}

func TestReceivingRaisesTheWindows(t *testing.T) {
	t.Parallel()
	c, _ := started(t, "")
	c.hear(t, bare(t).head(1, false, ":status", "200"))
	piece := bare(t).data(1, false, strings.Repeat("x", maxFrame))
	var out []byte
	for range windowUpdate / maxFrame {
		if len(out) > 0 {
			t.Fatal("too early")
		}
		out = c.hear(t, piece)
	}
	check(t, out, "WINDOW_UPDATE 1 20000000, flags 0", "WINDOW_UPDATE 0 20000000, flags 0")
	c, _ = started(t, "")
	c.hear(t, bare(t).head(1, false, ":status", "200"))
	l := &log{body: map[uint32]string{}}
	c.left = maxFrame
	if err := c.Feed([]byte(piece.text()), l); err != nil {
		t.Error(err)
	}
	if err := c.Feed([]byte(piece.text()), l); err == nil {
		t.Error("the window was overrun")
	}
}

func TestPing(t *testing.T) {
	t.Parallel()
	c, _ := started(t, "")
	s := bare(t)
	s.do(s.WritePing(false, [8]byte{1, 2}))
	s.do(s.WritePing(true, [8]byte{3}))
	check(t, c.hear(t, s), "PING 0 0102000000000000, flags 1")
}

func TestSmallerTable(t *testing.T) {
	t.Parallel()
	c, sent := started(t, "")
	check(t, sent, "SETTINGS, flags 1", "HEADERS 1 of 6, flags 5", "HEADERS 3 of 4, flags 5", "HEADERS 5 of 4, flags 5")
	c.hear(t, bare(t).head(1, true, ":status", "200").head(3, true, ":status", "200"))
	s := bare(t)
	s.do(s.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0}))
	check(t, c.hear(t, s), "SETTINGS, flags 1")
	check(t, c.Begin(c.Begin(nil, 0), 1), "HEADERS 7 of 7, flags 5", "HEADERS 9 of 6, flags 5")
}

func TestDraining(t *testing.T) {
	t.Parallel()
	c, _ := started(t, "")
	s := bare(t)
	s.do(s.WriteGoAway(3, http2.ErrCodeNo, nil))
	c.hear(t, s.head(1, true, ":status", "200"))
	check(t, c.Begin(nil, 0)) // goes to the next connection
	if c.Drained() || !c.Unprocessed(0) || c.Unprocessed(1) || !c.Unprocessed(2) {
		t.Error("stream 3 is still to be answered, the others will not be")
	}
	c.hear(t, bare(t).head(3, true, ":status", "200"))
	if !c.Drained() {
		t.Error("nothing is under way any more")
	}
	if c.Open(nil); c.Drained() || c.Unprocessed(0) {
		t.Error("a new connection drains")
	}
}

func TestStreamNumbersAreUsedUp(t *testing.T) {
	t.Parallel()
	c, _ := started(t, "")
	c.hear(t, bare(t).head(1, true, ":status", "200").head(3, true, ":status", "200"))
	c.next = maxStreamID
	check(t, c.Begin(nil, 0), "HEADERS 2147483647 of 4, flags 5")
	check(t, c.Begin(nil, 1))
	if !c.Unprocessed(1) || c.Unprocessed(0) || c.Drained() {
		t.Error("the second was not sent")
	}
	c.hear(t, bare(t).head(5, true, ":status", "200").head(maxStreamID, true, ":status", "200"))
	if !c.Drained() {
		t.Error("the connection is to be replaced")
	}
}

// A request that is never answered must not get in the way of the others.
func TestOldStreamKeepsItsPlace(t *testing.T) {
	t.Parallel()
	c, _ := started(t, "")
	for range 100 {
		l := &log{body: map[uint32]string{}}
		id := c.streams[1].id
		if err := c.Feed([]byte(bare(t).head(id, true, ":status", "200").text()), l); err != nil || len(l.lines) != 2 || l.lines[0][0] != '1' {
			t.Fatal(err, l.lines)
		}
		c.Begin(nil, 1)
	}
	l := &log{body: map[uint32]string{}}
	if err := c.Feed([]byte(bare(t).head(1, true, ":status", "200").text()), l); err != nil || len(l.lines) != 2 || l.lines[0][0] != '0' {
		t.Fatal(err, l.lines)
	}
}
