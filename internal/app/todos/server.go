package todos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/windtunnel/windtunnel/internal/hop"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// Serve is a server, or what fills a database, as a pod's process.
func Serve(ctx context.Context, file string) error {
	data, err := sys.ReadFile(file)
	if err != nil {
		return err
	}
	j, err := hop.ReadJob(data)
	if err != nil {
		return err
	}
	var s settings
	if err := json.Unmarshal(j.Config, &s); err != nil {
		return fmt.Errorf("todos: reading its settings: %w", err)
	}
	if s.Seed != nil {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), j.Listen.Port())
		keepSeeded(ctx, at, j.Identity, *s.Seed)
		return nil
	}
	databases := j.Peers[s.Databases]
	if len(databases) == 0 {
		return fmt.Errorf("todos: the server %s has no database", j.Identity)
	}
	return hop.Serve(ctx, j, nil, (&server{newPool(s, j.Identity, databases)}).answer, nil)
}

// The keys in Redis: the list, and who the database is.
const (
	keyTodos    = "todos"
	keyIdentity = "windtunnel:identity"
)

type server struct{ pool *pool }

type todo struct {
	Title *string `json:"title"`
}

const hello = "hello from windtunnel todos\n"

func (s *server) answer(ctx context.Context, e *hop.Exchange) hop.Answer {
	method := e.Request.Method
	switch e.Request.URL.Path {
	case "/":
		if method == http.MethodGet || method == http.MethodHead {
			return hop.Text(http.StatusOK, hello)
		}
		return hop.Text(http.StatusMethodNotAllowed, "")
	case "/todos":
	default:
		return hop.Text(http.StatusNotFound, "there is no such page\n")
	}
	switch method {
	case http.MethodGet, http.MethodHead:
		return s.list(ctx, e)
	case http.MethodPost:
		return s.add(ctx, e)
	}
	return hop.Text(http.StatusMethodNotAllowed, "")
}

// ask runs a command, and reads in the same transaction who the database is.
func (s *server) ask(ctx context.Context, e *hop.Exchange, args ...string) (value, *hop.Answer) {
	got, err := s.pool.transact(ctx, command(args...), command("GET", keyIdentity))
	if err != nil {
		a := hop.Text(http.StatusInternalServerError, err.Error()+"\n")
		return value{}, &a
	}
	if got[1].text == "" {
		a := hop.Text(http.StatusServiceUnavailable, "the database is not filled yet\n")
		return value{}, &a
	}
	e.Hop(got[1].text)
	return got[0], nil
}

// list answers with all titles; of an empty list with null, as the original.
func (s *server) list(ctx context.Context, e *hop.Exchange) hop.Answer {
	v, failed := s.ask(ctx, e, "LRANGE", keyTodos, "0", "-1")
	if failed != nil {
		return *failed
	}
	var titles []string
	for _, one := range v.array {
		titles = append(titles, one.text)
	}
	return encoded(titles)
}

func (s *server) add(ctx context.Context, e *hop.Exchange) hop.Answer {
	var t todo
	if err := json.Unmarshal(e.Body, &t); err != nil || t.Title == nil {
		return hop.Text(http.StatusBadRequest, `the body must be {"title": "..."}`+"\n")
	}
	if _, failed := s.ask(ctx, e, "LPUSH", keyTodos, *t.Title); failed != nil {
		return *failed
	}
	return encoded(t)
}

func encoded(what any) hop.Answer {
	b, err := json.Marshal(what)
	if err != nil {
		return hop.Text(http.StatusInternalServerError, err.Error()+"\n")
	}
	return hop.JSON(http.StatusOK, b)
}

// keepSeeded fills the database in its own pod whenever that has begun anew.
func keepSeeded(ctx context.Context, at netip.AddrPort, identity string, titles []string) {
	const pause = 10 * time.Millisecond
	for ctx.Err() == nil {
		if c, err := dial(ctx, at); err == nil {
			cut := context.AfterFunc(ctx, func() { _ = c.Close() })
			if seed(ctx, c, identity, titles) == nil {
				_, _ = c.in.ReadByte() // nothing comes until the database ends
			}
			cut()
			_ = c.Close()
		}
		hop.Wait(ctx, pause)
	}
}

// seed fills a database, unless it has been filled before.
func seed(ctx context.Context, c *conn, identity string, titles []string) error {
	known, err := c.transact(ctx, command("GET", keyIdentity))
	if err != nil || known[0].text == identity {
		return err
	}
	commands := [][]byte{command("DEL", keyTodos), command("SET", keyIdentity, identity)}
	if len(titles) > 0 {
		commands = append(commands, command(append([]string{"RPUSH", keyTodos}, titles...)...))
	}
	_, err = c.transact(ctx, commands...)
	return err
}
