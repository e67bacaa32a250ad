package driver

import (
	"fmt"
	"strings"
	"time"
)

// WholeSeconds refuses times that are no whole seconds.
func (c *Check) WholeSeconds() {
	l := &c.job.Load
	for name, d := range map[string]time.Duration{"duration": l.Duration, "timeout": l.Timeout, "warmup": c.job.Warmup} {
		c.Refuse(d%time.Second != 0, "it takes whole seconds: %s is %s", name, d)
	}
}

// Lua is the head of a script for wrk and wrk2 that makes the request.
func (r *Request) Lua() string {
	var b strings.Builder
	fmt.Fprintf(&b, "wrk.method = %s\n", quote(r.Method))
	for _, line := range r.Lines() {
		name, value, _ := strings.Cut(line, ": ")
		fmt.Fprintf(&b, "wrk.headers[%s] = %s\n", quote(name), quote(value))
	}
	if r.HasBody() {
		fmt.Fprintf(&b, "wrk.body = %s\n", quote(string(r.Payload())))
	}
	return b.String()
}

// quote makes a Lua string of any bytes: letters and digits as they are, all
// else by number.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		c := s[i]
		if c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || strings.IndexByte(" -_./:;=,+", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, `\%03d`, c)
	}
	b.WriteByte('"')
	return b.String()
}
