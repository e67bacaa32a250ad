package feature

import (
	"net/netip"
	"time"
)

// Command is the hidden command that scouts are.
const Command = "feature-scout"

// order is what a scout is told, a line each; it has one of the pointers.
type order struct {
	Listen *listen    `json:"listen,omitempty"`
	Behave *Behaviour `json:"behave,omitempty"`
	Send   *sending   `json:"send,omitempty"`
	Hello  *hello     `json:"hello,omitempty"`
	Tell   bool       `json:"tell,omitempty"` // what has been received since the last time
}

// answer is what a scout says when it has done so.
type answer struct {
	Error   string  `json:"error,omitempty"`
	Replies []Reply `json:"replies,omitempty"`
	Shown   *Shown  `json:"shown,omitempty"`
	Got     *Got    `json:"got,omitempty"`
}

// listen makes a scout a server.
type listen struct {
	Addr     netip.AddrPort `json:"addr"`
	Identity string         `json:"identity"`
}

// Behaviour is how a server treats requests.
type Behaviour struct {
	Delay  time.Duration `json:"delay_ns,omitempty"` // before every answer
	Status int           `json:"status,omitempty"`   // of answers; 0: 200
	// First says that only so many tries of each request get that status; 0: all.
	First int `json:"first,omitempty"`
}

// Burst is requests that one scout sends.
type Burst struct {
	From   string            `json:"-"` // a pod, or Outside
	To     To                `json:"-"`
	Count  int               `json:"count"`
	Header map[string]string `json:"header,omitempty"`
	Path   string            `json:"path"`
	Host   string            `json:"host,omitempty"`
	// Parallel is how many are under way at a time; 0: one.
	Parallel int `json:"parallel,omitempty"`
	// Fresh opens a connection for every request.
	Fresh bool `json:"fresh,omitempty"`
	// Over spreads the requests over that time.
	Over time.Duration `json:"over_ns,omitempty"`
}

// To is what a burst is sent to.
type To string

// What bursts are sent to.
const (
	ToService  To = "the service"             // where the stack says that clients find it
	ToFront    To = "the service's address"   // that the stack gives it, or its virtual one; never the pods'
	ToPods     To = "the pods"                // at their own addresses, in turn
	ToDoor     To = "the ingress"             // of the check's rules
	ToAllowed  To = "an allowed address"      // outside the mesh
	ToRefused  To = "another address"         // outside the mesh
	headerSent    = "X-Windtunnel-Request"    // which request it is, with its burst
	headerIs      = "X-Windtunnel-Identity"   // which server answers
	headerPeer    = "X-Forwarded-Client-Cert" // whom a proxy takes the client for
)

// sending is a burst with what a scout needs to know besides.
type sending struct {
	Burst

	Name    string           `json:"name"` // begins the requests' names
	Targets []netip.AddrPort `json:"targets"`
	Timeout time.Duration    `json:"timeout_ns"`
}

// Reply is what became of one request.
type Reply struct {
	Name   string        `json:"name"`
	Status int           `json:"status,omitempty"` // 0: no answer
	From   string        `json:"from,omitempty"`   // the server that answered
	Took   time.Duration `json:"took_ns"`
	Error  string        `json:"error,omitempty"`
}

// Got is what a server has received.
type Got struct {
	Requests []Request `json:"requests,omitempty"`
	Most     int       `json:"most,omitempty"` // that were under way at a time
	// Bodies are those of POST requests.
	Bodies [][]byte `json:"bodies,omitempty"`
}

// Request is one that a server has received.
type Request struct {
	Name   string            `json:"name"` // of the sender's; several may be tries or copies of one
	Host   string            `json:"host"`
	Header map[string]string `json:"header,omitempty"` // those of interest
}

// hello asks for a TLS handshake.
type hello struct {
	Addr     netip.AddrPort `json:"addr"`
	Versions [2]uint16      `json:"versions"` // lowest and highest
	Ciphers  []uint16       `json:"ciphers,omitempty"`
}

// Shown is what a server has shown in a TLS handshake.
type Shown struct {
	Version uint16 `json:"version"`
	Cipher  uint16 `json:"cipher"`
	// Of the server's certificate.
	Identity string    `json:"identity"` // URI
	Issuer   string    `json:"issuer"`
	Serial   string    `json:"serial"`
	From     time.Time `json:"from"`
	Until    time.Time `json:"until"`
	// Error is why there was no connection in the end, e.g. as this side has no
	// certificate to show; Version is 0 if there was no handshake at all.
	Error string `json:"error,omitempty"`
}
