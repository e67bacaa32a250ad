package driver

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
)

const (
	// maxOutput bounds what one process may write: ten million requests of h2load.
	maxOutput = 256 << 20
	// compressAbove is the size of native output above which it is kept compressed.
	compressAbove = 64 << 10
	versionLimit  = 10 * time.Second
	readyLimit    = 10 * time.Second
	startLimit    = 20 * time.Second // beyond all that a run is made of
	stopLimit     = 5 * time.Second
)

// Program is a tool that was found.
type Program struct {
	Path, Version string
}

// Find looks for a tool, at a path if one is given, and asks for its version.
func Find(ctx context.Context, t Tool, path string) (Program, error) {
	names := t.Programs
	if path != "" {
		names = []string{path}
	}
	var seen []string
	for _, name := range names {
		found, err := sys.Look(name)
		if err != nil {
			seen = append(seen, name)
			continue
		}
		version, err := ask(ctx, found, t.Version)
		switch {
		case err != nil:
			return Program{}, fmt.Errorf("asking %s for its version: %w", found, err)
		case !strings.Contains(version, t.Mark) || t.Other != "" && strings.Contains(version, t.Other):
			seen = append(seen, found+" (another program)")
			continue
		}
		first, _, _ := strings.Cut(strings.TrimSpace(version), "\n")
		return Program{found, strings.TrimSpace(first)}, nil
	}
	return Program{}, &model.UnsupportedError{What: "driver " + t.Name, Missing: "no program: looked for " + strings.Join(seen, ", "), Hint: t.Hint}
}

// ask runs a program for what it prints; its status says nothing.
func ask(ctx context.Context, path string, args []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionLimit)
	defer cancel()
	var out lockedBuffer
	p, err := sys.Start(sys.Command{Argv: append([]string{path}, args...), Env: []string{"PATH=/usr/bin:/bin"}, Output: &out})
	if err != nil {
		return "", err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return out.String(), errors.Join(err, p.Stop(context.WithoutCancel(ctx)))
}

// lockedBuffer keeps the first 64 KiB that are written to it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	const most = 64 << 10
	l.b.Write(p[:min(len(p), most-min(l.b.Len(), most))])
	return len(p), nil
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Outcome is what came of a run.
type Outcome struct {
	Load   *model.LoadResult
	Window model.Window
	// Files are the tool's native output, for the run folder.
	Files map[string][]byte
}

// Limit is how long Execute takes at most, beyond the load's own times.
func Limit() time.Duration { return startLimit + readyLimit + 2*stopLimit }

// Execute runs a job in a pod of a site. onWindow is called once, before the
// measured window opens. What the tool has written comes back also with an error.
func Execute(ctx context.Context, d Driver, site model.Site, server string, j Job, onWindow func(model.Window)) (Outcome, error) {
	o := Outcome{Files: map[string][]byte{}}
	name := d.Tool().Name
	program, err := Find(ctx, d.Tool(), j.Load.Program)
	if err != nil {
		return o, err
	}
	j.Program = program.Path
	run, err := d.Plan(j)
	if err != nil {
		return o, err
	}
	pod, err := site.Pod(j.Load.From)
	if err != nil {
		return o, err
	}
	if run.Server != nil && server == "" {
		return o, ownServer(d, j.Load)
	}
	if run.Server != nil {
		stop, failed := serve(ctx, site, server, run.Server)
		if failed != nil {
			return o, fmt.Errorf("starting the server of %s in pod %s: %w", name, server, failed)
		}
		defer stop()
	}
	limited, cancel := context.WithTimeout(ctx, j.Load.Timeout+startLimit+max(j.Warmup, run.Lead+j.Load.Duration+run.Tail))
	defer cancel()
	tool := &model.Tool{Name: name, Version: program.Version, Program: program.Path}
	if run.Warmup != nil {
		tool.Commands = append(tool.Commands, run.Warmup.Command)
		if _, _, err = finish(limited, pod, *run.Warmup, run.Loss, ""); err != nil {
			return o, fmt.Errorf("warming up with %s: %w", name, err)
		}
	}
	tool.Commands = append(tool.Commands, run.Main.Command)
	wall, now := time.Now(), sys.Monotonic()
	o.Window = model.Window{Start: now + run.Lead.Nanoseconds(), End: now + (run.Lead + j.Load.Duration).Nanoseconds()}
	onWindow(o.Window)
	stdout, file, err := finish(limited, pod, run.Main, run.Loss, run.File)
	native := stdout
	if run.File != "" {
		native = file
		o.keep(name+".stdout", stdout)
	}
	o.keep(run.Keep, native)
	if err != nil {
		return o, fmt.Errorf("loading with %s: %w", name, err)
	}
	result, err := run.Read(bytes.NewReader(native), ingest.About{
		Arrival: j.Load.Arrival, Rate: rate(j.Load), Connections: j.Load.Connections, Duration: j.Load.Duration,
		From: wall.Add(run.Lead), To: wall.Add(run.Lead + j.Load.Duration),
	})
	if err != nil {
		return o, err
	}
	describe(result, tool)
	o.Load = result
	return o, nil
}

// rate is the open loop's, or the closed one's pace.
func rate(l model.Load) float64 {
	if l.Arrival == model.ArrivalClosed {
		return l.Pace
	}
	return l.Rate
}

// describe adds what is known of the program to what its output says.
func describe(r *model.LoadResult, t *model.Tool) {
	t.Basis, t.Figures, t.Notes = r.Tool.Basis, r.Tool.Figures, r.Tool.Notes
	if r.Tool.Version != "" && t.Version == "" {
		t.Version = r.Tool.Version
	}
	t.Note("identities and bodies of answers: the tool does not look at them")
	r.Tool = t
	r.Clock = "the tool's own"
}

func (o *Outcome) keep(name string, data []byte) {
	if len(data) == 0 {
		return
	}
	if len(data) <= compressAbove || bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		o.Files[name] = data
		return
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(data)
	if err = errors.Join(err, z.Close()); err != nil {
		o.Files[name] = data // a buffer never fails; the output matters more
		return
	}
	o.Files[name+".gz"] = b.Bytes()
}

// finish runs a process to its end and returns what it has written.
func finish(ctx context.Context, pod model.Pod, p model.Process, loss int, file string) (stdout, native []byte, err error) {
	running, err := pod.Start(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		err = errors.Join(err, running.Stop(stopCtx))
	}()
	finisher, ok := running.(model.Finisher)
	if !ok {
		return nil, nil, &model.UnsupportedError{What: "driving other tools", Missing: fmt.Sprintf("%T cannot tell how a process ended", running)}
	}
	out, err := drain(ctx, running)
	if err != nil {
		return out, nil, err
	}
	stdout = out
	if file != "" {
		native, err = finisher.ReadFile(file, maxOutput)
	}
	if code := finisher.ExitCode(); code != 0 && code != loss {
		return stdout, native, fmt.Errorf("%s ended with status %d; its log is in the run folder. It last printed: %s", p.Command[0], code, last(stdout))
	}
	return stdout, native, err
}

// drain reads what a process writes, to its end.
func drain(ctx context.Context, running model.Running) ([]byte, error) {
	type output struct {
		data []byte
		err  error
	}
	read := make(chan output, 1)
	go func() { // ends with the process
		data, err := ingest.ReadAll(running.Stream(), maxOutput)
		read <- output{data, err}
	}()
	var out output
	select {
	case out = <-read:
	case <-ctx.Done():
		return nil, fmt.Errorf("it did not end in time: %w", context.Cause(ctx))
	}
	if out.err != nil {
		return out.data, fmt.Errorf("reading its output: %w", out.err)
	}
	select {
	case <-running.Done():
		return out.data, nil
	case <-ctx.Done():
		return out.data, fmt.Errorf("it did not end in time: %w", context.Cause(ctx))
	}
}

// last is the end of what a tool has printed, for people.
func last(out []byte) string {
	const most = 300
	text := strings.TrimSpace(string(out))
	if text == "" {
		return "nothing"
	}
	return fmt.Sprintf("%q", text[max(0, len(text)-most):])
}

// serve starts a tool's other end and waits until it listens.
func serve(ctx context.Context, site model.Site, name string, s *Server) (stop func(), err error) {
	pod, err := site.Pod(name)
	if err != nil {
		return nil, err
	}
	p := s.Process
	p.Component, p.Piped = model.ComponentApp, true
	running, err := pod.Start(ctx, p)
	if err != nil {
		return nil, err
	}
	stop = func() {
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		_ = running.Stop(stopCtx) // the site's Close ends it again, and complains
	}
	ready := make(chan bool, 1)
	go func() { // ends with the process
		ready <- said(running.Stream(), s.Ready)
		_, _ = io.Copy(io.Discard, running.Stream())
	}()
	limited, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	select {
	case ok := <-ready:
		if ok {
			return stop, nil
		}
		err = errors.New("it ended; its log says why")
	case <-limited.Done():
		err = fmt.Errorf("it did not say %q: %w", s.Ready, context.Cause(limited))
	}
	stop()
	return nil, err
}

// said reads until a text has come.
func said(r io.Reader, text string) bool {
	var all []byte
	buf := make([]byte, 4096) //nolint:mnd // of a banner
	for {
		n, err := r.Read(buf)
		all = append(all, buf[:n]...)
		if bytes.Contains(all, []byte(text)) {
			return true
		}
		if err != nil {
			return false
		}
		all = all[max(0, len(all)-len(text)):]
	}
}

// Try asks a driver for its opinion of a load before there is anything to send
// to: with so many addresses, or behind the one address of a Service.
func Try(d Driver, l model.Load, warmup time.Duration, addresses int, fronted bool) error {
	placeholder := netip.MustParseAddrPort("192.0.2.1:80") // RFC 5737
	run, err := d.Plan(Job{Load: l, Host: l.To, Warmup: warmup, Program: l.Program, Targets: slices.Repeat([]netip.AddrPort{placeholder}, addresses)})
	if err == nil && run.Server != nil && fronted {
		return ownServer(d, l)
	}
	return err
}

func ownServer(d Driver, l model.Load) error {
	return &RefusedError{d.Tool().Name, l.Name, errors.New("it talks to a server of its own, which cannot be put behind the address of a Service; use a stack without one")}
}

func sorted(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
