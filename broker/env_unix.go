//go:build unix

package broker

import "syscall"

// openFileLimit is how many descriptors this process may have, 0 if that is not known.
// The runtime has raised it to the hard limit.
func openFileLimit() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return limit.Cur
}
