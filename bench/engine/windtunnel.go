package main

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// bedDecides keeps our own program from waking CPUs: the bed does, for all tools
// or for none.
const bedDecides = "--deep-idle"

// windtunnel is our own program, called as anybody would call it.
func windtunnel(c, program, descriptor string) *tool {
	load := func(url string, d time.Duration, more ...string) []string {
		// No warm-up: the peers have none, and in the stall every request counts.
		return append([]string{"load", url, bedDecides, "--json", "--connections", c, "--warmup", "0s", "--duration", inSeconds(d)}, more...)
	}
	return &tool{
		name: ours, program: program, version: []string{"--version"},
		closed: func(url string, d time.Duration) []string { return load(url, d) },
		open: func(url string, rate int, d time.Duration) []string {
			return load(url, d, "--rate", strconv.Itoa(rate))
		},
		grpc: func(addr string, d time.Duration) []string {
			// The last flag wins: one connection, with as many streams. The types are
			// those of the health service, by its descriptor.
			return append(load("grpc://"+addr+healthMethod, d), "--connections", "1", "--set", "streams="+c, "--set", "descriptor="+descriptor)
		},
		read: readWindtunnel, lateness: readWindtunnel,
	}
}

// spinning is the same program asked to watch the clock before a request is due.
// It shows what of its lateness is the time that a sleeping CPU takes to wake;
// no budget is judged by it, for it costs a core.
func spinning(own *tool) *tool {
	const watch = "200us" // two turns of the fastest load here
	return &tool{
		name: own.name + " --spin " + watch, program: own.program, version: own.version, lateness: own.lateness,
		open: func(url string, rate int, d time.Duration) []string {
			return append(own.open(url, rate, d), "--spin", watch)
		},
	}
}

func readWindtunnel(out []byte) (l latency, err error) {
	type quantiles struct {
		P50  float64  `json:"p50_ms"`
		P99  float64  `json:"p99_ms"`
		P999 *float64 `json:"p99_9_ms"` // null where there are too few requests for it
	}
	var r struct {
		Due, Sent, Succeeded int
		Response             quantiles
		Generator            struct{ Lateness quantiles }
	}
	if err = fromJSON(out, &r); err != nil {
		return l, err
	}
	const most = 0.01 // that a busy machine may leave unsent at the end; its response times are then still those of the rest
	if r.Succeeded == 0 || float64(r.Due-r.Succeeded) > most*float64(r.Due) {
		return l, fmt.Errorf("of %d requests, %d were sent and %d have succeeded", r.Due, r.Sent, r.Succeeded)
	}
	in := func(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
	l = latency{
		requests: r.Due, p50: in(r.Response.P50), p99: in(r.Response.P99),
		latenessP50: in(r.Generator.Lateness.P50), latenessP99: in(r.Generator.Lateness.P99),
	}
	if r.Response.P999 != nil {
		l.p999 = in(*r.Response.P999)
	}
	return l, nil
}

// healthDescriptor is healthProto for a machine: a FileDescriptorSet in base64.
// The status is a number here, which is the same on the wire.
func healthDescriptor() (string, error) {
	message := func(name, field string, kind descriptorpb.FieldDescriptorProto_Type) *descriptorpb.DescriptorProto {
		return &descriptorpb.DescriptorProto{Name: &name, Field: []*descriptorpb.FieldDescriptorProto{{
			Name: &field, Number: new(int32(1)), Type: &kind, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}}}
	}
	const in, out = "HealthCheckRequest", "HealthCheckResponse"
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{
		Name: new("health.proto"), Package: new("grpc.health.v1"), Syntax: new("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			message(in, "service", descriptorpb.FieldDescriptorProto_TYPE_STRING),
			message(out, "status", descriptorpb.FieldDescriptorProto_TYPE_INT32),
		},
		Service: []*descriptorpb.ServiceDescriptorProto{{
			Name: new("Health"),
			Method: []*descriptorpb.MethodDescriptorProto{{
				Name: new("Check"), InputType: new(".grpc.health.v1." + in), OutputType: new(".grpc.health.v1." + out),
			}},
		}},
	}}}
	b, err := proto.Marshal(set)
	if err != nil {
		return "", fmt.Errorf("writing the health service's descriptor: %w", err)
	}
	return base64.StdEncoding.EncodeToString(b), nil
}
