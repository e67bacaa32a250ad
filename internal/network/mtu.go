package network

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/windtunnel/windtunnel/internal/model"
)

// MTU says how large pods' packets may be.
type MTU string

// The words; anything else is a number of bytes.
const (
	// Native is the most that fits: the underlay's MTU without the layer's own
	// headers. Layers then differ in their MTU, too.
	Native MTU = "native"
	// Equal is the same for every layer: the underlay's MTU less 80 bytes, what
	// WireGuard over IPv6 takes, the most that any usual encapsulation does.
	Equal MTU = "equal"
)

const (
	equalOverhead = 80
	minMTU        = 576 // every IPv4 host must take so much (RFC 791)
	maxMTU        = 65535
)

// UnmarshalJSON takes a word or a number.
func (m *MTU) UnmarshalJSON(b []byte) error {
	text := string(bytes.Trim(b, `"`))
	*m = MTU(text)
	if *m == Native || *m == Equal {
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < minMTU || n > maxMTU {
		return &model.ConfigError{Key: "mtu", Text: fmt.Sprintf("is %s; it can be native, equal or a number from %d to %d", b, minMTU, maxMTU)}
	}
	*m = MTU(strconv.Itoa(n))
	return nil
}

// MarshalJSON is a word or a number.
func (m MTU) MarshalJSON() ([]byte, error) {
	if n, err := strconv.Atoi(string(m)); err == nil {
		return []byte(strconv.Itoa(n)), nil
	}
	return json.Marshal(string(m))
}

// Of is the pods' MTU over an underlay, where the layer adds so many bytes to
// every packet.
func (m MTU) Of(layer string, underlay, overhead int) (int, error) {
	most := underlay - overhead
	switch m {
	case Native, "":
		return most, nil
	case Equal:
		return underlay - equalOverhead, nil
	}
	n, err := strconv.Atoi(string(m))
	if err != nil {
		return 0, fmt.Errorf("reading the MTU %q: %w", m, err)
	}
	if n > most {
		return 0, fmt.Errorf("%s: an MTU of %d does not fit: the underlay takes %d bytes, and the layer's own headers are %d of them: at most %d",
			layer, n, underlay, overhead, most)
	}
	return n, nil
}
