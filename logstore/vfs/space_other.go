//go:build !linux && !darwin && !windows

package vfs

import (
	"errors"
	"os"
)

func space(dir string) (Space, error) {
	return Space{}, &os.PathError{Op: "statfs", Path: dir, Err: errors.ErrUnsupported}
}
