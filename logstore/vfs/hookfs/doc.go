// Package hookfs calls a function before each call of a file system: the one wrapper
// that errfs (failures on demand) and countfs (budgets) are made of.
//
// The hook sees every call on the file system, its files, syncers and locks, on the
// calling goroutine and without a lock, and may refuse it. A group commit is one Call
// with Op SyncAll followed by one with Op Sync for each file; files lose their wrapper
// before the real SyncAll sees them.
package hookfs
