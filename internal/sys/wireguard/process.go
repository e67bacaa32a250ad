package wireguard

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"
)

// answer is what the process says: first when it is ready, then whenever it is
// asked.
type answer struct {
	Error string `json:"error,omitempty"`
	State State  `json:"state"`
}

// Serve is the process: it reads a Config from its input, makes the TUN device
// in the namespace that it was started in and carries packets. For every
// further line of input it says what it has seen. It ends with its input, and
// the device with it.
func Serve(in io.Reader, out io.Writer) error {
	read, write := json.NewDecoder(in), json.NewEncoder(out)
	var c Config
	if err := read.Decode(&c); err != nil {
		return fmt.Errorf("reading the WireGuard configuration: %w", err)
	}
	d, err := start(c)
	if err != nil {
		return errors.Join(err, write.Encode(answer{Error: err.Error()}))
	}
	defer d.Close()
	if err := write.Encode(answer{}); err != nil {
		return fmt.Errorf("answering: %w", err)
	}
	for {
		var question json.RawMessage
		err := read.Decode(&question)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading a question: %w", err)
		}
		if err := write.Encode(look(d)); err != nil {
			return fmt.Errorf("answering: %w", err)
		}
	}
}

func start(c Config) (*device.Device, error) {
	t, err := tun.CreateTUN(c.Device, c.MTU)
	if err != nil {
		return nil, fmt.Errorf("making the TUN device %s: %w", c.Device, err)
	}
	d := device.NewDevice(t, conn.NewDefaultBind(), &device.Logger{Verbosef: device.DiscardLogf, Errorf: device.DiscardLogf})
	if err = d.IpcSet(c.settings()); err == nil {
		err = d.Up()
	}
	if err != nil {
		d.Close()
		return nil, fmt.Errorf("configuring wireguard-go: %w", err)
	}
	return d, nil
}

func look(d *device.Device) answer {
	text, err := d.IpcGet()
	if err != nil {
		return answer{Error: err.Error()}
	}
	s, err := parse(text)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{State: s}
}

// Client is the other end of the process's input and output.
type Client struct {
	mu    sync.Mutex
	read  *json.Decoder
	write *json.Encoder
}

// Begin tells a process what to do, and returns when it is ready.
func Begin(stream io.ReadWriter, c Config) (*Client, error) {
	client := &Client{read: json.NewDecoder(stream), write: json.NewEncoder(stream)}
	_, err := client.ask(c)
	return client, err
}

// State asks the process what it has seen.
func (c *Client) State() (State, error) { return c.ask("state") }

func (c *Client) ask(question any) (State, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.write.Encode(question); err != nil {
		return State{}, fmt.Errorf("asking wireguard-go: %w", err)
	}
	var a answer
	if err := c.read.Decode(&a); err != nil {
		return State{}, fmt.Errorf("reading what wireguard-go answers: %w", err)
	}
	if a.Error != "" {
		return State{}, fmt.Errorf("wireguard-go: %s", a.Error)
	}
	return a.State, nil
}
