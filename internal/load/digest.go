package load

import (
	"fmt"
	"hash/crc32"
)

// Digest tells one body from another, e.g. "crc32c:01234567/120": cheap enough
// to be taken of every answer, whatever pieces it arrives in. It is made for
// accidents, not for enemies.
type Digest string

// Sum adds bytes of a body to its checksum, CRC-32C, which processors compute;
// that of nothing is 0.
func Sum(sum uint32, b []byte) uint32 {
	return crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), b)
}

// Digest is the digest of the answer's body.
func (a *Answer) Digest() Digest {
	return Digest(fmt.Sprintf("crc32c:%08x/%d", a.Sum, a.BodyBytes))
}

// parts are what workers compare.
func (d Digest) parts() (sum uint32, bodyBytes int64, err error) {
	if _, err := fmt.Sscanf(string(d), "crc32c:%08x/%d", &sum, &bodyBytes); err != nil {
		return 0, 0, fmt.Errorf("reading the payload digest %q: %w", d, err)
	}
	if again := (&Answer{Sum: sum, BodyBytes: bodyBytes}).Digest(); again != d {
		return 0, 0, fmt.Errorf("reading the payload digest %q: it would be written %q", d, again)
	}
	return sum, bodyBytes, nil
}
