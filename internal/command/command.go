// Package command is what the project's programs share: the outside world, exit
// codes, and how a program ends.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Env is the outside world.
type Env struct {
	Args     []string // without the program's name
	Stdin    io.Reader
	Stdout   io.Writer
	Stderr   io.Writer
	Terminal bool // standard output is one
	// StderrTerminal says that standard error is one.
	StderrTerminal bool
	Lookup         Lookup
	Version        string
	Now            func() time.Time
}

// Lookup finds the addresses of a host. The network is "ip", "ip4" or "ip6".
type Lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)

// Printf prints to standard output; a reader that has gone away is no error.
func (e *Env) Printf(format string, args ...any) { _, _ = fmt.Fprintf(e.Stdout, format, args...) }

// Complain prints to standard error.
func (e *Env) Complain(format string, args ...any) { _, _ = fmt.Fprintf(e.Stderr, format, args...) }

// The exit codes.
const (
	ExitDone        = 0
	ExitFailed      = 1
	ExitInput       = 2
	ExitGate        = 3
	ExitUnsupported = 4
)

// exit is an error with the exit code that it asks for.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string { return e.err.Error() }
func (e *exit) Unwrap() error { return e.err }

// Exit is an error that ends the program with a code.
func Exit(code int, err error) error { return &exit{code, err} }

// Silent ends with a code, with nothing more to say.
func Silent(code int) error { return &exit{code, nil} }

// Wrong is an error that the input is to blame for.
func Wrong(err error) error { return &exit{ExitInput, err} }

// Run runs the command that Env.Args name and returns the exit code. SIGINT and
// SIGTERM end the command's context.
func Run(ctx context.Context, env Env, root *cobra.Command) int {
	ctx, stop := untilInterrupted(ctx)
	defer stop()
	root.SilenceUsage, root.SilenceErrors, root.Version = true, true, env.Version
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Wrong(err) })
	for _, c := range root.Commands() {
		c.Args = inputError(c.Args)
	}
	root.SetArgs(env.Args)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	return code(&env, root.ExecuteContext(ctx))
}

// inputError makes wrong arguments exit with 2.
func inputError(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check == nil {
			return nil
		}
		if err := check(cmd, args); err != nil {
			return Wrong(fmt.Errorf("%w (see windtunnel %s --help)", err, cmd.Name()))
		}
		return nil
	}
}

func code(env *Env, err error) int {
	if err == nil {
		return ExitDone
	}
	var e *exit
	code := ExitFailed
	switch {
	case errors.As(err, &e):
		code = e.code
		if e.err == nil {
			return code
		}
	case errors.Is(err, model.ErrUnsupported):
		code = ExitUnsupported
	}
	env.Complain("windtunnel: %s\n", err)
	return code
}

// echoes is how long after a first signal others are taken for its echoes: a
// terminal's ctrl-C reaches a program and whoever hands signals on to it, and
// timeout(1) signals a process and then its group. Nobody asks twice as fast.
const echoes = time.Second

// untilInterrupted ends the context at the first SIGINT or SIGTERM; another one,
// when the first can no longer be echoing, kills.
func untilInterrupted(ctx context.Context) (interrupted context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	unhook := func() { signal.Stop(signals) }
	go func() {
		select {
		case <-signals:
			time.AfterFunc(echoes, unhook)
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() { unhook(); cancel() }
}
