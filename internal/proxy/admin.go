package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Ask asks the admin interface, from inside the Envoy's place.
func (e *Envoy) Ask(ctx context.Context, path string) (body []byte, err error) {
	const patience = 5 * time.Second
	if body, err = Get(ctx, e.Where, e.Admin, path, patience); err != nil {
		return nil, fmt.Errorf("asking the Envoy in %s for %s: %w", e.Where.Name(), path, err)
	}
	return body, nil
}

// Get asks a proxy's admin interface on loopback, from inside its place, by
// HTTP. The whole answer must have come within patience.
func Get(ctx context.Context, where model.Namespace, port uint16, path string, patience time.Duration) (body []byte, err error) {
	err = where.InNetwork(func() error {
		// The connection is made on this thread: a http.Client would make it
		// on another, outside the place.
		dialer := net.Dialer{Timeout: time.Second}
		conn, dialErr := dialer.DialContext(ctx, "tcp4", "127.0.0.1:"+strconv.Itoa(int(port)))
		if dialErr != nil {
			return dialErr
		}
		defer conn.Close() //nolint:errcheck // only read
		body, err = ask(conn, path, patience)
		return err
	})
	return body, err
}

// maxAdmin bounds an answer of an admin interface.
const maxAdmin = 8 << 20

// ask sends one request and reads the whole answer.
func ask(conn net.Conn, path string, patience time.Duration) ([]byte, error) {
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n", path); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAdmin))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", resp.StatusCode)
	}
	return body, err
}

// Version is the program's, with the commit that it was made from.
func (e *Envoy) Version(ctx context.Context) (string, error) {
	raw, err := e.Ask(ctx, "/server_info")
	if err != nil {
		return "", err
	}
	var info struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(raw, &info); err != nil {
		return "", fmt.Errorf("reading Envoy's version: %w", err)
	}
	// commit/version/state/type/TLS library
	parts := strings.Split(info.Version, "/")
	if len(parts) < 2 {
		return info.Version, nil
	}
	return parts[1] + " (" + parts[0][:min(12, len(parts[0]))] + ")", nil
}

// Dump is the live configuration. Envoy itself leaves private keys out; that
// none is in it is checked all the same.
func (e *Envoy) Dump(ctx context.Context) ([]byte, error) {
	dump, err := e.Ask(ctx, "/config_dump")
	if err != nil {
		return nil, err
	}
	if regexp.MustCompile(`PRIVATE KEY`).Match(dump) {
		return nil, errors.New("Envoy's live configuration holds a private key; it is not kept") //nolint:staticcheck // a name
	}
	return dump, nil
}
