//go:build !agent

package main

import (
	"github.com/windtunnel/windtunnel/internal/ingest"
	"github.com/windtunnel/windtunnel/internal/ingest/fortio"
	"github.com/windtunnel/windtunnel/internal/ingest/h2load"
	"github.com/windtunnel/windtunnel/internal/ingest/hdr"
	"github.com/windtunnel/windtunnel/internal/ingest/iperf3"
	"github.com/windtunnel/windtunnel/internal/ingest/k6"
	"github.com/windtunnel/windtunnel/internal/ingest/nighthawk"
	"github.com/windtunnel/windtunnel/internal/ingest/oha"
	"github.com/windtunnel/windtunnel/internal/ingest/ping"
	"github.com/windtunnel/windtunnel/internal/ingest/sockperf"
	"github.com/windtunnel/windtunnel/internal/ingest/vegeta"
	"github.com/windtunnel/windtunnel/internal/ingest/wrk"
)

// readers are those of other tools' results. Each recognises its own formats
// and no other's, so that their order does not matter.
func readers() []ingest.Format {
	return []ingest.Format{
		fortio.Format(),
		h2load.Format(),
		hdr.Format(),
		iperf3.Format(),
		k6.Format(),
		nighthawk.Format(),
		oha.Format(),
		ping.Format(),
		sockperf.Format(),
		vegeta.Format(),
		wrk.Format(),
	}
}
