// Package podside is what the program does inside a pod of the target kube:
// it keeps the container alive (Idle), starts processes in it (Run) and tells
// clocks and resources (Probe).
//
// A process is started by an exec of the API server, and ends with it: when
// the stream to the runner breaks, whatever the reason, its input ends, and
// Run ends the process. So nothing goes on in a pod that nobody commands.
package podside

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/windtunnel/windtunnel/internal/sys"
)

// maxJob bounds the first line: files are in it, base64 encoded.
const maxJob = 16 << 20

// Job is a process to run, as the first line of Run's input.
type Job struct {
	Command []string          `json:"command"`
	Env     []string          `json:"env,omitempty"`
	Files   map[string][]byte `json:"files,omitempty"`
	// Piped connects the process's input and output with Run's own.
	Piped bool `json:"piped,omitempty"`
}

// Started is the first line of Run's output.
type Started struct {
	PID   int    `json:"pid,omitempty"`
	Error string `json:"error,omitempty"`
}

// Idle waits for the context's end and buries what others leave dead: the
// container's first process inherits every orphan.
func Idle(ctx context.Context) {
	sys.BuryOrphans(ctx)
}

// Run runs the process that the first line of the input describes until it
// ends or the input does, and returns its exit status.
func Run(ctx context.Context, in io.Reader, out, log io.Writer) (code int, err error) {
	input := bufio.NewReaderSize(in, 64<<10)
	p, dir, piped, err := start(input, log)
	if dir != "" {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	if err != nil {
		return 1, errors.Join(err, say(out, Started{Error: err.Error()}))
	}
	ended := context.WithoutCancel(ctx)
	if err = say(out, Started{PID: p.PID()}); err != nil {
		return 1, errors.Join(err, p.Stop(ended))
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		to := io.Discard
		if piped {
			to = p.Stream()
		}
		_, _ = io.Copy(to, input) // either side may end first
		if piped {
			_, _ = io.Copy(io.Discard, input) // the process reads no more; the runner may still be there
		}
	}()
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		if piped {
			_, _ = io.Copy(out, p.Stream())
		}
	}()
	select {
	case <-p.Done():
	case <-gone:
	case <-ctx.Done():
	}
	ending, cancel := context.WithCancel(ended)
	defer cancel()
	err = p.Stop(ending)
	<-copied
	return p.ExitCode(), err
}

// Signal does harm to a process of the pod and its children, or undoes it: kill,
// stop or continue. When it returns from stop, they have stopped.
func Signal(ctx context.Context, pid, name string) error {
	signals := map[string]func(id int) error{
		"kill":     func(id int) error { return sys.SignalGroup(id, syscall.SIGKILL) },
		"stop":     func(id int) error { return sys.SuspendGroup(ctx, id) },
		"continue": func(id int) error { return sys.SignalGroup(id, syscall.SIGCONT) },
	}
	id, err := strconv.Atoi(pid)
	send, known := signals[name]
	if err != nil || id < 2 || !known {
		return fmt.Errorf("signal %q to process %q: kill, stop or continue, and a process that was started", name, pid)
	}
	return send(id)
}

func start(input *bufio.Reader, log io.Writer) (p *sys.Process, dir string, piped bool, err error) {
	var j Job
	if err = readJob(input, &j); err != nil {
		return nil, "", false, err
	}
	if dir, err = writeFiles(j.Files); err != nil {
		return nil, dir, false, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, dir, false, fmt.Errorf("finding the own program: %w", err)
	}
	r := strings.NewReplacer("{self}", self, "{dir}", dir)
	expand := func(list []string) []string {
		all := make([]string, len(list))
		for i, s := range list {
			all[i] = r.Replace(s)
		}
		return all
	}
	const path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	p, err = sys.Start(sys.Command{
		Argv: expand(j.Command), Env: append([]string{path}, expand(j.Env)...), Output: log, Piped: j.Piped,
	})
	return p, dir, j.Piped, err
}

func readJob(input *bufio.Reader, j *Job) error {
	var line []byte
	for {
		part, err := input.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxJob {
			return fmt.Errorf("the job has over %d bytes", maxJob)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return fmt.Errorf("reading the job: %w", err)
		}
	}
	if err := json.Unmarshal(line, j); err != nil {
		return fmt.Errorf("reading the job: %w", err)
	}
	if len(j.Command) == 0 {
		return errors.New("the job has no command")
	}
	return nil
}

// writeFiles makes a private folder for a process's files; "" if it has none.
func writeFiles(files map[string][]byte) (string, error) {
	if len(files) == 0 {
		return "", nil
	}
	dir, err := os.MkdirTemp("", "windtunnel-")
	if err != nil {
		return "", fmt.Errorf("making a process's folder: %w", err)
	}
	for name, data := range files {
		if name != filepath.Base(name) {
			return dir, fmt.Errorf("%q is no plain file name", name)
		}
		text := strings.ReplaceAll(string(data), "{dir}", dir)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return dir, fmt.Errorf("writing a process's file: %w", err)
		}
	}
	return dir, nil
}

func say(out io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding for the runner: %w", err)
	}
	if _, err = out.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("telling the runner: %w", err)
	}
	return nil
}
