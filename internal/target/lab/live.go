package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// liveSocket is the socket in a lab's folder at which it tells what passes its
// devices. Nothing is read, and so nothing costs, unless somebody asks.
const liveSocket = "live.sock"

// maxLive bounds one answer: what is read of the places that are read at most,
// several times over.
const maxLive = 4 << 20

// ServeLive tells whoever asks what passes the devices of the site that there is,
// until the context ends; run is the run's folder, if it is one, and doing says
// what is under way. Who asks is this lab's user: the state folder is private.
func (t *Target) ServeLive(ctx context.Context, run string, doing func() string) error {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.dir, liveSocket), Net: "unix"})
	if err != nil {
		return fmt.Errorf("serving top --live: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() }) // ends Accept
	defer stop()
	var asking sync.WaitGroup
	defer asking.Wait()
	for {
		conn, err := listener.AcceptUnix()
		if err != nil && ctx.Err() != nil {
			return nil // we were asked to end
		}
		if err != nil {
			return errors.Join(fmt.Errorf("serving top --live: %w", err), listener.Close())
		}
		asking.Go(func() {
			end := context.AfterFunc(ctx, func() { _ = conn.Close() }) // ends the answering
			defer end()
			defer conn.Close() //nolint:errcheck // who asks is gone
			for in := bufio.NewReader(conn); ; {
				if _, err := in.ReadByte(); err != nil {
					return
				}
				now := model.Live{Run: run, Doing: doing()}
				t.read(ctx, &now)
				if send(conn, now) != nil {
					return
				}
			}
		})
	}
}

// read reads the devices of the site that there is.
func (t *Target) read(ctx context.Context, now *model.Live) {
	t.mu.Lock()
	s := t.present
	t.mu.Unlock()
	if s == nil {
		return
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return
	}
	var readings []model.Reading
	for _, sampler := range append(s.trafficSamplers(), s.linkSamplers()...) {
		more, err := sampler.Sample(ctx, nil)
		if err != nil {
			return // it is being made or removed
		}
		readings = append(readings, more...)
	}
	now.Site, now.Topology, now.Readings = s.name, s.topology, readings
}

// show makes a site the one whose devices are read.
func (t *Target) show(s *site) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.present = s
}

// Watch asks the lab of a run that goes on here, by its folder, or the only lab
// there is if run is empty: again and again, and calls each with every answer,
// until that returns false, the lab has ended or the context ends.
func (t *Target) Watch(ctx context.Context, run string, every time.Duration, each func(model.Live) (more bool)) error {
	conn, in, err := t.find(ctx, run)
	if err != nil {
		return err
	}
	defer conn.Close()                                          //nolint:errcheck // all is said
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // ends the reading
	defer stop()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		now, err := ask(conn, in)
		switch {
		case errors.Is(err, io.EOF) || ctx.Err() != nil:
			return nil // it has ended, or we were asked to
		case err != nil:
			return fmt.Errorf("asking the lab: %w", err)
		case !each(now):
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// find connects to the lab that is meant.
func (t *Target) find(ctx context.Context, run string) (meant net.Conn, in *bufio.Reader, err error) {
	sockets, err := t.sockets(liveSocket)
	if err != nil {
		return nil, nil, err
	}
	var up []string
	for _, path := range sockets {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
		if err != nil {
			continue // it has ended meanwhile
		}
		reader := bufio.NewReader(conn)
		now, err := ask(conn, reader)
		switch {
		case err != nil:
		case run == now.Run || run == "" && len(sockets) == 1:
			return conn, reader, nil
		case now.Run == "":
			up = append(up, "what `windtunnel up` keeps")
		default:
			up = append(up, now.Run)
		}
		_ = conn.Close() // it is another
	}
	switch {
	case len(up) == 0:
		return nil, nil, fmt.Errorf("nothing runs in a lab here (looked in %s): start something with `windtunnel run` or `windtunnel up`", t.stateDir)
	case run == "":
		return nil, nil, fmt.Errorf("%d labs are up: %s; give the run's folder", len(up), strings.Join(up, ", "))
	}
	return nil, nil, fmt.Errorf("%s does not go on in a lab here; this does: %s", run, strings.Join(up, ", "))
}

// ask asks once.
func ask(conn io.Writer, in *bufio.Reader) (now model.Live, err error) {
	if _, err = conn.Write([]byte{'\n'}); err != nil {
		return now, io.EOF // who is not there any more does not answer
	}
	var line []byte
	for {
		part, more, err := in.ReadLine()
		if err != nil {
			return now, io.EOF
		}
		if line = append(line, part...); len(line) > maxLive {
			return now, fmt.Errorf("an answer of more than %d bytes", maxLive)
		}
		if !more {
			break
		}
	}
	if err := json.Unmarshal(line, &now); err != nil {
		return now, fmt.Errorf("reading its answer: %w", err)
	}
	return now, nil
}
