package echopb

import (
	"testing"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
)

func TestDescriptorIsTheFile(t *testing.T) {
	t.Parallel()
	c := protocompile.Compiler{Resolver: &protocompile.SourceResolver{}}
	files, err := c.Compile(t.Context(), "echo.proto")
	if err != nil {
		t.Fatal(err)
	}
	want := protodesc.ToFileDescriptorProto(files[0])
	want.Name = new(FileName)
	if got := File(); !proto.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if _, err := Files(); err != nil {
		t.Error(err)
	}
}
