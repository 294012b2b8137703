package harness

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// SmallDisk is a file system that can be filled.
type SmallDisk struct {
	t   testing.TB
	dir string
}

// MountSmall makes one of so many MiB, for the time of the test: a tmpfs, or what DISK_FS names
// on a loop device.
func MountSmall(t testing.TB, mib int) *SmallDisk {
	t.Helper()
	dir := t.TempDir()
	if kind := os.Getenv("DISK_FS"); kind != "" {
		image := filepath.Join(t.TempDir(), "image")
		command(t, "truncate", "-s", fmt.Sprintf("%dM", mib), image)
		command(t, "mkfs."+kind, "-q", image)
		command(t, "mount", "-o", "loop", image, dir)
	} else {
		command(t, "mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%dm", mib), "klamm-test", dir)
	}
	t.Cleanup(func() { command(t, "umount", "-l", dir) })
	return &SmallDisk{t, dir}
}

// command runs a program that needs root.
func command(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v (this needs root): %v\n%s", name, args, err, out)
	}
}

// Path is that of a file on it.
func (d *SmallDisk) Path(name string) string { return filepath.Join(d.dir, name) }

// Free is the room that is left, in bytes.
func (d *SmallDisk) Free() int64 {
	d.t.Helper()
	var s syscall.Statfs_t
	if err := syscall.Statfs(d.dir, &s); err != nil {
		d.t.Fatal(err)
	}
	return int64(s.Bavail) * s.Bsize
}

// Fill lets somebody else's file take all room but so many bytes.
func (d *SmallDisk) Fill(name string, leave int64) {
	d.t.Helper()
	f, err := os.Create(d.Path(name))
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // it is full: that is its purpose
	if _, err := io.CopyN(f, rand.Reader, d.Free()-leave); err != nil && !errors.Is(err, syscall.ENOSPC) {
		d.t.Fatal(err)
	}
}

// Remove gives the room of a file back.
func (d *SmallDisk) Remove(name string) {
	d.t.Helper()
	if err := os.Remove(d.Path(name)); err != nil {
		d.t.Fatal(err)
	}
}
