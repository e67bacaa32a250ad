package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/summary"
)

func (a *app) loadCommand() *cobra.Command {
	var f loadFlags
	c := &cobra.Command{
		Use:   "load URL",
		Short: "Load one thing, and say how it did",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.load(cmd.Context(), args[0], f)
		},
	}
	f.define(c.Flags())
	return c
}

// load is the whole of `windtunnel load`.
func (a *app) load(ctx context.Context, url string, f loadFlags) error {
	j, err := a.loadJob(url, f)
	if err != nil {
		return wrong(err)
	}
	addresses, err := a.resolve(ctx, j.target, f.own)
	if err != nil {
		return err
	}
	s := summary.Load{
		Version: a.env.Version, Command: a.command(), URL: url, Addresses: addresses,
		Started: a.env.Now(), Load: j.load, Warmup: j.warmup, Seed: f.seed,
	}
	s.Result, _, err = load.Run(ctx, load.Job{
		Load: j.load, Protocol: j.protocol, Host: j.target.authority, Targets: addresses, Warmup: j.warmup,
	})
	if err != nil {
		return err
	}
	if f.json {
		return s.WriteJSON(a.env.Stdout)
	}
	return s.WriteText(a.env.Stdout)
}

// command is the command line as it was given.
func (a *app) command() string { return "windtunnel " + strings.Join(a.env.Args, " ") }

// loadJob is a load to run, with everything about it checked that can be
// without the network.
type loadJob struct {
	target   target
	load     model.Load
	protocol load.Protocol
	warmup   time.Duration
}

func (a *app) loadJob(url string, f loadFlags) (loadJob, error) {
	t, err := parseTarget(url, f.http2)
	if err != nil {
		return loadJob{}, err
	}
	var p problems
	j := loadJob{target: t, load: f.load(&p)}
	j.load.Protocol = t.protocol
	j.warmup = f.warmupOf(j.load.Duration, &p)
	if t.tls {
		j.load.TLS = &model.TLS{}
	}
	j.load.Config = f.config(t, &p)
	i := slices.IndexFunc(a.catalog.Protocols, func(p model.Plugin[load.Protocol]) bool { return p.Name == t.protocol })
	if i < 0 {
		p.add("%s needs the protocol %s, which this program does not speak", t.scheme, t.protocol)
		return j, errors.Join(p...)
	}
	if j.protocol, err = a.catalog.Protocols[i].New(j.load.Config); err != nil {
		p.add("%w", err)
	}
	return j, errors.Join(p...)
}

func rawJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage(fmt.Sprintf("%q", err)) // cannot be: v is made of strings and numbers
	}
	return raw
}
