package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// execSocket is where a site that `up` keeps listens for `exec`.
const execSocket = "exec.sock"

// execRequest begins a conversation; the client's standard files come with it.
type execRequest struct {
	Pod  string   `json:"pod"`
	Argv []string `json:"argv"`
}

// execReply ends it.
type execReply struct {
	Code  int    `json:"code"`
	Error string `json:"error,omitempty"`
}

// ServeExec runs commands in the site's pods for Exec, until the context ends.
func (t *Target) ServeExec(ctx context.Context, s model.Site) error {
	path := filepath.Join(t.dir, execSocket)
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return fmt.Errorf("listening for exec: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = ln.Close() })()
	for {
		conn, err := ln.AcceptUnix()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("listening for exec: %w", err)
		}
		go t.answerExec(ctx, conn, s)
	}
}

func (t *Target) answerExec(ctx context.Context, conn *net.UnixConn, s model.Site) {
	defer conn.Close() //nolint:errcheck // the reply has been sent, or cannot be
	var reply execReply
	code, err := t.execInPod(ctx, conn, s)
	reply.Code = code
	if err != nil {
		reply.Error = err.Error()
	}
	_ = json.NewEncoder(conn).Encode(reply) // the client may be gone
}

func (t *Target) execInPod(ctx context.Context, conn *net.UnixConn, s model.Site) (int, error) {
	line, files, err := sys.ReceiveFiles(conn)
	for _, f := range files {
		defer f.Close() //nolint:errcheck // only handed on
	}
	if err != nil {
		return 0, err
	}
	var req execRequest
	if err := json.Unmarshal(line, &req); err != nil || len(files) != 3 || len(req.Argv) == 0 {
		return 0, errors.New("exec: the request is not understood")
	}
	found, err := s.Pod(req.Pod)
	if err != nil {
		return 0, err
	}
	p, ok := found.(*pod)
	if !ok {
		return 0, fmt.Errorf("pod %s is not of this lab", req.Pod)
	}
	proc, err := sys.Start(sys.Command{
		Argv: req.Argv, Env: []string{searchPath, "HOME=/", "TERM=xterm-256color"}, Netns: p.ns, CPUs: t.host.OtherCPUs,
		Files: [3]*os.File{files[0], files[1], files[2]},
	})
	if err != nil {
		return 0, err
	}
	go forwardSignals(conn, proc)
	select {
	case <-proc.Done():
	case <-ctx.Done():
	}
	return proc.ExitCode(), proc.Stop(context.WithoutCancel(ctx))
}

// forwardSignals passes on what the client was sent, one byte each, and ends
// the command if the client goes away.
func forwardSignals(conn io.Reader, proc *sys.Process) {
	b := make([]byte, 1)
	for {
		if _, err := conn.Read(b); err != nil {
			b[0] = byte(syscall.SIGHUP)
		}
		if proc.Signal(syscall.Signal(b[0])) != nil || b[0] == byte(syscall.SIGHUP) {
			return
		}
	}
}

// Exec runs a command in a pod of the site that another process keeps up, with
// this process's standard files, and returns its exit code.
func (t *Target) Exec(_ context.Context, podName string, argv []string) (int, error) {
	path, err := t.findUp()
	if err != nil {
		return 0, err
	}
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return 0, fmt.Errorf("reaching the site: %w", err)
	}
	defer conn.Close() //nolint:errcheck // everything has been read
	line, err := json.Marshal(execRequest{podName, argv})
	if err != nil {
		return 0, fmt.Errorf("encoding the request: %w", err)
	}
	if err := sys.SendFiles(conn, append(line, '\n'), os.Stdin, os.Stdout, os.Stderr); err != nil {
		return 0, err
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	go func() {
		for s := range signals {
			if n, ok := s.(syscall.Signal); ok {
				_, _ = conn.Write([]byte{byte(n)}) // the site may be gone; the reply says so
			}
		}
	}()
	var reply execReply
	if err := json.NewDecoder(conn).Decode(&reply); err != nil {
		return 0, fmt.Errorf("the site went away: %w", err)
	}
	if reply.Error != "" {
		return reply.Code, errors.New(reply.Error)
	}
	return reply.Code, nil
}

func (t *Target) findUp() (string, error) {
	found, err := filepath.Glob(filepath.Join(t.stateDir, "*", execSocket))
	if err != nil {
		return "", fmt.Errorf("looking for sites: %w", err)
	}
	switch len(found) {
	case 0:
		return "", errors.New("no site is up; start one with: windtunnel up STUDY VARIANT")
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("several sites are up (%s); keep one", strings.Join(found, ", "))
}
