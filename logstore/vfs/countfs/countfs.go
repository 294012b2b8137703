package countfs

import (
	"fmt"
	"strings"
	"sync"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
)

// FS is a file system that counts its calls.
type FS struct {
	*hookfs.FS

	mu     sync.Mutex // guards counts; a leaf
	counts map[hookfs.Op]Count
}

// Count is how often an operation was called, and for reads and writes with how many
// bytes altogether.
type Count struct {
	Calls int
	Bytes int64
}

// Wrap counts the calls of inner.
func Wrap(inner vfs.FS) *FS {
	c := &FS{counts: map[hookfs.Op]Count{}}
	c.FS = hookfs.Wrap(inner, false, c.note)
	return c
}

func (c *FS) note(call *hookfs.Call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.counts[call.Op]
	n.Calls++
	n.Bytes += int64(call.Bytes)
	c.counts[call.Op] = n
	return nil
}

// Of is the count of one operation since the last Reset.
func (c *FS) Of(op hookfs.Op) Count {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[op]
}

// Reset sets all counts to zero.
func (c *FS) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.counts)
}

// String lists what was called, such as "open=1 write=2/300B sync=1".
func (c *FS) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var parts []string
	for _, op := range hookfs.Ops() {
		n := c.counts[op]
		switch {
		case n.Bytes > 0:
			parts = append(parts, fmt.Sprintf("%s=%d/%dB", op, n.Calls, n.Bytes))
		case n.Calls > 0:
			parts = append(parts, fmt.Sprintf("%s=%d", op, n.Calls))
		}
	}
	return strings.Join(parts, " ")
}
