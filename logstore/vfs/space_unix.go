//go:build linux || darwin

package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// space counts what an ordinary user may still write, without the blocks that some
// file systems reserve for root.
func space(dir string) (Space, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return Space{}, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	block := uint64(st.Bsize)
	return Space{TotalBytes: st.Blocks * block, AvailBytes: st.Bavail * block}, nil
}
