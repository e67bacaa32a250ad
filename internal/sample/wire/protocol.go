package wire

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"strings"
)

// The names of what flows begin with; TLS versions are written as Envoy and
// OpenSSL write them, e.g. TLSv1.3.
const (
	versionPrefix = "TLSv"
	offered       = "TLS offered, not accepted"
	alerted       = "TLS alert"
	http2         = "HTTP/2 in the clear"
	other         = "other"
)

// preface is how an HTTP/2 client begins (RFC 9113, section 3.4).
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// classify names the protocol of a flow by the bytes that it begins with.
// certain is false while more bytes could change the name.
func classify(b []byte) (kind string, certain bool) {
	switch {
	case len(b) == 0:
		return other, false
	case strings.HasPrefix(preface, string(b[:min(len(b), len(preface))])):
		return http2, len(b) >= len(preface)
	case b[0] == recordHandshake || b[0] == recordAlert:
		return classifyTLS(b)
	case b[0] == 0:
		return settings(b)
	}
	return classifyHTTP1(b)
}

// settings is true of an HTTP/2 server's first frame: SETTINGS of stream 0.
func settings(b []byte) (kind string, certain bool) {
	const header, frameType, maxLength = 9, 4, 16384
	if len(b) < header {
		return other, false
	}
	length := int(b[0])<<16 | int(b[1])<<8 | int(b[2])
	if b[3] == frameType && b[4] == 0 && length%6 == 0 && length <= maxLength && binary.BigEndian.Uint32(b[5:]) == 0 {
		return http2, true
	}
	return other, true
}

// classifyHTTP1 reads the first line of a request or an answer.
func classifyHTTP1(b []byte) (kind string, certain bool) {
	line, _, whole := bytes.Cut(b, []byte("\n"))
	for _, c := range line {
		if (c < ' ' && c != '\r' && c != '\t') || c == 0x7f {
			return other, true
		}
	}
	if !whole {
		return other, false
	}
	line = bytes.TrimSuffix(line, []byte("\r"))
	version, _, _ := bytes.Cut(line, []byte(" "))
	if !bytes.HasPrefix(version, []byte("HTTP/")) {
		version = line[bytes.LastIndexByte(line, ' ')+1:]
	}
	if v := string(version); v == "HTTP/1.1" || v == "HTTP/1.0" {
		return v + " in the clear", true
	}
	return other, true
}

// Numbers of TLS (RFC 8446, sections 4 and 5).
const (
	recordAlert       = 21
	recordHandshake   = 22
	clientHello       = 1
	serverHello       = 2
	recordHeader      = 5
	handshakeHeader   = 4
	supportedVersions = 43
	maxRecord         = 1<<14 + 256
)

// classifyTLS reads the first handshake message. A ServerHello tells the
// version that was agreed on.
func classifyTLS(b []byte) (kind string, certain bool) {
	if len(b) < recordHeader+1 {
		return other, false
	}
	length := int(binary.BigEndian.Uint16(b[3:]))
	if b[1] != 3 || length == 0 || length > maxRecord {
		return other, true
	}
	switch {
	case b[0] == recordAlert:
		return alerted, true
	case b[recordHeader] == clientHello:
		return offered, true
	case b[recordHeader] != serverHello:
		return other, true
	}
	if len(b) < recordHeader+handshakeHeader {
		return other, false
	}
	// A ServerHello is never so long that it would be spread over records.
	hello := int(b[6])<<16 | int(b[7])<<8 | int(b[8])
	if hello+handshakeHeader > length {
		return other, true
	}
	if len(b) < recordHeader+handshakeHeader+hello {
		return other, false
	}
	version, ok := helloVersion(b[recordHeader+handshakeHeader:][:hello])
	if !ok {
		return other, true
	}
	return versionPrefix + version, true
}

// helloVersion is the version in a ServerHello: from TLS 1.3 on the one in the
// extension supported_versions, before that the message's own.
func helloVersion(b []byte) (version string, ok bool) {
	number, ok := take(&b, 2)
	if !ok {
		return "", false
	}
	agreed := binary.BigEndian.Uint16(number)
	_, random := take(&b, 32)
	_, session := takeSized(&b, 1)
	_, cipher := take(&b, 2+1) // and compression
	if !random || !session || !cipher {
		return "", false
	}
	if len(b) == 0 { // before TLS 1.2 there may be no extensions
		return versionName(agreed)
	}
	extensions, ok := takeSized(&b, 2)
	for ok && len(extensions) > 0 {
		var id, value []byte
		if id, ok = take(&extensions, 2); !ok {
			break
		}
		if value, ok = takeSized(&extensions, 2); !ok {
			break
		}
		if binary.BigEndian.Uint16(id) == supportedVersions && len(value) == 2 {
			agreed = binary.BigEndian.Uint16(value)
		}
	}
	if !ok {
		return "", false
	}
	return versionName(agreed)
}

// versionName is "1.0" of 0x0301 up to "1.3" of 0x0304.
func versionName(n uint16) (name string, ok bool) {
	if n < 0x0301 || n > 0x0304 {
		return "", false
	}
	return "1." + strconv.Itoa(int(n)-0x0301), true
}

// take cuts n bytes off the front.
func take(b *[]byte, n int) (cut []byte, ok bool) {
	if len(*b) < n {
		return nil, false
	}
	cut, *b = (*b)[:n], (*b)[n:]
	return cut, true
}

// takeSized cuts off a field that is preceded by its size in 1 or 2 bytes.
func takeSized(b *[]byte, sizeBytes int) (field []byte, ok bool) {
	size, ok := take(b, sizeBytes)
	if !ok {
		return nil, false
	}
	n := 0
	for _, digit := range size {
		n = n<<8 | int(digit)
	}
	return take(b, n)
}
