package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/sys"
)

const connections = 32

// latency is what a tool says about response times.
type latency struct {
	p50, p99, p999 time.Duration
	requests       int // that it counted; 0: it does not say
	// latenessP50 and latenessP99 are how late it was itself; ours only.
	latenessP50, latenessP99 time.Duration
}

// tool is a load generator: how it is called, and how it is understood. What a
// tool cannot do is nil.
type tool struct {
	name    string
	program string   // to look for; with a slash: where it is
	version []string // what makes it say its version, in its first line with a digit
	// build says in words how to get it.
	build string
	// closed loads the URL over all connections without a rate, open at a rate.
	closed func(url string, d time.Duration) []string
	open   func(url string, rate int, d time.Duration) []string
	// grpc calls the health service over one connection.
	grpc func(addr string, d time.Duration) []string
	// shell is how to call it where one program is not enough: $0 is the
	// program, $1 and on are its arguments.
	shell string
	// most is the longest run that it judges as a whole; 0: any.
	most time.Duration
	// read reads what open has printed; lateness, how late it was itself by it.
	read, lateness func(out []byte) (latency, error)

	path string // where it was found
	says string // its version
}

const ours = "windtunnel"

// command is the whole command line.
func (t *tool) command(args []string) []string {
	if t.shell != "" {
		return append([]string{"/bin/sh", "-c", t.shell, t.path}, args...)
	}
	return append([]string{t.path}, args...)
}

// seconds is a whole number of seconds, rounded up, for tools that know no other.
func seconds(d time.Duration) string {
	return strconv.Itoa(int((d + time.Second - 1) / time.Second))
}

func inSeconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
}

// tools are all that can be compared.
func tools(b *bed, o options) ([]*tool, error) {
	script, err := b.file("k6.js", k6Script)
	if err != nil {
		return nil, err
	}
	proto, err := b.file("health.proto", healthProto)
	if err != nil {
		return nil, err
	}
	message, err := b.file("empty.grpc", "\x00\x00\x00\x00\x00")
	if err != nil {
		return nil, err
	}
	descriptor, err := healthDescriptor()
	if err != nil {
		return nil, err
	}
	c := strconv.Itoa(connections)
	own := windtunnel(c, o.program, descriptor)
	return []*tool{
		own, spinning(own), wrk(c), wrk2(c), h2load(c, message), fortio(c), oha(c), k6(c, script, filepath.Join(b.dir, "k6.json")), vegeta(c), ghz(c, proto), iperf3(), sockperf(),
	}, nil
}

// find looks for the tools' programs, and returns the names of those that are
// not there.
func find(ctx context.Context, b *bed, all []*tool, dirs []string) (missing []string, err error) {
	for _, t := range all {
		if t.path, err = findProgram(dirs, t.program); err != nil {
			missing = append(missing, t.name)
			continue
		}
		p, err := b.start(serverSide, false, append([]string{t.path}, t.version...)...)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(p.wait(ctx, patience), b.end(ctx, p)); err != nil {
			return nil, err
		}
		t.says = versionIn(p.out.String())
	}
	return missing, nil
}

// versionIn is the first word of what a program says that begins like a version.
func versionIn(out string) string {
	for word := range strings.FieldsFuncSeq(out, func(r rune) bool { return strings.ContainsRune(" \t\n,/()", r) }) {
		w := strings.TrimPrefix(word, "v")
		if w != "" && w[0] >= '0' && w[0] <= '9' && strings.Contains(w, ".") {
			return w
		}
	}
	first, _, _ := strings.Cut(strings.TrimSpace(out), "\n") // such as "dev"
	return first
}

// findProgram looks in folders first, then in the search path.
func findProgram(dirs []string, name string) (string, error) {
	if strings.Contains(name, "/") {
		dirs, name = []string{filepath.Dir(name)}, filepath.Base(name)
	}
	for _, dir := range dirs {
		path, err := filepath.Abs(filepath.Join(dir, name))
		if err != nil {
			return "", fmt.Errorf("looking for %s: %w", name, err)
		}
		if st, err := os.Stat(path); err == nil && st.Mode()&0o111 != 0 && !st.IsDir() {
			return path, nil
		}
	}
	return sys.Look(name)
}

// fromJSON reads what a tool prints, from its first brace on.
func fromJSON(out []byte, into any) error {
	at := strings.IndexByte(string(out), '{')
	if at < 0 {
		return errors.New("it printed no JSON")
	}
	if err := json.NewDecoder(strings.NewReader(string(out[at:]))).Decode(into); err != nil {
		return fmt.Errorf("reading its JSON: %w", err)
	}
	return nil
}

// fromSeconds is a duration from a number of seconds.
func fromSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
