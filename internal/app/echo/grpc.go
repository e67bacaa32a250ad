package echo

import (
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/windtunnel/windtunnel/internal/echopb"
	"github.com/windtunnel/windtunnel/internal/model"
)

// The status codes of gRPC that this server answers with.
const (
	grpcOK              = 0
	grpcInvalidArgument = 3
	grpcNotFound        = 5
	grpcUnimplemented   = 12
	grpcUnavailable     = 14
)

// prefixBytes come before each message of gRPC: whether it is compressed, and
// its length.
const prefixBytes = 5

var (
	errNotOneMessage = errors.New("the request is not one message that is not compressed")
	errMessageLarge  = errors.New("a message is too large")
)

// isGRPC says whether a request of HTTP/2 is a call of gRPC.
func isGRPC(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

// answerGRPC answers a call: of the echo service, of health checks, or of
// reflection, by which clients learn what there is; or fails it.
func (s *server) answerGRPC(w http.ResponseWriter, r *http.Request, fail bool) {
	h := w.Header()
	h.Set("Content-Type", "application/grpc")
	h.Set(headerIdentity, s.identity)
	if peer := r.Header.Get(headerXFCC); peer != "" {
		h.Set(headerPeer, peer)
	}
	status := grpcUnimplemented
	method := r.URL.Path[1:]
	if fail {
		status, method = grpcUnavailable, ""
	}
	switch method {
	case echopb.MethodUnary:
		status = echoMessage(w, r.Body)
	case echopb.MethodServerStream:
		status = streamMessages(w, r.Body)
	case "grpc.health.v1.Health/Check":
		status = grpcOK
		_, _ = w.Write([]byte("\x00\x00\x00\x00\x02\x08\x01")) // serving; the client may be gone
	case reflectionV1, reflectionV1Alpha:
		status = reflection(w, r.Body)
	}
	h.Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(status))
}

// teller says in the header of an answer how long it took until then.
type teller struct {
	http.ResponseWriter

	began time.Time
	told  bool
}

// told is w, or a teller of traced requests.
func told(w http.ResponseWriter, r *http.Request, began time.Time) http.ResponseWriter {
	if _, traced := model.TracedNumber(r.Header.Get(model.HeaderRequestID)); !traced {
		return w
	}
	return &teller{ResponseWriter: w, began: began}
}

// Write tells before the first byte.
func (t *teller) Write(b []byte) (int, error) {
	if !t.told {
		t.told = true
		t.Header().Set(model.HeaderTiming, string(model.AppendTiming(nil, model.TimingApp, time.Since(t.began).Nanoseconds())))
	}
	return t.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController flush.
func (t *teller) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// echoMessage returns the message that it reads: both are of one type, so that
// its bytes need not be understood.
func echoMessage(w io.Writer, r io.Reader) (status int) {
	b, err := io.ReadAll(io.LimitReader(r, maxBody+1))
	if err != nil || check(b) != nil {
		return grpcInvalidArgument
	}
	_, _ = w.Write(b) // the client may be gone
	return grpcOK
}

// check says whether the bytes are one message with its prefix.
func check(b []byte) error {
	switch {
	case len(b) > maxBody:
		return errMessageLarge
	case len(b) < prefixBytes || b[0] != 0 || int(binary.BigEndian.Uint32(b[1:])) != len(b)-prefixBytes:
		return errNotOneMessage
	}
	return nil
}

// streamMessages sends as many messages as are asked for, each as soon as it is
// there.
func streamMessages(w http.ResponseWriter, r io.Reader) (status int) {
	b, err := io.ReadAll(io.LimitReader(r, maxBody+1))
	if err != nil || check(b) != nil {
		return grpcInvalidArgument
	}
	var count, size uint64
	for b = b[prefixBytes:]; len(b) > 0; {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return grpcInvalidArgument
		}
		b = b[n:]
		if kind == protowire.VarintType {
			v, _ := protowire.ConsumeVarint(b)
			switch int(number) {
			case echopb.StreamCount:
				count = v
			case echopb.StreamSize:
				size = v
			}
		}
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return grpcInvalidArgument
		}
		b = b[n:]
	}
	if count > echopb.MaxCount || size > echopb.MaxSize {
		return grpcInvalidArgument
	}
	payload := make([]byte, size)
	_, _ = letters{}.Read(payload)
	var message []byte
	if size > 0 {
		message = protowire.AppendBytes(protowire.AppendTag(nil, echopb.MessagePayload, protowire.BytesType), payload)
	}
	message = slices.Concat(prefix(len(message)), message)
	flusher := http.NewResponseController(w)
	for range count {
		if _, err := w.Write(message); err != nil || flusher.Flush() != nil {
			break // the client is gone
		}
	}
	return grpcOK
}

func prefix(n int) []byte {
	return binary.BigEndian.AppendUint32([]byte{0}, uint32(n)) //nolint:gosec // G115: messages are bounded
}
