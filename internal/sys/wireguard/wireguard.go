// Package wireguard sets up WireGuard: the kernel's device, or wireguard-go
// over a TUN device in a process of its own, which is told and asked over its
// standard input and output (package wireguard is both ends of that).
package wireguard

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

// Key is a Curve25519 key.
type Key = wgtypes.Key

// NewKey makes a private key.
func NewKey() (Key, error) {
	k, err := wgtypes.GeneratePrivateKey()
	if err != nil {
		return k, fmt.Errorf("making a WireGuard key: %w", err)
	}
	return k, nil
}

// Config is what a node's end is to do.
type Config struct {
	Device  string `json:"device"`
	MTU     int    `json:"mtu"`
	Private Key    `json:"private"`
	Port    int    `json:"port"`
	Peers   []Peer `json:"peers"`
}

// Peer is another node's end.
type Peer struct {
	Public   Key            `json:"public"`
	Endpoint netip.AddrPort `json:"endpoint"`
	Allowed  netip.Prefix   `json:"allowed"` // addresses behind it
}

// State is what an end has seen of its peers.
type State struct {
	Peers      int    `json:"peers"`
	Handshakes int    `json:"handshakes"` // peers that keys were agreed on with
	Received   uint64 `json:"received_bytes"`
	Sent       uint64 `json:"sent_bytes"`
}

// Add sums up the states of several ends.
func (s State) Add(o State) State {
	return State{s.Peers + o.Peers, s.Handshakes + o.Handshakes, s.Received + o.Received, s.Sent + o.Sent}
}

// Configure sets up the kernel's device in the calling thread's namespace.
func Configure(c Config) error {
	client, err := wgctrl.New()
	if err != nil {
		return fmt.Errorf("reaching the kernel's WireGuard: %w", err)
	}
	peers := make([]wgtypes.PeerConfig, 0, len(c.Peers))
	for _, p := range c.Peers {
		peers = append(peers, wgtypes.PeerConfig{
			PublicKey: p.Public, Endpoint: net.UDPAddrFromAddrPort(p.Endpoint),
			AllowedIPs: []net.IPNet{{IP: p.Allowed.Addr().AsSlice(), Mask: net.CIDRMask(p.Allowed.Bits(), p.Allowed.Addr().BitLen())}},
		})
	}
	err = client.ConfigureDevice(c.Device, wgtypes.Config{PrivateKey: &c.Private, ListenPort: &c.Port, ReplacePeers: true, Peers: peers})
	if err = errors.Join(err, client.Close()); err != nil {
		return fmt.Errorf("configuring the WireGuard device %s: %w", c.Device, err)
	}
	return nil
}

// Read reads the kernel's device of the calling thread's namespace back.
func Read(device string) (State, error) {
	client, err := wgctrl.New()
	if err != nil {
		return State{}, fmt.Errorf("reaching the kernel's WireGuard: %w", err)
	}
	d, err := client.Device(device)
	if err = errors.Join(err, client.Close()); err != nil {
		return State{}, fmt.Errorf("reading the WireGuard device %s: %w", device, err)
	}
	s := State{Peers: len(d.Peers)}
	for _, p := range d.Peers {
		if !p.LastHandshakeTime.IsZero() {
			s.Handshakes++
		}
		s.Received += uint64(p.ReceiveBytes) //nolint:gosec // a counter
		s.Sent += uint64(p.TransmitBytes)    //nolint:gosec // a counter
	}
	return s, nil
}

// settings is the configuration in WireGuard's own text format
// (https://www.wireguard.com/xplatform/).
func (c Config) settings() string {
	var b strings.Builder
	fmt.Fprintf(&b, "private_key=%s\nlisten_port=%d\nreplace_peers=true\n", hex.EncodeToString(c.Private[:]), c.Port)
	for _, p := range c.Peers {
		fmt.Fprintf(&b, "public_key=%s\nendpoint=%s\nreplace_allowed_ips=true\nallowed_ip=%s\n", hex.EncodeToString(p.Public[:]), p.Endpoint, p.Allowed)
	}
	return b.String()
}

// parse reads a state in that format.
func parse(text string) (State, error) {
	var s State
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		var into *uint64
		switch key {
		case "public_key":
			s.Peers++
			continue
		case "last_handshake_time_sec":
			if value != "0" {
				s.Handshakes++
			}
			continue
		case "rx_bytes":
			into = &s.Received
		case "tx_bytes":
			into = &s.Sent
		default:
			continue
		}
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return s, fmt.Errorf("reading WireGuard's %s: %w", key, err)
		}
		*into += n
	}
	return s, nil
}
