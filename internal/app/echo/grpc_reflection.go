package echo

import (
	"encoding/binary"
	"io"
	"net/http"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/windtunnel/windtunnel/internal/echopb"
)

// The two versions of the reflection service, whose messages are equal.
const (
	reflectionV1      = "grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
	reflectionV1Alpha = "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
)

// Fields of the messages of grpc.reflection.v1.
const (
	askFile      = 3 // file_by_filename
	askSymbol    = 4 // file_containing_symbol
	askServices  = 7 // list_services
	original     = 2 // original_request
	giveFiles    = 4 // file_descriptor_response
	giveServices = 6 // list_services_response
	giveError    = 7 // error_response
)

// maxQuestion bounds a question of reflection.
const maxQuestion = 64 << 10

// reflection answers questions until the client asks no more.
func reflection(w http.ResponseWriter, r io.Reader) (status int) {
	flusher := http.NewResponseController(w)
	for {
		question, err := readMessage(r)
		if err != nil {
			if err == io.EOF { //nolint:errorlint // readMessage says it bare, at the end only
				return grpcOK
			}
			return grpcInvalidArgument
		}
		answer, ok := describe(question)
		if !ok {
			return grpcInvalidArgument
		}
		if _, err := w.Write(slices.Concat(prefix(len(answer)), answer)); err != nil || flusher.Flush() != nil {
			return grpcOK // the client is gone
		}
	}
}

func readMessage(r io.Reader) ([]byte, error) {
	var p [prefixBytes]byte
	if _, err := io.ReadFull(r, p[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(p[1:])
	if p[0] != 0 || n > maxQuestion {
		return nil, errNotOneMessage
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, errNotOneMessage
	}
	return b, nil
}

// describe answers one question.
func describe(question []byte) (answer []byte, ok bool) {
	answer = message(nil, original, question)
	for b := question; len(b) > 0; {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, false
		}
		var what []byte
		if kind == protowire.BytesType {
			what, _ = protowire.ConsumeBytes(b[n:])
		}
		switch int(number) {
		case askServices:
			var list []byte
			for _, name := range []string{echopb.Service, "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"} {
				list = message(list, 1, message(nil, 1, []byte(name)))
			}
			answer = message(answer, giveServices, list)
		case askFile:
			answer = file(answer, string(what) == echopb.FileName)
		case askSymbol:
			answer = file(answer, known(string(what)))
		}
		m := protowire.ConsumeFieldValue(number, kind, b[n:])
		if m < 0 {
			return nil, false
		}
		b = b[n+m:]
	}
	return answer, true
}

// known says whether a name is of something in our file.
func known(name string) bool {
	files, err := echopb.Files()
	if err != nil {
		return false
	}
	_, err = files.FindDescriptorByName(protoreflect.FullName(name))
	return err == nil
}

// file appends our file's descriptor, if that is the answer.
func file(answer []byte, ours bool) []byte {
	b, err := proto.Marshal(echopb.File())
	if !ours || err != nil {
		e := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), grpcNotFound)
		return message(answer, giveError, message(e, 2, []byte("not found")))
	}
	return message(answer, giveFiles, message(nil, 1, b))
}

// message appends a field of bytes.
func message(dst []byte, field protowire.Number, b []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, field, protowire.BytesType), b)
}
