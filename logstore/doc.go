// Package logstore is the log of one partition, and the log directory that holds many.
// It knows nothing of clusters, replication or requests.
//
// Log is Kafka's UnifiedLog without the high watermark: a row of segments of which the
// last one grows. It assigns offsets as leader or takes them as follower, knows where
// leader epochs began and what producers have sent, reads from any offset, is cut at
// the end by truncation and at the beginning by retention.
//
// Dir is one log directory, hence one disk: its identity, its logs, and everything that
// is done for many logs at once because one sync, or one file, serves them all.
//
//	append ──► Log ──► segment file           page cache
//	            │ wantFlush
//	            ▼
//	Committer ─ BeginFlush ─ Sync ─ Finish    group commit: flushed ends move
//	            │ moved
//	            ▼
//	Keeper ──── checkpoints, recovery points, retention, room on the disk
//
// A replica that nobody waits for appends with AppendBehind and syncs by itself, with FlushAlone,
// before a round reports it: others do not wait for what may be a lot.
//
// Cleaner cleans the compacted logs of all directories; what it keeps is decided in package
// compaction.
//
// # What survives
//
// Four offsets of a log matter for that. Log end: what is written. Flushed: what a sync
// has reported durable. The persisted flushed offset: what flushed was, a second ago or
// less, in the directory's flushed-offset-checkpoint. The recovery point: below it, the
// indexes, epochs and producers are on the disk as well.
//
//	start      recovery point    persisted    flushed     end
//	  |──────────────|───────────────|───────────|─────────|
//	  not read       scanned after a crash
//	                  bad = damage   bad = torn tail, cut off
//
// A start after a crash scans from the recovery point. Bad bytes below the persisted
// offset are damage: the log fails, with file and position, and is left as it is
// (CorruptionError). Above it they are what a power cut leaves of writes that nobody
// was promised: they are cut off, even if good batches follow. Everything that is kept
// is synced before it counts as flushed. A start after a clean stop reads nothing.
//
// Segments that are not scanned must be as long as they were: a start compares their files
// with what the directory has noted of them, and looks only into those that differ
// (segments.go). Flipped bits in them are found when they are read for the first time.
//
// Marks on the disk must never claim more than is there, so each change has its order:
//
//	create       nothing: there are no files before the first change (birth.go)
//	append       write, sync, report; persist the flushed offset later
//	truncate     lower the marks durably, cut, sync, return
//	delete       rename to -delete durably, remove the marks, remove files later (forget.go)
//	new start    write who has produced what lies below it, sync, persist the log start
//	retain       the same, sync what the log begins with then, remove files
//	move point   write snapshot, indexes, epochs; sync; wait for the flush; persist
//	move a log   to another directory: sync and mark the copy, give it the log's name, only
//	             then take the log's away (see Move)
//	clean        write and sync what is left of segments, rename it to .swap durably, remove
//	             the segments, give it its name (see Clean)
//
// A failed sync takes the directory offline for good: what it should have written is
// unknown, and a second sync would answer without having tried (see distrust.go for the
// next process). A full disk is no failure: appends are refused until there is room
// (space.go). A file that cannot be read fails its log, not the directory, also when it is
// found out only while a region is being sent.
//
// Two rules let recovery tell old bytes from new ones after a truncation that a power
// cut has half undone: leader epochs never fall back in a log, and a segment begins
// where the one before it ends, even if the next batch begins above a gap.
//
// # Files
//
// FORMAT.md has the bytes. Reading order: log.go (the state), birth.go, append.go, roll.go,
// follow.go, read.go, lookup.go, truncate.go, retention.go; then dir.go, flush.go, flushalone.go,
// ahead.go, marks.go, checkpoints.go, recoverypoint.go; then open.go, recovery.go and segments.go;
// forget.go, how marks go; move.go and finish.go, how a log gets into another directory;
// clean.go, cleangroup.go, cleanswap.go and swaprecovery.go, how one is compacted; the
// drivers are committer.go, keeper.go and cleaner.go, which chooses from the lists of uncleaned.go.
//
// # Goroutines
//
// None per log, and no timer. Two per directory, both optional: Committer and Keeper; those
// of the Cleaner, as many as it is told. Their cores are methods that a simulation calls
// itself: BeginFlush, Sync and Finish; Keeper.Tick; Cleaner.CleanOne. OnOffline and
// OnLogFailed run on goroutines of their own, since they are told amid a change. OpenLogs uses
// as many as it is told and ends them.
//
// # Locks
//
// In the order in which they may be taken together:
//
//	Cleaner.mu   which logs are to be cleaned next; held while one is judged, not while one
//	             is cleaned; Cleaner.tuning, for its settings, is never held during I/O
//	Dir.securing one writer of producer snapshots at log starts; a channel, too
//	marks.turn   one writer of checkpoints; a channel, since whoever waits for it waits
//	             for a disk
//	Log.names    shared by whoever uses files by their names without Log.writer, alone
//	             while a deletion renames the directory, or segments are replaced
//	Log.writer   one change of a log at a time; held while files are written, never
//	             while one is synced
//	Dir.mu       the lists of a directory; never held during I/O
//	Log.mu       the state of a log; held for a few instructions, never during I/O
//
// Neither Log.names nor Log.writer is held when marks.turn is taken: a truncation lowers
// the marks first. Nor is any lock by whoever waits for a swap (cleanswap.go). No sync happens under a mutex, so that syncs may take virtual time in tests.
// PrepareTruncations, TruncateTo, TruncateFullyAndStartAt, DeleteLogs and Retain sync, and
// CreateLog if an earlier log of that name has left marks: callers must not hold a mutex that
// others wait for.
package logstore
