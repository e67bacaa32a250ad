package kube

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/podside"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// pod is a live pod.
type pod struct {
	site    *site
	name    string // in the topology
	object  string // in the cluster
	role    string
	cluster *cluster
	addr    netip.Addr
	node    string // the real one
	zone    string // as the pod's label says; empty: unknown
	hello   podside.Hello
	probe   *probe
}

var _ model.Pod = (*pod)(nil)

// Name is the pod's name in the topology.
func (p *pod) Name() string { return p.name }

// Addr is the pod's address.
func (p *pod) Addr() netip.Addr { return p.addr }

// Start runs a process in the pod, by an exec of the API server; see
// model.Process. It ends when its stream does.
func (p *pod) Start(ctx context.Context, spec model.Process) (model.Running, error) {
	what := fmt.Sprintf("pod %s, process %s", p.name, spec.Name)
	switch {
	case string(spec.Component) != container(p.role):
		return nil, &model.UnsupportedError{
			What: what + " on Kubernetes", Missing: fmt.Sprintf("a container for the component %s: the pod has one for %s", spec.Component, container(p.role)),
			Hint: "apps run in pods of role server, generators in pods of role client",
		}
	case spec.Limits != (model.Limits{}):
		return nil, &model.UnsupportedError{What: what + " with limits of its own", Missing: "on Kubernetes a container has limits, not a process"}
	}
	job, err := json.Marshal(podside.Job{Command: spec.Command, Env: spec.Env, Files: spec.Files, Piped: spec.Piped})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	log := sys.NewTail(sys.LogLimit)
	r, err := p.exec(ctx, log, program, "pod", "run")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if err = r.begin(ctx, job); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", what, err), r.Stop(ctx))
	}
	if spec.Piped {
		r.pipe = stream{r.out, r.in}
	} else {
		go func() { _, _ = io.Copy(log, r.out) }()
	}
	p.site.adopt(p.name+"/"+spec.Name, log)
	p.site.keep(&started{pod: p, spec: spec, running: r})
	return r, nil
}

// running is a command under way in a pod.
type running struct {
	pod *pod
	in  *io.PipeWriter
	out *bufio.Reader
	// outPipe is what out reads from.
	outPipe *io.PipeReader
	pipe    io.ReadWriteCloser
	cancel  context.CancelFunc
	done    chan struct{}

	pid int // in the pod

	mu    sync.Mutex
	asked bool
	err   error
}

var _ model.Running = (*running)(nil)

type stream struct {
	io.Reader
	io.WriteCloser
}

// exec runs a command in the pod's container; what it prints as errors goes to
// the log.
func (p *pod) exec(ctx context.Context, log io.Writer, command ...string) (*running, error) {
	c := p.cluster
	request := c.client.CoreV1().RESTClient().Post().Resource("pods").Namespace(c.namespace).Name(p.object).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: container(p.role), Command: command, Stdin: true, Stdout: true, Stderr: true,
		}, scheme.ParameterCodec)
	socket, err := remotecommand.NewWebSocketExecutor(c.config, "GET", request.URL().String())
	if err != nil {
		return nil, fmt.Errorf("preparing an exec: %w", err)
	}
	spdy, err := remotecommand.NewSPDYExecutor(c.config, "POST", request.URL())
	if err != nil {
		return nil, fmt.Errorf("preparing an exec: %w", err)
	}
	executor, err := remotecommand.NewFallbackExecutor(socket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return nil, fmt.Errorf("preparing an exec: %w", err)
	}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	r := &running{pod: p, in: inW, out: bufio.NewReaderSize(outR, 64<<10), outPipe: outR, done: make(chan struct{})}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the process outlives the call
	r.cancel = cancel
	go func() {
		defer close(r.done)
		err := executor.StreamWithContext(life, remotecommand.StreamOptions{Stdin: inR, Stdout: outW, Stderr: log})
		_ = outW.CloseWithError(io.EOF) // never fails
		_ = inR.CloseWithError(errEnded)
		r.ended(err)
	}()
	return r, nil
}

var errEnded = errors.New("the process has ended")

// ended keeps why the command ended, and whether it was the connection.
func (r *running) ended(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked {
		return
	}
	var status exec.CodeExitError
	switch {
	case err == nil:
		r.err = errors.New("exited with status 0 without being asked to")
	case errors.As(err, &status):
		r.err = fmt.Errorf("exited with status %d", status.Code)
	default:
		r.err = r.pod.cluster.explain("the exec in pod "+r.pod.object, err)
		r.pod.site.lose(fmt.Sprintf("the stream to pod %s broke: %v", r.pod.object, err))
	}
}

// begin sends the job and waits for word that the process exists.
func (r *running) begin(ctx context.Context, job []byte) error {
	var s podside.Started
	if _, err := r.in.Write(append(job, '\n')); err != nil {
		return r.why(err)
	}
	if err := r.line(ctx, &s); err != nil {
		return err
	}
	if s.Error != "" {
		return errors.New(s.Error)
	}
	r.pid = s.PID
	return nil
}

// line reads one line of output.
func (r *running) line(ctx context.Context, into any) error {
	type read struct {
		line []byte
		err  error
	}
	got := make(chan read, 1)
	go func() {
		line, err := r.out.ReadBytes('\n')
		got <- read{line, err}
	}()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case g := <-got:
		if g.err != nil {
			return r.why(g.err)
		}
		if err := json.Unmarshal(g.line, into); err != nil {
			return fmt.Errorf("the program in the pod said %.200q: %w", bytes.TrimSpace(g.line), err)
		}
		return nil
	}
}

// why prefers the reason for the end to what it did to the stream.
func (r *running) why(err error) error {
	if !errors.Is(err, io.EOF) && !errors.Is(err, errEnded) {
		return err
	}
	<-r.done
	if ended := r.Err(); ended != nil {
		return ended
	}
	return err
}

// Done is closed when it has ended.
func (r *running) Done() <-chan struct{} { return r.done }

// Err says why it ended.
func (r *running) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Stream is its input and output.
func (r *running) Stream() io.ReadWriteCloser { return r.pipe }

// stopGrace is what a process has to end by itself; the program in the pod
// kills it after two seconds.
const stopGrace = 4 * time.Second

// Stop ends its input, which ends it, and breaks the stream if that does not.
func (r *running) Stop(ctx context.Context) error {
	r.mu.Lock()
	r.asked = true
	r.mu.Unlock()
	_ = r.in.Close() // never fails
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-r.done:
	case <-timer.C:
	case <-ctx.Done():
	}
	r.cancel()
	_ = r.outPipe.CloseWithError(errEnded) // what nobody reads must not hold it up
	<-r.done
	return nil
}
