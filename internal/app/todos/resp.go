package todos

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// RESP 2 is what Redis speaks: https://redis.io/docs/latest/develop/reference/protocol-spec/.

// Limits of what a server may say.
const (
	maxBulk  = 64 << 20
	maxArray = 1 << 20
	maxDepth = 4
	maxLine  = 64 << 10
)

// value is an answer: nil, a string, a number or an array. An error that the
// server has said is a value, too.
type value struct {
	null  bool
	text  string
	array []value
	err   error
}

// serverError is what Redis says in words.
type serverError string

func (e serverError) Error() string { return "redis says: " + string(e) }

// command encodes a command as an array of strings.
func command(args ...string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b.Bytes()
}

// readValue reads one answer.
func readValue(r *bufio.Reader, depth int) (value, error) {
	line, err := readLine(r)
	if err != nil {
		return value{}, err
	}
	rest := line[1:]
	switch line[0] {
	case '+':
		return value{text: rest}, nil
	case ':':
		if _, err := strconv.ParseInt(rest, 10, 64); err != nil {
			return value{}, fmt.Errorf("redis: %q is no number", rest)
		}
		return value{text: rest}, nil
	case '-':
		return value{err: serverError(rest)}, nil
	case '$':
		return readBulk(r, rest)
	case '*':
		return readArray(r, rest, depth)
	}
	return value{}, fmt.Errorf("redis: an answer that begins with %q", line[0])
}

func readLine(r *bufio.Reader) (string, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return "", fmt.Errorf("redis: reading an answer: %w", err)
	}
	text, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok || len(text) == 0 {
		return "", fmt.Errorf("redis: the line %q", line)
	}
	return string(text), nil
}

// size reads a length; -1 is none at all.
func size(text string, most int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < -1 || n > most {
		return 0, fmt.Errorf("redis: the length %q", text)
	}
	return n, nil
}

func readBulk(r *bufio.Reader, length string) (value, error) {
	n, err := size(length, maxBulk)
	if err != nil || n < 0 {
		return value{null: true}, err
	}
	var b bytes.Buffer // grows as bytes come in, whatever length was said
	if _, err := io.CopyN(&b, r, int64(n)+2); err != nil {
		return value{}, fmt.Errorf("redis: reading a string: %w", err)
	}
	text, ok := bytes.CutSuffix(b.Bytes(), []byte("\r\n"))
	if !ok {
		return value{}, errors.New("redis: a string that is longer than was said")
	}
	return value{text: string(text)}, nil
}

func readArray(r *bufio.Reader, length string, depth int) (value, error) {
	n, err := size(length, maxArray)
	if err != nil || n < 0 {
		return value{null: true}, err
	}
	if depth >= maxDepth {
		return value{}, errors.New("redis: arrays in arrays in arrays")
	}
	all := value{array: []value{}}
	for range n {
		v, err := readValue(r, depth+1)
		if err != nil {
			return value{}, err
		}
		all.array = append(all.array, v)
	}
	return all, nil
}
