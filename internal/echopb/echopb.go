// Package echopb is the echo server's gRPC service, for its two sides: the
// server, and the load that has no other types. There is no generated code: it
// is echo.proto as a descriptor, written by hand.
package echopb

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// The service and its methods.
const (
	Service            = pkg + ".Echo"
	MethodUnary        = Service + "/Unary"
	MethodServerStream = Service + "/ServerStream"
)

// Numbers of the fields.
const (
	MessagePayload = 1
	StreamCount    = 1
	StreamSize     = 2
)

// Bounds of what a stream may be asked for.
const (
	MaxCount = 1_000_000
	MaxSize  = 1 << 20
)

// FileName is that of the file's descriptor.
const FileName = "windtunnel/echo/v1/echo.proto"

const pkg = "windtunnel.echo.v1"

// File is the descriptor of echo.proto.
func File() *descriptorpb.FileDescriptorProto {
	const message, request = "Message", "StreamRequest"
	return &descriptorpb.FileDescriptorProto{
		Name: new(FileName), Package: new(pkg), Syntax: new("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			{Name: new(message), Field: []*descriptorpb.FieldDescriptorProto{
				field("payload", MessagePayload, descriptorpb.FieldDescriptorProto_TYPE_BYTES),
			}},
			{Name: new(request), Field: []*descriptorpb.FieldDescriptorProto{
				field("count", StreamCount, descriptorpb.FieldDescriptorProto_TYPE_UINT32),
				field("size", StreamSize, descriptorpb.FieldDescriptorProto_TYPE_UINT32),
			}},
		},
		Service: []*descriptorpb.ServiceDescriptorProto{{
			Name: new("Echo"),
			Method: []*descriptorpb.MethodDescriptorProto{
				{Name: new("Unary"), InputType: full(message), OutputType: full(message)},
				{Name: new("ServerStream"), InputType: full(request), OutputType: full(message), ServerStreaming: new(true)},
			},
		}},
	}
}

func field(name string, number int32, kind descriptorpb.FieldDescriptorProto_Type) *descriptorpb.FieldDescriptorProto {
	return &descriptorpb.FieldDescriptorProto{
		Name: new(name), JsonName: new(name), Number: new(number), Type: kind.Enum(),
		Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
	}
}

func full(name string) *string { return new("." + pkg + "." + name) }

// Files is the file with what it needs, which is nothing.
func Files() (*protoregistry.Files, error) {
	f, err := protodesc.NewFile(File(), nil)
	if err != nil {
		return nil, fmt.Errorf("building the descriptor of %s: %w", FileName, err)
	}
	files := new(protoregistry.Files)
	return files, files.RegisterFile(f)
}
