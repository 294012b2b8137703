package peer

import (
	"encoding/binary"
	"fmt"
	"io"
)

const (
	firstFrameBytes = 64 << 10 // of a buffer that is used again
	// smallAnswers in a row that need no quarter of the buffer, and it is made anew: some
	// large answers are not to cost their memory for ever.
	smallAnswers = 100
)

// frames reads answers, each into memory of its own, or all into the same.
type frames struct {
	reuse bool
	buf   []byte
	small int
}

// read returns the next frame without its size.
func (f *frames) read(conn io.Reader) ([]byte, error) {
	if f.reuse {
		return f.readAgain(conn)
	}
	var prefix [4]byte
	if _, err := io.ReadFull(conn, prefix[:]); err != nil {
		return nil, err
	}
	size, err := frameSize(prefix[:])
	if err != nil {
		return nil, err
	}
	frame := make([]byte, size)
	_, err = io.ReadFull(conn, frame)
	return frame, err
}

// readAgain reads with as few system calls as it takes: nothing but the answer can come.
func (f *frames) readAgain(conn io.Reader) ([]byte, error) {
	if f.buf == nil {
		f.buf = make([]byte, firstFrameBytes)
	}
	n, err := io.ReadAtLeast(conn, f.buf, 4)
	if err != nil {
		return nil, err
	}
	size, err := frameSize(f.buf)
	if err != nil {
		return nil, err
	}
	end := 4 + size
	if n > end {
		return nil, fmt.Errorf("%w: %d bytes that nobody asked for", ErrMalformed, n-end)
	}
	f.makeRoom(n, end)
	if _, err := io.ReadFull(conn, f.buf[n:end]); err != nil {
		return nil, err
	}
	return f.buf[4:end], nil
}

// makeRoom has the buffer, whose first n bytes are kept, hold so many in all.
func (f *frames) makeRoom(n, end int) {
	f.small++
	if end > len(f.buf)/4 || len(f.buf) == firstFrameBytes {
		f.small = 0
	}
	switch {
	case end > len(f.buf):
		f.buf = append(make([]byte, 0, max(end, 2*min(len(f.buf), end))), f.buf[:n]...)
	case f.small >= smallAnswers:
		f.small = 0
		f.buf = append(make([]byte, 0, max(end, firstFrameBytes)), f.buf[:n]...)
	}
	f.buf = f.buf[:cap(f.buf)]
}

func frameSize(prefix []byte) (int, error) {
	size := binary.BigEndian.Uint32(prefix)
	if size < 4 || size > maxAnswerBytes {
		return 0, fmt.Errorf("%w: frame of %d bytes", ErrMalformed, size)
	}
	return int(size), nil
}
