package ovs

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // what the file's format asks for: a checksum
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"time"
)

// Ports on the node's loopback: the database's, as SONA has it, and the one
// that the switch answers questions at.
const (
	databasePort = 6650
	switchPort   = 6654
	openFlowPort = 6653 // of the controller; IANA's
)

// The bridges and tunnel ports, with SONA's names.
const (
	bridgeInt = "kbr-int" // the pods'
	bridgeExt = "kbr-ex"  // the underlay's device, and the tunnels' end
)

// switchConfig is what a node's Open vSwitch is to be.
type switchConfig struct {
	datapath uint64
	underlay string // device
	mac      string // of the tunnels' end
	pods     []string
	mtu      int // of the pods
	underMTU int
}

// database is a whole database file: its schema and one transaction, in the
// format of ovsdb(5). The switch is then what it is to be from its first
// moment on, but for its controller.
func (c switchConfig) database(schema []byte) ([]byte, error) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, schema); err != nil {
		return nil, fmt.Errorf("reading Open vSwitch's schema: %w", err)
	}
	rows, err := json.Marshal(c.rows())
	if err != nil {
		return nil, fmt.Errorf("writing a switch's configuration: %w", err)
	}
	return append(record(compact.Bytes()), record(rows)...), nil
}

// record is one entry of the file.
func record(data []byte) []byte {
	data = append(data, '\n')
	return fmt.Appendf(nil, "OVSDB JSON %d %x\n%s", len(data), sha1.Sum(data), data) //nolint:gosec // see above
}

// tables are rows by table and identity, as a transaction has them.
type tables map[string]map[string]map[string]any

// add puts a row into a table and returns what other rows refer to it by.
func (t tables) add(table string, row map[string]any) []string {
	if t[table] == nil {
		t[table] = map[string]map[string]any{}
	}
	count := 0
	for _, rows := range t {
		count += len(rows)
	}
	id := fmt.Sprintf("00000000-0000-4000-8000-%012x", count+1)
	t[table][id] = row
	return []string{"uuid", id}
}

// set and dictionary are how a transaction writes those.
func set(of ...[]string) []any { return []any{"set", append([][]string{}, of...)} }

func dictionary(pairs ...[2]string) []any { return []any{"map", append([][2]string{}, pairs...)} }

func (c switchConfig) rows() tables {
	t := tables{}
	pods := [][]string{t.port(bridgeInt, map[string]any{"type": "internal", "mtu_request": c.mtu})}
	for _, device := range c.pods {
		pods = append(pods, t.port(device, nil))
	}
	for _, kind := range []string{VXLAN, GRE, GENEVE} {
		options := dictionary([2]string{"remote_ip", "flow"}, [2]string{"key", "flow"})
		pods = append(pods, t.port(kind, map[string]any{"type": kind, "options": options}))
	}
	inner := t.add("Bridge", map[string]any{
		"name": bridgeInt, "datapath_type": "netdev", "fail_mode": "secure", "protocols": "OpenFlow13", "ports": set(pods...),
		"controller":   set(t.add("Controller", target(fmt.Sprintf("ptcp:%d:127.0.0.1", switchPort)))),
		"other_config": dictionary([2]string{"datapath-id", fmt.Sprintf("%016x", c.datapath)}),
	})
	outer := t.add("Bridge", map[string]any{
		"name": bridgeExt, "datapath_type": "netdev", "fail_mode": "standalone",
		"ports":        set(t.port(bridgeExt, map[string]any{"type": "internal", "mtu_request": c.underMTU}), t.port(c.underlay, nil)),
		"other_config": dictionary([2]string{"hwaddr", c.mac}),
	})
	t.add("Open_vSwitch", map[string]any{"bridges": set(inner, outer)})
	return t
}

// port adds a port with its one interface.
func (t tables) port(name string, of map[string]any) []string {
	row := map[string]any{"name": name}
	maps.Copy(row, of)
	return t.add("Port", map[string]any{"name": name, "interfaces": t.add("Interface", row)})
}

// target is a row of the table Controller. Nothing of the control channel goes
// through the switch itself.
func target(to string) map[string]any {
	return map[string]any{"target": to, "connection_mode": "out-of-band", "max_backoff": 1000, "inactivity_probe": 5000}
}

// assign tells a running database, by RFC 7047, that the switch has a controller.
func assign(conn net.Conn, controller string) error {
	const timeout = 10 * time.Second // it is on loopback
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	err := json.NewEncoder(conn).Encode(map[string]any{"id": 1, "method": "transact", "params": []any{
		"Open_vSwitch",
		map[string]any{"op": "insert", "table": "Controller", "row": target(controller), "uuid-name": "controller"},
		map[string]any{
			"op": "mutate", "table": "Bridge", "where": []any{[]string{"name", "==", bridgeInt}},
			"mutations": []any{[]any{"controller", "insert", []string{"named-uuid", "controller"}}},
		},
	}})
	if err != nil {
		return err
	}
	var reply struct {
		Result []struct {
			Count          int
			Error, Details string
		}
		Error any
	}
	if err := json.NewDecoder(conn).Decode(&reply); err != nil {
		return fmt.Errorf("reading the database's answer: %w", err)
	}
	for _, r := range reply.Result {
		if r.Error != "" {
			return fmt.Errorf("the database says: %s (%s)", r.Error, r.Details)
		}
	}
	if n := len(reply.Result); reply.Error != nil || n == 0 || reply.Result[n-1].Count != 1 {
		return fmt.Errorf("the database has no bridge %s: %v", bridgeInt, reply.Error)
	}
	return nil
}
