package todos

import (
	"bufio"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/hop"
	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestParse(t *testing.T) {
	t.Parallel()
	labtest.Configs(t, Plugin(), map[string]string{
		`{}`: "",
		`{"database": "merged", "todos": [], "idle": 0, "idle_timeout": "1s", "timeout": "1s", "servers": "a", "databases": "b"}`: "",
		`{"database": "all", "idle": -1, "idle_timeout": "2h", "timeout": "0s", "servers": "redis"}`: `idle_timeout is "2h"; it must be a time such as 200us, at most 1h0m0s
timeout is 0; a database needs some time
idle is -1; it can be 0 to 10000
database is "all"; it can be local or merged
databases is "redis", as servers`,
		`{"todo": []}`: "unknown field",
	})
}

func FuzzParse(f *testing.F) {
	f.Add(`{"database": "merged", "todos": ["a"], "idle": 0, "idle_timeout": "1s"}`)
	f.Add(`{"todos": null}`)
	f.Fuzz(func(t *testing.T, raw string) {
		if a, err := parse(json.RawMessage(raw)); err == nil && (a.settings.Idle < 0 || a.settings.Timeout <= 0 || a.todos == nil) {
			t.Errorf("%q was accepted: %+v", raw, a)
		}
	})
}

func TestNoRedis(t *testing.T) {
	t.Parallel()
	a := &App{redis: t.TempDir() + "/redis-server"}
	if err := a.Check(t.Context()); !errors.Is(err, model.ErrUnsupported) || !strings.Contains(err.Error(), "apt-get install") {
		t.Errorf("error %v must say how to get it", err)
	}
}

func TestCheckTopology(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"local", "merged"} {
		app, err := parse(json.RawMessage(`{"database": "` + raw + `"}`))
		if err != nil {
			t.Fatal(err)
		}
		topology := clusters()
		if err = app.CheckTopology(topology); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
		topology.Services[1].Pods = topology.Services[1].Pods[:1]
		if err = app.CheckTopology(topology); (err != nil) != (raw == "local") {
			t.Errorf("%s, one database only: %v", raw, err)
		}
		topology.Services = topology.Services[:1]
		if err = app.CheckTopology(topology); err == nil || !strings.Contains(err.Error(), "serves exactly the services server, redis, and the topology has server") {
			t.Errorf("%s, no database: %v", raw, err)
		}
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]value{
		"+OK\r\n":                         {text: "OK"},
		":12\r\n":                         {text: "12"},
		"-ERR no\r\n":                     {err: serverError("ERR no")},
		"$-1\r\n":                         {null: true},
		"$0\r\n\r\n":                      {},
		"$4\r\na\r\nb\r\n":                {text: "a\r\nb"},
		"*-1\r\n":                         {null: true},
		"*0\r\n":                          {array: []value{}},
		"*2\r\n$1\r\na\r\n*1\r\n:1\r\n":   {array: []value{{text: "a"}, {array: []value{{text: "1"}}}}},
		"*2\r\n-ERR in it\r\n$1\r\nb\r\n": {array: []value{{err: serverError("ERR in it")}, {text: "b"}}},
	} {
		got, err := readValue(bufio.NewReader(strings.NewReader(text)), 0)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(value{})); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", text, err, diff)
		}
	}
	for _, text := range []string{
		"", "+OK", "+OK\n", "\r\n", "?\r\n", ":x\r\n", "$x\r\n", "$-2\r\n", "$5\r\nab\r\n", "$1\r\nabc", "*1048577\r\n", "*1\r\n", "$99999999999\r\n",
		strings.Repeat("*1\r\n", 6) + ":1\r\n",
	} {
		if v, err := readValue(bufio.NewReader(strings.NewReader(text)), 0); err == nil {
			t.Errorf("%q was read as %+v", text, v)
		}
	}
	if got := string(command("GET", "a b")); got != "*2\r\n$3\r\nGET\r\n$3\r\na b\r\n" {
		t.Errorf("%q", got)
	}
}

func FuzzReadValue(f *testing.F) {
	f.Add("*2\r\n$1\r\na\r\n*1\r\n:1\r\n")
	f.Add("-ERR no\r\n")
	f.Fuzz(func(_ *testing.T, text string) {
		_, _ = readValue(bufio.NewReader(strings.NewReader(text)), 0) // must end
	})
}

// listening accepts connections and says nothing.
func listening(t *testing.T) netip.AddrPort {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return netip.MustParseAddrPort(ln.Addr().String())
}

func TestPool(t *testing.T) {
	t.Parallel()
	at := []netip.AddrPort{listening(t), listening(t)}
	p := newPool(settings{Idle: 3, IdleTimeout: time.Hour}, "server-0", at)
	take := func() *conn {
		c, err := p.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	all := []*conn{take(), take(), take(), take()}
	if all[0].RemoteAddr().String() == all[1].RemoteAddr().String() || all[0].RemoteAddr().String() != all[2].RemoteAddr().String() {
		t.Error("new connections do not go to the databases in turn")
	}
	for _, c := range all {
		p.give(c)
	}
	// The oldest is closed, the one used last is taken first.
	if _, err := all[0].Write([]byte("x")); err == nil || len(p.free) != 3 {
		t.Errorf("%d are idle, not 3", len(p.free))
	}
	for i := 3; i > 0; i-- {
		if take() != all[i] {
			t.Errorf("not the one used last, number %d", i)
		}
	}
	if c := take(); c == all[0] {
		t.Error("a closed connection")
	}
	p.timeout = 0
	p.give(all[1])
	if take() == all[1] {
		t.Error("one that was idle for too long")
	}
}

// What a server says without a database, and to what it does not know.
func TestAlone(t *testing.T) {
	t.Parallel()
	s := server{newPool(settings{Timeout: time.Second}, "server-0", []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:1")})}
	for _, test := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/", "", 200},
		{"POST", "/", "", 405},
		{"GET", "/x", "", 404},
		{"DELETE", "/todos", "", 405},
		{"POST", "/todos", "", 400},
		{"POST", "/todos", `{"titel": "a"}`, 400},
		{"POST", "/todos", `{"title": "a"}`, 500},
		{"GET", "/todos", "", 500},
	} {
		r, err := http.NewRequestWithContext(t.Context(), test.method, test.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if a := s.answer(t.Context(), &hop.Exchange{Request: r, Body: []byte(test.body)}); a.Status != test.status {
			t.Errorf("%s %s %s: %d %s", test.method, test.path, test.body, a.Status, a.Body)
		}
	}
}

// A database that does not answer is given up.
func TestSilentDatabase(t *testing.T) {
	t.Parallel()
	p := newPool(settings{Idle: 3, IdleTimeout: time.Hour, Timeout: 50 * time.Millisecond}, "server-0", []netip.AddrPort{listening(t)})
	if _, err := p.transact(t.Context(), command("GET", "a")); err == nil || len(p.free) != 0 {
		t.Errorf("%v, %d kept", err, len(p.free))
	}
}
