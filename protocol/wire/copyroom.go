package wire

import "sync/atomic"

// maxCopyBytes bounds the memory of answers above 64 KiB that are copied. Readers that
// are slow hold it; when it is used up, the kernel sends further answers from the file,
// with one call more.
const maxCopyBytes = 32 << 20

// copyRoom counts the memory of copied answers of all connections. A nil one is full.
type copyRoom struct {
	max     int64
	used    atomic.Int64
	refused atomic.Int64
}

// take reserves n bytes, if they are there.
func (c *copyRoom) take(n int) bool {
	if c == nil {
		return false
	}
	if c.used.Add(int64(n)) > c.max {
		c.used.Add(-int64(n))
		c.refused.Add(1)
		return false
	}
	return true
}

func (c *copyRoom) give(n int) {
	if n > 0 {
		c.used.Add(-int64(n))
	}
}
