package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// execSocket is the socket in a lab's folder at which its site serves exec.
const execSocket = "exec.sock"

// componentExec is to whose account commands of `exec` go.
const componentExec model.Component = "exec"

// request is what the client sends first, with its standard files.
type request struct {
	Pod  string   `json:"pod"`
	Argv []string `json:"argv"`
	Term string   `json:"term"`
}

// maxRequest bounds the first message, in bytes.
const maxRequest = 64 << 10

// signalled is what the client sends whenever it is signalled.
type signalled struct {
	Signal int `json:"signal"`
}

// result is what the server sends last.
type result struct {
	Code  int    `json:"code"`
	Error string `json:"error,omitempty"`
}

// ServeExec runs what clients' Exec asks for in the site's pods, until the
// context ends. Clients are this lab's user: the state folder is private.
func (t *Target) ServeExec(ctx context.Context, s model.Site) error {
	own, ok := s.(*site)
	if !ok {
		return fmt.Errorf("serving exec: %T is not a site of the lab", s)
	}
	path := filepath.Join(t.dir, execSocket)
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return fmt.Errorf("serving exec: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() }) // ends Accept
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		conn, err := listener.AcceptUnix()
		if err != nil && ctx.Err() != nil {
			return nil // we were asked to end
		}
		if err != nil {
			return errors.Join(fmt.Errorf("serving exec: %w", err), listener.Close())
		}
		wg.Go(func() { own.serve(ctx, conn) })
	}
}

// serve runs one command.
func (s *site) serve(ctx context.Context, conn *net.UnixConn) {
	defer conn.Close() //nolint:errcheck // the client has its answer, or is gone
	code, err := s.runFor(ctx, conn)
	answer := result{Code: code}
	if err != nil {
		answer.Error = err.Error()
	}
	_ = send(conn, answer) // the client may be gone
}

// send writes a value as a line.
func send(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("writing a message: %w", err)
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

func (s *site) runFor(ctx context.Context, conn *net.UnixConn) (code int, err error) {
	message, files, err := sys.ReceiveFiles(conn, make([]byte, maxRequest))
	if err != nil {
		return 0, err
	}
	r, err := s.startFor(message, files) //nolint:contextcheck // the process ends with Stop
	for _, f := range files {
		_ = f.Close() // only our copies
	}
	if err != nil {
		return 0, err
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		passSignals(conn, r)
	}()
	select {
	case <-r.Done():
	case <-gone:
	case <-ctx.Done():
	}
	err = errors.Join(r.Stop(context.WithoutCancel(ctx)), s.forget(r))
	return r.ExitCode(), err
}

// forget drops what the site keeps of an ended command: there may be many.
func (s *site) forget(r *running) error {
	s.mu.Lock()
	s.procs = slices.DeleteFunc(s.procs, func(p *running) bool { return p == r })
	delete(s.logs, r.pod+"/"+r.name)
	component := s.groups[r.pod+"/"+string(componentExec)]
	s.mu.Unlock()
	return component.RemoveSub(r.name)
}

// passSignals returns when the client is gone.
func passSignals(conn io.Reader, r *running) {
	for in := json.NewDecoder(conn); ; {
		var s signalled
		if in.Decode(&s) != nil {
			return
		}
		_ = r.SignalNumber(s.Signal) // it may have ended
	}
}

func (s *site) startFor(message []byte, files [3]*os.File) (*running, error) {
	var req request
	if err := json.Unmarshal(message, &req); err != nil {
		return nil, fmt.Errorf("reading the request: %w", err)
	}
	p, err := s.pod(req.Pod)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.serial++
	name := "exec-" + strconv.Itoa(s.serial)
	s.mu.Unlock()
	return p.start(job{
		Process: model.Process{Name: name, Component: componentExec, Command: req.Argv, Env: []string{"TERM=" + req.Term}},
		stdio:   files,
	})
}

// Exec runs a command in a pod of the site that is up, with this process's
// standard files and signals, and returns its exit code. The context bounds
// finding the site; after that, signals end the command.
func (t *Target) Exec(ctx context.Context, pod string, argv []string) (code int, err error) {
	path, err := t.findServer()
	if err != nil {
		return 0, err
	}
	dialled, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return 0, fmt.Errorf("connecting to the site: %w", err)
	}
	defer dialled.Close() //nolint:errcheck // all is said
	conn, ok := dialled.(*net.UnixConn)
	if !ok {
		return 0, fmt.Errorf("connecting to the site: %T is no Unix socket", dialled)
	}
	message, err := json.Marshal(request{Pod: pod, Argv: argv, Term: sys.Terminal()})
	if err != nil {
		return 0, fmt.Errorf("writing the request: %w", err)
	}
	if len(message) > maxRequest {
		return 0, fmt.Errorf("the command is %d bytes long; %d is the most", len(message), maxRequest)
	}
	signals, stop := sys.Signals()
	defer stop()
	if err = sys.SendFiles(conn, message, sys.Stdio()); err != nil {
		return 0, err
	}
	go func() {
		for s := range signals {
			_ = send(conn, signalled{sys.SignalNumber(s)}) // the answer may be on its way
		}
	}()
	var answer result
	if err = json.NewDecoder(conn).Decode(&answer); err != nil {
		return 0, fmt.Errorf("the site has ended while %s ran: %w", argv[0], err)
	}
	if answer.Error != "" {
		return answer.Code, errors.New(answer.Error)
	}
	return answer.Code, nil
}

// findServer finds the one site that is up.
func (t *Target) findServer() (socket string, err error) {
	up, err := t.sockets(execSocket)
	if err != nil {
		return "", err
	}
	switch len(up) {
	case 0:
		return "", fmt.Errorf("no site is up (looked in %s): start one with `windtunnel up`", t.stateDir)
	case 1:
		return up[0], nil
	}
	return "", fmt.Errorf("%d sites are up, and a pod's name does not say which is meant: %s; end all but one", len(up), strings.Join(up, ", "))
}

// sockets are those of that name, of labs that live.
func (t *Target) sockets(name string) (up []string, err error) {
	entries, err := os.ReadDir(t.stateDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("looking for a lab: %w", err)
	}
	for _, e := range entries {
		dir := filepath.Join(t.stateDir, e.Name())
		socket := filepath.Join(dir, name)
		if _, err := os.Stat(socket); err == nil && sys.Locked(filepath.Join(dir, lockFile)) {
			up = append(up, socket)
		}
	}
	return up, nil
}
