// Package replica is what this broker does with the partitions that it has a replica
// of: append, read, decide what is acknowledged, follow or lead.
//
// Handlers see one type, Manager:
//
//	Append(*AppendRequest) bool            // false: Done comes later
//	Fetch(context.Context, *FetchRequest)  // blocks up to MaxWait
//	ListOffsets(*ListOffsetsRequest)
//	OffsetForLeaderEpoch([]EpochRequestPartition)
//	DeleteRecords(context.Context, *DeleteRecordsRequest) // blocks up to its timeout
//	AlterReplicaLogDirs([]ReplicaDir)
//	Producers(TopicIDPartition), DescribeLogDirs()
//	OnMetadataUpdate(delta, image)         // a metadata publisher
//
// Requests name partitions by topic id, carry their own results, and fail partition by
// partition: there is no error of a whole request.
//
// # Core and driver
//
// A Partition is the rules of one replica: role, leader epoch, in-sync replicas, high
// watermark, who may read up to where. It has no goroutine, clock or timer. What it wants
// done it returns as Effects, which the Manager carries out:
//
//	                 Append            Fetch of a follower
//	                   │                     │
//	          ┌────────▼─────────────────────▼────────┐
//	          │ Partition   AppendAsLeader            │
//	          │             ReadRecords → FollowerFetched
//	 metadata │             BecomeLeader, …Follower   │
//	─────────►│             FlushDone  ◄──────────┐   │
//	          └────┬──────────────────────────────│───┘
//	               │ Effects                      │
//	               ├─ FlushWanted ──► committer of the log's directory; with FlushAlone, after the
//	               │                  log's own flush
//	               ├─ Wake ─────────► produces and consumers' fetches in purgatory
//	               ├─ WakeFetcher ──► followers' fetches in purgatory, of no session
//	               └─ AlterPartition► controller ──► AlterPartitionDone
//
// The exact tier of the simulation steps Partitions itself, without a Manager.
//
// # Following
//
// A Fetcher is the same for what is fetched: which replicas of one directory follow one
// leader, what is asked of it, what its answers mean for their logs. fetchers drive them.
// See Fetcher for its steps, and Partition.FollowerPosition for the one rule on which
// acks=all rests: a fetch offset is an acknowledgement.
//
// A leader looks at those partitions of a follower's session of which there is news. The others
// rest, see Watch.
//
// Which replicas are held back by a throttle, on either side, is in throttle.go.
//
// # What is acknowledged
//
// An append writes and returns; it never flushes. What it awaits is in Awaited, whether
// that has come is asked of Partition.Reached, whose comment lists the cases. With
// durability=fsync the high watermark counts flushed ends (see advanceHighWatermark), so
// a consumer never sees, and a producer is never told of, a record that a power cut could
// take back. With replicated it counts log ends, as in Kafka.
//
// # Goroutines
//
//	connection       Append, ListOffsets, …; Fetch, which waits on its own channel
//	committer        one per directory (logstore.Committer); answers produces that its
//	                 round has satisfied
//	keeper           one per directory (logstore.Keeper); asks for high watermarks
//	fetchers         one per leader, directory and number below num.replica.fetchers, while
//	                 there are replicas to be fetched; append, and truncate
//	moves            up to num.replica.alter.log.dirs.threads, while replicas move between
//	                 directories; copy, and put copies in place
//	metadata loader  OnMetadataUpdate; waits for a truncation of a replica that is to lead,
//	                 and for a step of the move of one that is deleted
//	timers           purgatory's deadlines; the look at in-sync replicas, while this
//	                 broker leads any partition with followers
//
// None belongs to a partition: 2,000 idle ones cost memory only.
//
// # Locks
//
//	Partition.role → Partition.mu  →  locks of logstore
//	Manager.applying → moving.turn, a step of a move, and never the other way round; a disk
//	                 that hangs there is not waited for (finishBound)
//	fetchers.mu      which fetcher a replica has; nothing is called under it
//	Manager.mu       the map of partitions; nothing is called under it
//	purgatory's      no Operation is called under it
//	Partition.mu → a session's watches: leaves
//
// Effects are carried out after Partition.mu is released, since TryComplete takes it.
// Batches are read after it is released too: the bounds were taken under it, and what
// lies below them does not change while the replica keeps its role. No lock is held while
// a disk syncs or a controller answers. Partition.role is a channel, and is held while a
// follower truncates, or a replica's log is replaced by its copy (see swap.go).
package replica
