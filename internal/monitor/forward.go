package monitor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

const (
	// forwardEvery is how often metrics are forwarded: as often as a scrape that
	// docs/monitoring.md recommends.
	forwardEvery   = 5 * time.Second
	forwardTimeout = 10 * time.Second // of one scrape, and of one try to write
	tries          = 3                // to write what has been scraped, while the other side is in trouble
	retryAfter     = time.Second
	maxScrape      = 64 << 20
	maxTold        = 200 // bytes of what the other side says
)

// readerHeader tells the forwarder's scrapes from others: a run waits for its
// last one.
const readerHeader = "X-Windtunnel-Reader"

// Forwarder reads a monitor's metrics and writes them to a server that speaks
// Prometheus' remote write protocol 1.0. It may be in another process than the
// monitor: the lab has no way out.
type Forwarder struct {
	from   string
	to     string
	every  time.Duration
	retry  time.Duration
	client *http.Client
	// tell hears of the first failure in a row.
	tell func(error)

	cancel context.CancelFunc
	done   chan struct{}
	sent   int
	failed int
	last   error
}

// CheckRemote says what is wrong with the address of a remote write.
func CheckRemote(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return fmt.Errorf("--remote-write: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("--remote-write %s: want http://HOST[:PORT]/PATH or https://HOST[:PORT]/PATH, for Prometheus /api/v1/write", text)
	case u.User != nil:
		// The command line is kept in the run folder and seen by everybody.
		return errors.New("--remote-write: a name or password has no place in it: run an agent of your own that knows them, and name that")
	}
	return nil
}

// Forward begins to forward from a monitor that serves at an address.
func Forward(ctx context.Context, address, to string, tell func(error)) *Forwarder {
	f := newForwarder("http://"+address+"/metrics", to, tell)
	f.start(ctx)
	return f
}

func newForwarder(from, to string, tell func(error)) *Forwarder {
	return &Forwarder{
		from: from, to: to, every: forwardEvery, retry: retryAfter, tell: tell, done: make(chan struct{}),
		// Only to the host that was named: no proxy of the environment, no redirection.
		client: &http.Client{
			Timeout: forwardTimeout, Transport: &http.Transport{},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

func (f *Forwarder) start(ctx context.Context) {
	ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx)) // an interrupted run is forwarded, too
	go func() {
		defer close(f.done)
		defer f.client.CloseIdleConnections()
		tick := time.NewTicker(f.every)
		defer tick.Stop()
		for {
			f.once(ctx)
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
}

// Stop ends the forwarding, once what has been read has been written. It says how
// many times that was done, and what was wrong with the last that failed.
func (f *Forwarder) Stop() (sent, failed int, last error) {
	f.cancel()
	<-f.done
	return f.sent, f.failed, f.last
}

func (f *Forwarder) once(ctx context.Context) {
	at := time.Now()
	// What the run has been told is read must be written: the run ends with it.
	points, err := f.scrape(context.WithoutCancel(ctx))
	if err != nil && ctx.Err() != nil {
		return // there is nothing to read any more
	}
	if err == nil {
		err = f.write(context.WithoutCancel(ctx), writeRequest(points, at))
	}
	if err == nil {
		f.sent++
		return
	}
	if f.failed++; f.last == nil {
		f.tell(err)
	}
	f.last = err
}

func (f *Forwarder) scrape(ctx context.Context) ([]point, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, f.from, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("reading the run's metrics: %w", err)
	}
	r.Header.Set("Accept", "text/plain;version=0.0.4")
	r.Header.Set(readerHeader, "remote-write")
	resp, err := f.client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("reading the run's metrics: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("reading the run's metrics: %s", resp.Status)
	}
	return points(io.LimitReader(resp.Body, maxScrape))
}

// write tries again what the other side may take later; the protocol says that
// this is so with statuses from 500.
func (f *Forwarder) write(ctx context.Context, body []byte) (err error) {
	for range tries {
		var again bool
		if again, err = f.try(ctx, body); err == nil || !again {
			return err
		}
		timer := time.NewTimer(f.retry)
		<-timer.C
	}
	return err
}

func (f *Forwarder) try(ctx context.Context, body []byte) (again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.to, bytes.NewReader(body))
	if err != nil {
		return false, fmt.Errorf("remote write: %w", err)
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("Content-Encoding", "snappy")
	r.Header.Set("User-Agent", "windtunnel")
	r.Header.Set("X-Prometheus-Remote-Write-Version", "0.1.0")
	resp, err := f.client.Do(r)
	if err != nil {
		return true, fmt.Errorf("remote write: %w", err)
	}
	defer resp.Body.Close()       //nolint:errcheck // only read
	if resp.StatusCode/100 == 2 { //nolint:mnd // success
		return false, nil
	}
	said, _ := io.ReadAll(io.LimitReader(resp.Body, maxTold)) // what there is
	return resp.StatusCode >= http.StatusInternalServerError, fmt.Errorf("remote write to %s: %s: %s", f.to, resp.Status, bytes.TrimSpace(said))
}
