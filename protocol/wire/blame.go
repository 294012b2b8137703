package wire

import (
	"errors"
	"os"
	"syscall"
)

// blame finds out whose fault it was that sendfile failed, which has one error for two
// ends: it reads what could not be sent. If that cannot be read either, the region learns
// of it there, and whoever made it can act (segment.ReadParams.OnReadError): the next
// fetch gets KAFKA_STORAGE_ERROR instead of one closed connection after the other.
//
// That a client has left is told by the error alone. A disk that can be read again has not
// failed: the client's next connection gets the bytes.
func (o *output) blame(r Region, err error) {
	var call *os.SyscallError
	if !errors.As(err, &call) || call.Syscall != "sendfile" ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return
	}
	buf := o.pool.get(stageSize)
	defer o.pool.put(buf)
	for off := 0; off < r.Len(); {
		n, err := r.ReadAt(buf.b[:min(stageSize, r.Len()-off)], int64(off))
		if off += n; err != nil || n == 0 {
			return
		}
	}
}
