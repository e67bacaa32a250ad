package network

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/model"
)

func TestMTU(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		raw                string
		overhead, underlay int
		want               int
		fails              string
	}{
		{`{}`, 50, 1500, 1450, ""},
		{`{"mtu": "native"}`, 24, 9000, 8976, ""},
		{`{"mtu": "equal"}`, 20, 1500, 1420, ""},
		{`{"mtu": "equal"}`, 60, 1500, 1420, ""},
		{`{"mtu": 1400}`, 50, 1500, 1400, ""},
		{`{"mtu": "1400"}`, 0, 1500, 1400, ""},
		{`{"mtu": 1451}`, 50, 1500, 0, "at most 1450"},
		{`{"mtu": 575}`, 0, 1500, 0, "576"},
		{`{"mtu": "large"}`, 0, 1500, 0, `is "large"; it can be native, equal or a number`},
		{`{"mtu": 14.5}`, 0, 1500, 0, "14.5"},
		{`{"mtu": null}`, 10, 1500, 0, "null"},
	} {
		c := struct {
			MTU MTU `json:"mtu"`
		}{MTU: Native}
		err := model.ReadConfig(json.RawMessage(tt.raw), &c)
		var got int
		if err == nil {
			got, err = c.MTU.Of("test", tt.underlay, tt.overhead)
		}
		switch {
		case tt.fails == "" && (err != nil || got != tt.want):
			t.Errorf("%s: %d, %v; want %d", tt.raw, got, err, tt.want)
		case tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)):
			t.Errorf("%s: %d, %v; want an error with %q", tt.raw, got, err, tt.fails)
		}
		if err != nil {
			continue
		}
		again, err := json.Marshal(c.MTU)
		if err != nil || !json.Valid(again) {
			t.Errorf("%s: written as %s, %v", tt.raw, again, err)
		}
	}
}

func FuzzMTU(f *testing.F) {
	for _, s := range []string{`"native"`, `1400`, `"14"`, `{}`, `"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var m MTU
		if err := json.Unmarshal(raw, &m); err != nil {
			return
		}
		out, err := json.Marshal(m)
		var again MTU
		if err != nil || json.Unmarshal(out, &again) != nil || again != m {
			t.Errorf("%s is read as %q, written as %s, %v, read as %q", raw, m, out, err, again)
		}
	})
}
