package feature

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// orders gives a scout orders and returns its answers.
func orders(t *testing.T, all ...order) []answer {
	t.Helper()
	var in, out bytes.Buffer
	for _, o := range all {
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		in.Write(append(text, '\n'))
	}
	if err := Serve(t.Context(), &in, &out); err != nil {
		t.Fatal(err)
	}
	var answers []answer
	for d := json.NewDecoder(&out); ; {
		var a answer
		if err := d.Decode(&a); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, a)
	}
	if len(answers) != len(all) {
		t.Fatalf("%d answers to %d orders: %+v", len(answers), len(all), answers)
	}
	return answers
}

// free is an address of loopback that nobody listens at.
func free(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort(l.Addr().String())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return at
}

func TestScout(t *testing.T) {
	t.Parallel()
	at := free(t)
	burst := func(name, path string) order {
		return order{Send: &sending{Burst: Burst{Count: 3, Path: path, Parallel: 2, Header: map[string]string{"traceparent": "x"}}, Name: name, Targets: []netip.AddrPort{at}, Timeout: time.Minute}}
	}
	a := orders(t,
		order{Listen: &listen{Addr: at, Identity: "me"}},
		burst("a", "/"),
		order{Tell: true},
		order{Behave: &Behaviour{Status: 500, First: 1}},
		burst("b", "/"), burst("b", "/"), burst("c", "/status/418"),
		order{Tell: true},
		order{Tell: true},
		order{Listen: &listen{Addr: at}},
		order{},
	)
	for _, r := range a[1].Replies {
		if r.Status != 200 || r.From != "me" || r.Took <= 0 || !strings.HasPrefix(r.Name, "a-") {
			t.Errorf("%+v", r)
		}
	}
	if g := a[2].Got; len(g.Requests) != 3 || g.Most < 1 || g.Most > 2 || g.Requests[0].Header["traceparent"] != "x" || !strings.HasPrefix(g.Requests[0].Name, "a-") {
		t.Errorf("%+v", g)
	}
	for i, want := range map[int]int{4: 500, 5: 200, 6: 418} {
		for _, r := range a[i].Replies {
			if r.Status != want {
				t.Errorf("burst %d: %+v, want %d", i, r, want)
			}
		}
	}
	if n := len(a[7].Got.Requests); n != 9 || len(a[8].Got.Requests) != 0 {
		t.Errorf("%d requests, then %d", n, len(a[8].Got.Requests))
	}
	if a[9].Error == "" || a[10].Error == "" {
		t.Errorf("no errors: %+v, %+v", a[9], a[10])
	}
}

// What cannot be reached is told as such, not as an error of the scout.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	at := free(t)
	a := orders(t,
		order{Send: &sending{Burst: Burst{Count: 2, Path: "/"}, Name: "x", Targets: []netip.AddrPort{at}, Timeout: time.Minute}},
		order{Hello: &hello{Addr: at, Versions: [2]uint16{0x303, 0x304}}},
	)
	for _, r := range a[0].Replies {
		if r.Status != 0 || !strings.Contains(r.Error, "refused") {
			t.Errorf("%+v", r)
		}
	}
	if s := a[1].Shown; s.Version != 0 || !strings.Contains(s.Error, "refused") {
		t.Errorf("%+v", s)
	}
}

func TestHandshake(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	at := netip.MustParseAddrPort(server.Listener.Addr().String())
	a := orders(t,
		order{Hello: &hello{Addr: at, Versions: [2]uint16{0x304, 0x304}}},
		order{Hello: &hello{Addr: at, Versions: [2]uint16{0x301, 0x301}}},
		order{Hello: &hello{Addr: netip.MustParseAddrPort(plain.Listener.Addr().String()), Versions: [2]uint16{0x303, 0x304}}},
	)
	if s := a[0].Shown; s.Version != 0x304 || s.Serial == "" || s.Error != "" || s.Cipher == 0 {
		t.Errorf("%+v", s)
	}
	for _, s := range []*Shown{a[1].Shown, a[2].Shown} {
		if s.Version != 0 || s.Error == "" {
			t.Errorf("%+v", s)
		}
	}
}

func FuzzOrder(f *testing.F) {
	for _, line := range []string{`{"tell": true}`, `{"behave": {"status": 500}}`, `{`, `[]`, `{"tell": 1}`, ``} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if low := strings.ToLower(line); strings.Contains(low, "listen") || strings.Contains(low, "send") || strings.Contains(low, "hello") {
			t.Skip("orders that touch the network")
		}
		var out bytes.Buffer
		if err := Serve(t.Context(), strings.NewReader(line), &out); err != nil {
			t.Fatal(err)
		}
		if out.Len() > 0 && !json.Valid(bytes.TrimSpace(bytes.Split(out.Bytes(), []byte("\n"))[0])) {
			t.Errorf("%q is no answer", out.String())
		}
	})
}
