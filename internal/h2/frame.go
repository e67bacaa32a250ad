package h2

import "encoding/binary"

// The frame types, flags, settings and error codes of RFC 9113 that matter
// here.
const (
	frameData         = 0
	frameHeaders      = 1
	framePriority     = 2
	frameReset        = 3
	frameSettings     = 4
	framePush         = 5
	framePing         = 6
	frameGoAway       = 7
	frameWindowUpdate = 8
	frameContinuation = 9

	flagEndStream  = 0x1
	flagAck        = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20

	settingTableSize  = 1
	settingPush       = 2
	settingStreams    = 3
	settingWindow     = 4
	settingFrame      = 5
	settingHeaderList = 6

	codeCancel = 8
)

// header is that of a frame.
type header struct {
	length      int
	kind, flags byte
	id          uint32
}

func parseHeader(b []byte) header {
	return header{
		length: int(b[0])<<16 | int(b[1])<<8 | int(b[2]),
		kind:   b[3], flags: b[4],
		id: binary.BigEndian.Uint32(b[5:]) & maxStreamID,
	}
}

func appendFrame(dst []byte, length int, kind, flags byte, id uint32) []byte {
	return append(dst, byte(length>>16), byte(length>>8), byte(length), kind, flags, byte(id>>24), byte(id>>16), byte(id>>8), byte(id)) //nolint:gosec // G115: each byte is meant
}

func appendSetting(dst []byte, key uint16, value uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(dst, key), value)
}

// Feed takes bytes as they were received. An error means that the peer does not
// keep to HTTP/2, and that the connection must be closed.
func (c *Conn) Feed(b []byte, r Receiver) error {
	for len(b) > 0 {
		n, err := c.step(b, r)
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// step takes some bytes, at least one: of a body as they come, of anything else
// a whole frame, which is collected if it comes in pieces.
func (c *Conn) step(b []byte, r Receiver) (int, error) {
	if c.data.under {
		return c.takeData(b, r), nil
	}
	if len(c.kept) == 0 && len(b) >= frameHeader {
		h := parseHeader(b)
		need, err := c.admit(h)
		if err != nil {
			return 0, err
		}
		if len(b) >= need {
			return need, c.frame(h, b[frameHeader:need], r)
		}
	}
	n := 0
	if len(c.kept) < frameHeader {
		n = min(frameHeader-len(c.kept), len(b))
		if c.kept = append(c.kept, b[:n]...); len(c.kept) < frameHeader {
			return n, nil
		}
	}
	h := parseHeader(c.kept)
	need, err := c.admit(h)
	if err != nil {
		return 0, err
	}
	more := min(need-len(c.kept), len(b)-n)
	c.kept = append(c.kept, b[n:n+more]...)
	n += more
	if len(c.kept) == need {
		p := c.kept[frameHeader:]
		c.kept = c.kept[:0]
		return n, c.frame(h, p, r)
	}
	return n, nil
}

// admit judges a frame by its header, and says how much of it is to be looked
// at together.
func (c *Conn) admit(h header) (need int, err error) {
	switch {
	case !c.settled && (h.kind != frameSettings || h.flags&flagAck != 0):
		return 0, errSettings
	case h.length > maxFrame:
		return 0, errTooLong
	case c.block.id != 0 && (h.kind != frameContinuation || h.id != c.block.id):
		return 0, errFrame
	case h.kind != frameData:
		return frameHeader + h.length, nil
	case h.flags&flagPadded == 0:
		return frameHeader, nil
	case h.length == 0:
		return 0, errFrame
	}
	return frameHeader + 1, nil
}

func (c *Conn) frame(h header, p []byte, r Receiver) error {
	switch h.kind {
	case frameData:
		return c.beginData(h, p, r)
	case frameHeaders:
		return c.headers(h, p, r)
	case frameContinuation:
		return c.continuation(h, p, r)
	case frameReset:
		return c.resetByPeer(h, p, r)
	case frameSettings:
		return c.settings(h, p)
	case framePush:
		return errPush
	case framePing:
		return c.ping(h, p)
	case frameGoAway:
		return c.goAway(h, p)
	case frameWindowUpdate:
		return c.windowUpdate(h, p, r)
	case framePriority:
		if h.id == 0 || h.length != 5 {
			return errFrame
		}
	}
	return nil // frames of unknown kinds are ignored
}

// find is the open stream of an id; nil: it is closed.
func (c *Conn) find(id uint32) (s *stream, slot uint32, err error) {
	if id&1 == 0 || id >= c.next {
		return nil, 0, errUnasked
	}
	slot = c.ring[id>>1&uint32(len(c.ring)-1)] - 1                  //nolint:gosec // G115: a small size
	if slot >= uint32(len(c.streams)) || c.streams[slot].id != id { //nolint:gosec // G115: a small size
		return nil, 0, nil
	}
	return &c.streams[slot], slot, nil
}

// beginData takes the header of a DATA frame; p has the length of its padding,
// if it is padded.
func (c *Conn) beginData(h header, p []byte, r Receiver) error {
	s, slot, err := c.find(h.id)
	if err != nil {
		return err
	}
	if c.left -= int64(h.length); c.left < 0 {
		return errWindow
	}
	c.consumed += int64(h.length)
	d := data{under: true, slot: -1, id: h.id, content: h.length, end: h.flags&flagEndStream != 0}
	if len(p) > 0 {
		d.padding = int(p[0])
		if d.content = h.length - 1 - d.padding; d.content < 0 {
			return errFrame
		}
	}
	switch {
	case s == nil:
	case !s.headed:
		c.malformed(slot, r)
	default:
		d.slot = int(slot)
		if s.received += int64(h.length); s.received >= windowUpdate && !d.end {
			c.replies = appendFrame(c.replies, 4, frameWindowUpdate, 0, h.id)
			c.replies = binary.BigEndian.AppendUint32(c.replies, uint32(s.received)) //nolint:gosec // G115: at most the window
			s.received = 0
		}
	}
	c.data = d
	if d.content+d.padding == 0 {
		c.takeData(nil, r) // no byte will come for it
	}
	return nil
}

// takeData takes bytes of a DATA frame.
func (c *Conn) takeData(b []byte, r Receiver) int {
	d := &c.data
	n := min(len(b), d.content)
	d.content -= n
	padding := min(len(b)-n, d.padding)
	d.padding -= padding
	whole := d.content+d.padding == 0
	d.under = !whole
	if d.slot < 0 || c.streams[d.slot].id != d.id || c.streams[d.slot].status != open {
		return n + padding // closed, perhaps meanwhile
	}
	end := whole && d.end
	if end {
		c.finish(&c.streams[d.slot])
	}
	if n > 0 || end {
		r.Data(uint32(d.slot), b[:n], end) //nolint:gosec // G115: not negative
	}
	return n + padding
}

// malformed gives up a request whose answer is none.
func (c *Conn) malformed(slot uint32, r Receiver) {
	c.Reject(slot)
	r.Failed(slot, ErrMalformed)
}

func (c *Conn) headers(h header, p []byte, r Receiver) error {
	if _, _, err := c.find(h.id); err != nil {
		return err
	}
	if h.flags&flagPadded != 0 {
		if len(p) == 0 || len(p)-1 < int(p[0]) {
			return errFrame
		}
		p = p[1 : len(p)-int(p[0])]
	}
	if h.flags&flagPriority != 0 {
		if len(p) < 5 {
			return errFrame
		}
		p = p[5:]
	}
	end := h.flags&flagEndStream != 0
	if h.flags&flagEndHeaders != 0 {
		return c.header(h.id, p, end, r)
	}
	c.block.id, c.block.end, c.block.kept = h.id, end, append(c.block.kept[:0], p...)
	return nil
}

func (c *Conn) continuation(h header, p []byte, r Receiver) error {
	b := &c.block
	if b.id == 0 {
		return errFrame
	}
	if len(b.kept)+len(p) > maxHeader {
		return errHeader
	}
	if c.idle++; c.idle > maxIdle {
		return errFlood // of empty ones
	}
	b.kept = append(b.kept, p...)
	if h.flags&flagEndHeaders == 0 {
		return nil
	}
	b.id = 0
	return c.header(h.id, b.kept, b.end, r)
}

// header takes a whole header block: an interim header, the final one or the
// trailer.
func (c *Conn) header(id uint32, encoded []byte, end bool, r Receiver) error {
	s, slot, err := c.find(id)
	if s == nil || err != nil {
		return err // of a closed stream: no block needs another to be understood
	}
	h, ok, err := c.decoder.decode(encoded, s.headed)
	if err != nil {
		return err
	}
	if s.header += len(encoded); s.header > maxHeader {
		return errHeader
	}
	switch {
	case !ok, s.headed && !end, h.Status == 101, h.Status/100 == 1 && end:
		c.malformed(slot, r)
		return nil
	case h.Status/100 == 1:
		return nil
	}
	s.headed = true
	if end {
		c.finish(s)
	}
	r.Header(slot, h, end)
	return nil
}

func (c *Conn) resetByPeer(h header, p []byte, r Receiver) error {
	s, slot, err := c.find(h.id)
	if err != nil {
		return err
	}
	if len(p) != 4 {
		return errFrame
	}
	if s != nil {
		c.close(s)
		r.Failed(slot, ErrReset)
	}
	return nil
}

func (c *Conn) ping(h header, p []byte) error {
	if h.id != 0 || len(p) != 8 {
		return errFrame
	}
	if h.flags&flagAck != 0 {
		return nil
	}
	if c.idle++; c.idle > maxIdle {
		return errFlood
	}
	c.replies = append(appendFrame(c.replies, 8, framePing, flagAck, 0), p...)
	return nil
}

// goAway takes the peer's word that it takes no further requests, and that it
// has not processed those above a certain one.
func (c *Conn) goAway(h header, p []byte) error {
	if h.id != 0 || len(p) < 8 {
		return errFrame
	}
	last := binary.BigEndian.Uint32(p) & maxStreamID
	c.draining = true
	for i := range c.streams {
		if s := &c.streams[i]; s.status == open && s.id > last {
			c.close(s)
			s.status = waiting
		}
	}
	return nil
}

func (c *Conn) windowUpdate(h header, p []byte, r Receiver) error {
	if len(p) != 4 {
		return errFrame
	}
	n := int64(binary.BigEndian.Uint32(p) & maxWindow)
	if h.id == 0 {
		if c.window += n; n == 0 || c.window > maxWindow {
			return errWindow
		}
		return nil
	}
	s, slot, err := c.find(h.id)
	if s == nil || err != nil {
		return err
	}
	if s.window += n; n == 0 || s.window > maxWindow {
		c.malformed(slot, r)
	}
	return nil
}

func (c *Conn) settings(h header, p []byte) error {
	switch {
	case h.id != 0 || len(p)%6 != 0:
		return errFrame
	case h.flags&flagAck != 0:
		if len(p) > 0 {
			return errFrame
		}
		return nil
	}
	if c.idle++; c.idle > maxIdle {
		return errFlood
	}
	for ; len(p) > 0; p = p[6:] {
		if err := c.setting(binary.BigEndian.Uint16(p), binary.BigEndian.Uint32(p[2:])); err != nil {
			return err
		}
	}
	if !c.settled {
		c.settled = true
		if c.head == nil {
			c.head = c.request.first(c.table)
		}
	}
	c.replies = appendFrame(c.replies, 0, frameSettings, flagAck, 0)
	return nil
}

func (c *Conn) setting(key uint16, value uint32) error {
	switch key {
	case settingTableSize:
		// What was in the table may go, so that all is begun anew.
		if value = min(value, maxTable); value < c.table {
			c.table = value
			c.head = c.request.reduced(value, c.begun)
			c.begun = false
		}
	case settingPush:
		if value != 0 {
			return errSetting // it is for clients only
		}
	case settingStreams:
		c.limit = min(value, maxStreamID)
	case settingWindow:
		if value > maxWindow {
			return errSetting
		}
		change := int64(value) - c.peerWindow
		c.peerWindow = int64(value)
		for i := range c.streams {
			if s := &c.streams[i]; s.status == open {
				if s.window += change; s.window > maxWindow {
					return errWindow
				}
			}
		}
	case settingFrame:
		if value < maxFrame || value > 1<<24-1 {
			return errSetting
		}
		c.peerFrame = int(value)
	}
	return nil
}
