package proxy

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windtunnel/windtunnel/internal/model"
)

// everything is a stat prefix's service; "in " begins those of inbound.
func everything(stat string) (service string, inbound, known bool) {
	service, inbound = strings.CutPrefix(stat, "in ")
	return service, inbound, stat != "admin"
}

func TestSpans(t *testing.T) {
	t.Parallel()
	// As Envoy 1.40 writes them; the last line is still being written.
	const log = `{"app":"app;dur=0.012345","id":"windtunnel-0000000000000005","local":"10.0.1.2:8080","of":"in server","peer":"127.0.0.1:8080","start":"1795288834.010001","took":181,"upstream":97}
{"app":null,"id":"windtunnel-0000000000000005","local":"10.96.0.1:80","of":"server","peer":"10.0.1.2:8080","start":"1795288834.009900","took":700,"upstream":500}
{"app":null,"id":"windtunnel-0000000000000006","local":"10.96.0.1:80","of":"server","peer":null,"start":"1795288834.109900","took":700,"upstream":null}
{"app":null,"id":"windtunnel-0000000000000007","local":"10.96.0.1:80","of":"admin","peer":null,"start":"1795288834.109900","took":700,"upstream":5}
{"app":null,"id":"0f7e6d1c","local":"10.96.0.1:80","of":"server","peer":null,"start":"1795288834.109900","took":700,"upstream":5}
{"app":null,"id":"windtunnel-0000`
	got, err := parseSpans([]byte(log), "server-0", everything)
	if err != nil {
		t.Fatal(err)
	}
	want := []model.Span{
		{
			Request: 5, Pod: "server-0", Service: "server", Inbound: true, Local: netip.MustParseAddrPort("10.0.1.2:8080"),
			Peer: netip.MustParseAddrPort("127.0.0.1:8080"), Start: 1795288834010001000, Took: 181000, Upstream: 97000, App: 12345, Own: model.NoTime,
		},
		{
			Request: 5, Pod: "server-0", Service: "server", Local: netip.MustParseAddrPort("10.96.0.1:80"),
			Peer: netip.MustParseAddrPort("10.0.1.2:8080"), Start: 1795288834009900000, Took: 700000, Upstream: 500000, App: model.NoTime, Own: model.NoTime,
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.AddrPort{})); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"no JSON\n", `{"id":"windtunnel-0000000000000005","of":"x","start":"now","took":1,"upstream":1}` + "\n"} {
		if _, err := parseSpans([]byte(bad), "server-0", everything); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

func TestLogSpans(t *testing.T) {
	t.Parallel()
	manager := Extension("m", "x.HttpConnectionManager", Object{"stat_prefix": "in server"})
	listeners := List{Object{"filter_chains": List{Object{"filters": List{manager, TCPProxy("tcp", "c", nil)}}}}}
	LogSpans(listeners)
	raw, err := json.Marshal(listeners)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"of":"in server"`, `"prefix":"windtunnel-"`, `%REQ(X-REQUEST-ID)%`, `%RESP(SERVER-TIMING)%`} {
		if strings.Count(string(raw), want) != 1 {
			t.Errorf("%s is not there once: %s", want, raw)
		}
	}
}

func FuzzSpans(f *testing.F) {
	f.Add([]byte(`{"id":"windtunnel-0000000000000005","of":"in x","start":"1.000001","took":1,"upstream":1,"local":"1.2.3.4:5"}` + "\n"))
	f.Add([]byte("{}\n{"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		spans, err := parseSpans(raw, "pod", everything)
		for _, s := range spans {
			if s.Request == 0 || s.Start < 0 || err != nil {
				t.Errorf("%+v, %v", s, err)
			}
		}
	})
}
