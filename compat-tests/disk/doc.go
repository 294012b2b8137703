// Package disk fills the disk under a real process: a small tmpfs, mounted for each test
// (root only); DISK_FS=ext4 takes a real file system on a loop device instead. A full disk is not a failed one: what is there stays readable, what was
// acknowledged stays there, nothing dies, and everything goes on when there is room again.
package disk
