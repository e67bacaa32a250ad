package feature

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxLine bounds an order or an answer.
const maxLine = 16 << 20

// Serve is a scout: it obeys orders, one after the other, until its input ends.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &server{tries: map[string]int{}}
	defer p.close()
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for lines.Scan() {
		said, err := p.obey(ctx, lines.Bytes())
		if err != nil {
			said.Error = err.Error()
		}
		text, err := json.Marshal(said)
		if err != nil {
			return fmt.Errorf("encoding what was seen: %w", err)
		}
		if _, err := out.Write(append(text, '\n')); err != nil {
			return fmt.Errorf("telling what was seen: %w", err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading orders: %w", err)
	}
	return nil
}

func (p *server) obey(ctx context.Context, line []byte) (answer, error) {
	var o order
	if err := json.Unmarshal(line, &o); err != nil {
		return answer{}, fmt.Errorf("reading an order: %w", err)
	}
	switch {
	case o.Listen != nil:
		return answer{}, p.listen(ctx, *o.Listen)
	case o.Behave != nil:
		p.behave(*o.Behave)
		return answer{}, nil
	case o.Send != nil:
		return answer{Replies: send(ctx, *o.Send)}, nil
	case o.Hello != nil:
		shown := shake(ctx, *o.Hello)
		return answer{Shown: &shown}, nil
	case o.Tell:
		got := p.tell()
		return answer{Got: &got}, nil
	}
	return answer{}, errors.New("there is nothing in the order")
}

// server is a scout's other side: it answers and remembers.
type server struct {
	identity string
	http     *http.Server

	mu    sync.Mutex
	how   Behaviour
	tries map[string]int // by request, since the last Behave
	now   int            // requests under way
	got   Got
}

func (p *server) listen(ctx context.Context, l listen) error {
	if p.http != nil {
		return errors.New("listening already")
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", l.Addr.String())
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	const patience = 30 * time.Second
	p.identity = l.Identity
	p.http = &http.Server{Handler: p, ReadHeaderTimeout: patience}
	go func() { _ = p.http.Serve(ln) }() // ends with close
	return nil
}

func (p *server) close() {
	if p.http != nil {
		_ = p.http.Close() // the process ends
	}
}

func (p *server) behave(b Behaviour) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.how, p.tries = b, map[string]int{}
}

// tell is what was received since the last time.
func (p *server) tell() Got {
	p.mu.Lock()
	defer p.mu.Unlock()
	got := p.got
	p.got = Got{Most: p.now}
	return got
}

// ServeHTTP remembers a request and answers it.
func (p *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	how := p.receive(r)
	defer p.done()
	if how.Delay > 0 {
		timer := time.NewTimer(how.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
		}
	}
	w.Header().Set(headerIs, p.identity)
	if asked, ok := strings.CutPrefix(r.URL.Path, "/status/"); ok {
		how.Status, _ = strconv.Atoi(asked) // 0: the usual one
	}
	if how.Status >= http.StatusOK {
		w.WriteHeader(how.Status)
	}
	_, _ = io.WriteString(w, p.identity+"\n") // the client may be gone
}

// receive remembers a request and says how it is to be answered.
func (p *server) receive(r *http.Request) Behaviour {
	const most = 4 << 20
	var body []byte
	if r.Method == http.MethodPost {
		body, _ = io.ReadAll(io.LimitReader(r.Body, most)) // what came is what is told
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now++
	p.got.Most = max(p.got.Most, p.now)
	if body != nil {
		p.got.Bodies = append(p.got.Bodies, body)
	}
	name := r.Header.Get(headerSent)
	seen := Request{Name: name, Host: r.Host, Header: map[string]string{}}
	for key, values := range r.Header {
		if slices.Contains(interesting(), strings.ToLower(key)) {
			seen.Header[strings.ToLower(key)] = strings.Join(values, ", ")
		}
	}
	p.got.Requests = append(p.got.Requests, seen)
	p.tries[name]++
	how := p.how
	if how.First > 0 && p.tries[name] > how.First {
		how.Status = 0
	}
	return how
}

// interesting are the headers that proxies add or carry on.
func interesting() []string {
	return []string{strings.ToLower(headerPeer), "traceparent", "x-request-id", "x-b3-traceid", "x-b3-spanid", "x-b3-parentspanid"}
}

func (p *server) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now--
}
