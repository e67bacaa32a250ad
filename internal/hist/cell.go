package hist

import (
	"math/bits"
	"time"
)

// Cells is the number of cells: Cell returns 0 to Cells-1.
const Cells = 318

// Cell is a coarse logarithmic bucket of v, eight to the octave (6 to 13 %
// wide), for pictures of latency over time. Values under 16 ns are exact,
// negative ones count as zero and those above Highest as Highest.
func Cell(v time.Duration) uint32 {
	u := uint64(min(max(int64(v), 0), Highest))
	shift := max(bits.Len64(u)-4, 0)
	return uint32(shift<<3) + uint32(u>>uint(shift)) //nolint:gosec // G115: at most Cells-1
}

// CellBounds returns the smallest and the largest value of a cell under Cells;
// cells beyond it have the bounds of the last.
func CellBounds(cell uint32) (lo, hi time.Duration) {
	c := int64(min(cell, Cells-1))
	shift := max(c>>3-1, 0)
	lo = time.Duration((c - shift<<3) << shift)
	return lo, lo + time.Duration(1)<<shift - 1
}
