package iperf3

import (
	"reflect"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/ingesttest"
)

// The events of a stream are the parts of the one document. (Both files are of
// one run: the stream was made of the document.)
func TestStreamOfEvents(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"tcp", "udp"} {
		one, stream := ingesttest.One(t, Format(), name+".json"), ingesttest.One(t, Format(), name+"-stream.json")
		if !reflect.DeepEqual(one.Result, stream.Result) || !one.Started.Equal(stream.Started) || one.Started.Year() != 2026 {
			t.Errorf("%s: %+v, as a stream %+v", name, one.Result, stream.Result)
		}
		if one.Labels[ingest.LabelProtocol] != strings.ToUpper(name) || one.Labels[ingest.LabelFormat] == stream.Labels[ingest.LabelFormat] || one.Labels[ingest.LabelPlanned] != "1" {
			t.Error(one.Labels, stream.Labels)
		}
	}
	if _, err := Format().Read(strings.NewReader("{\"event\":\"start\",\"data\":{}}\n{\"event\":1}\n"), ingest.About{}); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Error(err)
	}
	if _, err := Format().Read(strings.NewReader("{\"event\":\"error\",\"data\":\"unable to connect\"}\n"), ingest.About{}); err == nil || !strings.Contains(err.Error(), "unable to connect") {
		t.Error(err)
	}
}
