package wire

import "os"

// Region is a reference-counted run of bytes that a response carries without the
// broker touching them: usually a piece of a segment file. It is created with one
// reference, which whoever sends or drops the response releases.
type Region interface {
	// Len is the number of bytes; it does not change.
	Len() int
	// ReadAt copies bytes from off, counted from the region's first byte.
	ReadAt(p []byte, off int64) (int, error)
	// File is the open file behind the region and the position of its first byte,
	// or nil if it has none (memory file system) and must be copied.
	File() (f *os.File, pos int64)
	// Release gives the reference up. The region must not be used afterwards.
	Release()
}
