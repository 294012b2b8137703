// Package raftstore keeps what hashicorp/raft must not forget: its log, its term and vote,
// and snapshots. There are two stores for the former two, Badger for service and plain
// files on a vfs.FS for simulation, with one conformance test; snapshots are files of
// a vfs.FS in both cases.
//
// What both stores promise beyond raft's interfaces:
//
//   - The log has no gaps. An append that does not continue it is refused (the stores say
//     so by IsMonotonic). Prefixes are deleted from their start and suffixes from their
//     end, so that a crash leaves no gap either; one that is found is damage.
//   - A failed StoreLogs leaves nothing behind. What it wrote is removed, and if that
//     fails too, the next StoreLogs first removes whatever lies from its first entry on: a
//     stale tail could make a node vote wrongly after a restart.
//   - A vote is one write. Raft sets the term of a vote and then the candidate; between the
//     two a crash would leave the new term with the old candidate, who would then be granted
//     a vote that nobody weighed. So the term waits for the candidate.
//
// Methods may be called from several goroutines, as raft does: appends and deletions from
// one at a time, reads from any. No lock is held across file operations except those of
// the file store, whose appends are serialised by raft anyway.
package raftstore
