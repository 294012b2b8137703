// Package errfs makes calls of a file system fail, by rules of one line:
//
//	write /a/*.log nth=3 err=ENOSPC         the third write to such a file
//	sync dir=/d1 err=EIO                    every sync of a file below /d1
//	write *.index from=2 partial=10         the second write and all later ones store 10 bytes
//	any nth=17                              the seventeenth call, whatever it is (EIO)
//
// A rule is an operation (hookfs.Op, or "any"), then in any order
//
//	PATTERN      matches the whole name (path.Match), or its last element if the pattern
//	             has no slash; of a rename either name
//	dir=PATH     names below PATH, or PATH itself
//	nth=N        only the N-th call that matches; from=N: that one and all later
//	err=NAME     ENOSPC, EIO (if none is given), EACCES, EROFS, EMFILE, ENOENT or EEXIST
//	partial=N    a read or write does its first N bytes
//
// A refused call does not reach the file system, so a refused sync leaves the pages
// dirty; for a disk that fails and drops them see vfs.CrashFS.OnSync. The first rule
// that matches decides, but every rule counts the calls that match it.
//
// A FS may be used by many goroutines, and rules may be added and cleared meanwhile.
package errfs
