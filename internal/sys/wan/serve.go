package wan

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Serve is the delay line's process: it reads its lines from in, as a JSON
// list, says Ready, and then answers every question with the Stats of all lines
// as a JSON list, after having changed the lines that the question says. It ends
// with its input; any failure ends it with an error.
func Serve(in io.Reader, out io.Writer) error {
	input, output := json.NewDecoder(in), json.NewEncoder(out)
	var wanted []Line
	if err := input.Decode(&wanted); err != nil {
		return fmt.Errorf("reading the links: %w", err)
	}
	lines, ready, err := open(wanted)
	if err != nil {
		return errors.Join(err, output.Encode(Ready{Error: err.Error()}))
	}
	if err := output.Encode(ready); err != nil {
		return fmt.Errorf("reporting to the lab: %w", err)
	}
	ended := make(chan error, 2)
	go func() { ended <- runAll(lines) }()
	go func() { ended <- answer(input, output, lines) }()
	return <-ended
}

func open(wanted []Line) (lines []*line, ready Ready, err error) {
	calm()
	leadGroup()
	if ready.Schedule, err = hurry(); err != nil {
		return nil, ready, err
	}
	if _, err = stampArrivals(); err != nil {
		return nil, ready, err
	}
	for _, w := range wanted {
		l, err := openLine(w)
		if err != nil {
			return nil, ready, err
		}
		lines = append(lines, l)
	}
	return lines, ready, nil
}

// question is what the lab asks.
type question struct {
	Change []Change `json:"change,omitempty"`
}

// Change gives a line other settings. What is on its way already arrives when
// it would have; where packets keep their order, none overtakes it. Duplicate,
// Overtake and Reorder stay as they were.
type Change struct {
	Name     string   `json:"name"`
	Settings Settings `json:"settings"`
}

func answer(input *json.Decoder, output *json.Encoder, lines []*line) error {
	for {
		var q question
		if err := input.Decode(&q); errors.Is(err, io.EOF) {
			return nil // the lab is done
		} else if err != nil {
			return fmt.Errorf("reading from the lab: %w", err)
		}
		all := make([]Stats, len(lines))
		for i, l := range lines {
			for _, c := range q.Change {
				if c.Name == l.Name {
					l.change.Store(&c.Settings)
				}
			}
			all[i] = l.stats()
		}
		if err := output.Encode(all); err != nil {
			return fmt.Errorf("answering the lab: %w", err)
		}
	}
}

// Client talks to a delay line.
type Client struct {
	in  *json.Decoder
	out *json.Encoder
}

// Dial gives a new delay line its lines, over its standard input and output,
// and waits until it is ready.
func Dial(stream io.ReadWriter, lines []Line) (*Client, Ready, error) {
	c := &Client{json.NewDecoder(stream), json.NewEncoder(stream)}
	var ready Ready
	if err := c.out.Encode(lines); err != nil {
		return nil, ready, fmt.Errorf("starting the delay line: %w", err)
	}
	if err := c.in.Decode(&ready); err != nil {
		return nil, ready, fmt.Errorf("starting the delay line: %w", err)
	}
	if ready.Error != "" {
		return nil, ready, fmt.Errorf("starting the delay line: %s", ready.Error)
	}
	return c, ready, nil
}

// Stats asks what the lines have counted. One question at a time.
func (c *Client) Stats() ([]Stats, error) { return c.ask(question{}) }

// Change gives lines other settings, from the next packet on.
func (c *Client) Change(changes []Change) error {
	_, err := c.ask(question{Change: changes})
	return err
}

func (c *Client) ask(q question) ([]Stats, error) {
	if err := c.out.Encode(q); err != nil {
		return nil, fmt.Errorf("asking the delay line: %w", err)
	}
	var all []Stats
	if err := c.in.Decode(&all); err != nil {
		return nil, fmt.Errorf("asking the delay line: %w", err)
	}
	return all, nil
}
