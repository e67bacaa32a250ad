package feature

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// send sends a burst and says what became of each request, in their order.
func send(ctx context.Context, s sending) []Reply {
	replies := make([]Reply, s.Count)
	next := make(chan int)
	var workers sync.WaitGroup
	for range max(1, s.Parallel) {
		workers.Go(func() {
			t := &http.Transport{DisableKeepAlives: s.Fresh, DialContext: (&net.Dialer{}).DialContext}
			defer t.CloseIdleConnections()
			for i := range next {
				replies[i] = one(ctx, t, s, i)
			}
		})
	}
	began := time.Now()
	for i := range s.Count {
		wait(ctx, time.Until(began.Add(s.Over*time.Duration(i)/time.Duration(s.Count))))
		next <- i
	}
	close(next)
	workers.Wait()
	return replies
}

func wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// one sends the i-th request of a burst.
func one(ctx context.Context, t *http.Transport, s sending, i int) Reply {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	r := Reply{Name: fmt.Sprintf("%s-%d", s.Name, i)}
	began := time.Now()
	err := r.ask(ctx, t, s, i)
	r.Took = time.Since(began)
	if err != nil {
		r.Error = err.Error()
	}
	return r
}

// ask sends a request and reads the whole answer. Its name is also in the query,
// which is what access logs show.
func (r *Reply) ask(ctx context.Context, t *http.Transport, s sending, i int) error {
	target := s.Targets[i%len(s.Targets)]
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+target.String()+s.Path+"?request="+r.Name, nil)
	if err != nil {
		return err
	}
	req.Host = s.Host
	req.Header.Set(headerSent, r.Name)
	for k, v := range s.Header {
		req.Header.Set(k, v)
	}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return err
	}
	if _, err = io.Copy(io.Discard, resp.Body); err == nil {
		r.Status, r.From = resp.StatusCode, resp.Header.Get(headerIs)
	}
	return errors.Join(err, resp.Body.Close())
}

// shakePatience bounds a handshake.
const shakePatience = 5 * time.Second

// shake begins TLS and says what the server showed, whether or not it was
// content with a client that has no certificate.
func shake(ctx context.Context, h hello) (s Shown) {
	ctx, cancel := context.WithTimeout(ctx, shakePatience)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", h.Addr.String())
	if err != nil {
		return Shown{Error: err.Error()}
	}
	defer conn.Close() //nolint:errcheck // nothing was sent that matters
	client := tls.Client(conn, &tls.Config{
		MinVersion: h.Versions[0], MaxVersion: h.Versions[1], CipherSuites: h.Ciphers,
		InsecureSkipVerify: true, //nolint:gosec // whatever is shown is to be told
		NextProtos:         []string{"istio", "http/1.1"},
		VerifyConnection: func(state tls.ConnectionState) error {
			s = shown(state)
			return nil
		},
	})
	if err = client.HandshakeContext(ctx); err == nil {
		// In TLS 1.3 the server refuses a client after the client's handshake is done.
		err = refusal(ctx, client)
	}
	if err != nil {
		s.Error = err.Error()
	}
	return s
}

// refusal asks for something, so that a server that wants a certificate says so.
func refusal(ctx context.Context, c *tls.Conn) error {
	until, _ := ctx.Deadline()
	if err := c.SetDeadline(until); err != nil {
		return err
	}
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: server\r\nConnection: close\r\n\r\n"); err != nil {
		return err
	}
	_, err := c.Read(make([]byte, 1))
	return err
}

func shown(state tls.ConnectionState) Shown {
	s := Shown{Version: state.Version, Cipher: state.CipherSuite}
	if len(state.PeerCertificates) == 0 {
		return s
	}
	c := state.PeerCertificates[0]
	s.Issuer, s.Serial, s.From, s.Until = c.Issuer.CommonName, c.SerialNumber.Text(16), c.NotBefore, c.NotAfter
	if len(c.URIs) > 0 {
		s.Identity = c.URIs[0].String()
	}
	return s
}
