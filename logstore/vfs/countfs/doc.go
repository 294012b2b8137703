// Package countfs counts the calls of a file system, for budgets: a test says how many
// writes and syncs an operation may cost, and fails when a change makes it dearer.
//
//	fs := countfs.Wrap(vfs.NewMem())
//	...
//	fs.Reset()
//	append()
//	fs.String() // "write=1/16384B"
//
// sendfile goes around it: count that on the connection.
package countfs
