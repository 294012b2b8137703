package vfs

import (
	"os"

	"golang.org/x/sys/windows"
)

func space(dir string) (Space, error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return Space{}, err
	}
	var s Space
	if err := windows.GetDiskFreeSpaceEx(name, &s.AvailBytes, &s.TotalBytes, nil); err != nil {
		return Space{}, &os.PathError{Op: "GetDiskFreeSpaceEx", Path: dir, Err: err}
	}
	return s, nil
}
