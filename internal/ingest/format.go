package ingest

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Measurement is one load of which a file tells.
type Measurement struct {
	Name     string            // what the file calls it, unique within the file; "" if it holds only one
	Started  time.Time         // zero: the format does not tell
	Labels   map[string]string // further things that the file says of it, see the Label constants
	Result   *model.LoadResult
	Requests []Request         // in order of Sent, where the format has single requests; bounded, see MaxRequests
	Response map[string]string // response headers of a sample, where the format has them
}

// Request is one request of a Measurement.
type Request struct {
	Seq     uint64
	Due     time.Time // zero: not told
	Sent    time.Time
	Latency time.Duration // from the basis named in Result.Tool.Basis
	Code    int
	Error   string
	Bytes   int64  // of the body
	Payload string // the body if short text (<= 128 bytes), else "sha256:" + 16 hex digits; "" if not told
}

// Labels that several formats have. Those marked with a unit are plain numbers:
// see Measurement.Number.
const (
	LabelFormat   = "format"       // which of a tool's formats it was
	LabelVersion  = "tool version" // as Result.Tool.Version
	LabelThreads  = "threads"
	LabelProcs    = "GOMAXPROCS" // CPUs that the generator could use at a time
	LabelCommand  = "command line"
	LabelLabel    = "label" // what the user called the run
	LabelURL      = "URL"
	LabelProtocol = "protocol"             // as the tool calls it: "HTTP", "GRPC", "TCP"
	LabelAsked    = "asked rate"           // requests per second, or "max"
	LabelAchieved = "achieved rate"        // requests per second, as the tool says
	LabelPlanned  = "planned duration"     // seconds
	LabelBehind   = "sleep falling behind" // percent of the generator's pauses that began after they should have ended; Fortio warns above 5
	LabelSockets  = "sockets used"         // connections opened
	LabelPerfect  = "sockets for perfect keep-alive"
	LabelAborted  = "aborted"  // why the tool ended before it measured anything: Result is empty then
	LabelWarnings = "warnings" // of the tool, one a line
)

// Number is a label that is a number.
func (m *Measurement) Number(label string) (float64, bool) {
	v, err := strconv.ParseFloat(m.Labels[label], 64)
	return v, err == nil
}

// Format is a catalog entry: a reader and how to recognise its input.
type Format struct {
	Name, Summary string
	Detect        func(head []byte) bool // of the first 64 KiB
	Read          func(r io.Reader, about About) ([]Measurement, error)
}

const (
	// MaxRequests bounds Measurement.Requests; further ones are counted in
	// Result only, and a note says so.
	MaxRequests = 1 << 20
	// MaxMeasurements bounds what one file may hold.
	MaxMeasurements = 1000

	headBytes   = 64 << 10
	maxUnzipped = 4 << 30
)

// Open finds the format of a file's content among formats and reads it; an error
// names what was tried. What is compressed with gzip is read as what is in it.
func Open(r io.Reader, formats []Format, about About) (Format, []Measurement, error) {
	in, err := Unzip(r)
	if err != nil {
		return Format{}, nil, err
	}
	head, err := in.Peek(headBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return Format{}, nil, err
	}
	if len(head) == 0 {
		return Format{}, nil, errors.New("the file is empty")
	}
	i := slices.IndexFunc(formats, func(f Format) bool { return f.Detect(head) })
	if i < 0 {
		names := make([]string, 0, len(formats))
		for _, f := range formats {
			names = append(names, f.Name)
		}
		return Format{}, nil, fmt.Errorf("the file begins with %.60q: that is none of the formats that are known (%s)",
			head[:min(len(head), 60)], strings.Join(names, ", "))
	}
	f := formats[i]
	all, err := f.Read(in, about)
	if err != nil {
		return f, nil, err
	}
	if len(all) == 0 {
		return f, nil, fmt.Errorf("it is a file of %s, but holds no measurement", f.Name)
	}
	return f, all, nil
}

// Unzip decompresses what is compressed with gzip, and leaves the rest alone.
func Unzip(r io.Reader) (*bufio.Reader, error) {
	in := bufio.NewReaderSize(r, headBytes)
	if head, err := in.Peek(2); err != nil || head[0] != 0x1f || head[1] != 0x8b { //nolint:mnd // gzip's magic number
		return in, nil //nolint:nilerr // what cannot be read is told by whoever reads it
	}
	unzipped, err := gzip.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("decompressing it: %w", err)
	}
	return bufio.NewReaderSize(&limited{unzipped, maxUnzipped}, headBytes), nil
}

// limited ends what decompresses to more than anyone measures.
type limited struct {
	r    io.Reader
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("it decompresses to more than %d bytes", int64(maxUnzipped))
	}
	n, err := l.r.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}

// Label sets a label that is known.
func (m *Measurement) Label(name, value string) {
	if m.Labels == nil {
		m.Labels = map[string]string{}
	}
	if value != "" {
		m.Labels[name] = value
	}
}

// RequestLog keeps single requests, up to MaxRequests. Texts that are equal are
// kept once.
type RequestLog struct {
	all  []Request
	seen map[string]string
	more uint64
}

// Add keeps one.
func (l *RequestLog) Add(q Request) {
	if len(l.all) >= MaxRequests {
		l.more++
		return
	}
	q.Error, q.Payload = l.once(q.Error), l.once(q.Payload)
	l.all = append(l.all, q)
}

// once shares equal texts; of very many different ones the later are dropped.
func (l *RequestLog) once(s string) string {
	const longest, most = 512, 100_000
	if s == "" {
		return s
	}
	s = s[:min(len(s), longest)]
	if known, ok := l.seen[s]; ok {
		return known
	}
	if l.seen == nil {
		l.seen = map[string]string{}
	}
	if len(l.seen) >= most {
		return "(too many different texts)"
	}
	s = strings.Clone(s)
	l.seen[s] = s
	return s
}

// Sorted is what was kept in the order of Sent; a note tells of what was not.
func (l *RequestLog) Sorted(tool *model.Tool) []Request {
	if l.more > 0 {
		tool.Note(fmt.Sprintf("single requests: the first %d are known, %d more are in the totals only", MaxRequests, l.more))
	}
	slices.SortStableFunc(l.all, func(a, b Request) int { return a.Sent.Compare(b.Sent) })
	return l.all
}

// Payload is a body as Request has it.
func Payload(body []byte) string {
	const short, digits = 128, 8
	if len(body) == 0 {
		return ""
	}
	if len(body) <= short && utf8.Valid(body) {
		return string(body)
	}
	sum := sha256.Sum256(body)
	return "sha256:" + hex.EncodeToString(sum[:digits])
}
