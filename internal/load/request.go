package load

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/model"
)

// HopsHeader is where servers that ask others say the path of a request.
const HopsHeader = "x-windtunnel-hops"

// IdentityHeader is where servers say who they are.
const IdentityHeader = "x-windtunnel-identity"

// HTTPRequest is the request of HTTP protocols: the part of a load's
// configuration that they share.
type HTTPRequest struct {
	Method  string            `json:"method,omitempty" jsonschema:"default=GET" jsonschema_description:"HTTP method."`
	Path    string            `json:"path,omitempty" jsonschema:"default=/" jsonschema_description:"HTTP path with query."`
	Headers map[string]string `json:"headers,omitempty" jsonschema_description:"Further HTTP header fields."`
	Body    string            `json:"body,omitempty" jsonschema_description:"HTTP body; {file: NAME} takes it from a file beside the study."`
	// BodyBase64 is for what is no text; files that are none become it.
	BodyBase64 []byte `json:"body_base64,omitempty" jsonschema_description:"HTTP body in base64, for what is no text. Instead of body."`
}

// Payload is the request's body.
func (r *HTTPRequest) Payload() []byte {
	if r.BodyBase64 != nil {
		return r.BodyBase64
	}
	return []byte(r.Body)
}

// Fill takes the defaults for what is not given, and returns all that could not
// be one request: line breaks in headers, or headers that frame the body.
func (r *HTTPRequest) Fill() error {
	if r.Method == "" {
		r.Method = http.MethodGet
	}
	if r.Path == "" {
		r.Path = "/"
	}
	var errs []error
	check := func(ok bool, key, format string, args ...any) {
		if !ok {
			errs = append(errs, &model.ConfigError{Key: key, Text: fmt.Sprintf(format, args...)})
		}
	}
	check(isToken(r.Method) && strings.ToUpper(r.Method) == r.Method && r.Method != http.MethodConnect,
		"method", "%q is not an HTTP method that can be sent: capital letters, and not CONNECT", r.Method)
	check(strings.HasPrefix(r.Path, "/") && IsVisible(r.Path),
		"path", "%q is not an HTTP path: it begins with / and has no spaces; escape others as %%20", r.Path)
	check(r.Body == "" || r.BodyBase64 == nil, "body_base64", "is given beside body: only one can be sent")
	generator := []string{"content-length", "transfer-encoding", "connection", "expect", "upgrade"}
	first := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		value, key, lower := r.Headers[name], "headers."+name, strings.ToLower(name)
		check(isToken(name), key, "%q is not a header's name", name)
		check(!strings.ContainsFunc(value, func(c rune) bool { return c != '\t' && (c < ' ' || c > '~') }),
			key, "a header's value is printable ASCII on one line")
		check(!slices.Contains(generator, lower), key, "is set by the load generator")
		check(first[lower] == "", key, "is the same header as %q", first[lower])
		first[lower] = name
	}
	return errors.Join(errs...)
}

// isToken says whether s is a token of RFC 9110.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	})
}

// IsVisible says whether s can stand in a request's head: not empty, and no
// spaces or controls, which could end the line and begin another request.
func IsVisible(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c >= 0x7f })
}
