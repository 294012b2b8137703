// Package coordinator is the runtime of coordinators: it makes replicated state machines
// out of the partitions of an internal topic (Kafka's CoordinatorRuntime). What the state
// machines mean is no concern of it: groups live in cluster/coordinator/group, transactions
// and share groups will live beside them.
//
// A *shard* is one partition of the topic and the state that its records add up to. The
// broker that leads the partition loads the shard, runs operations on it, and gives it up
// when it leads no more.
//
//	 Write, Read                 metadata: elected, resigned, topics changed
//	      │                                │
//	┌─────▼────────────────────────────────▼──────┐
//	│ host     queue, goroutine, timer of a shard │   driver
//	│  ┌──────────────────────────────────────┐   │
//	│  │ core    batch, what waits, deadlines │   │   pure: methods take now
//	│  │  ┌─────────────────────────────────┐ │   │
//	│  │  │ Shard   rules, pure             │ │   │
//	│  │  └─────────────────────────────────┘ │   │
//	│  └──────────────────┬───────────────────┘   │
//	└─────────────────────│───────────────────────┘
//	              Log     ▼  append · read for loading · high watermark
//
// # An operation
//
// An operation is a function of time and shard that returns Effects: records to write,
// answers to give once they are committed. The core replays the records into the shard at
// once, so that the next operation sees them, and collects them in a batch. When the queue
// is empty, or the batch is full, or it has lingered long enough, the batch is appended.
// The append does not wait for a flush: the next batch follows while earlier ones wait for
// the high watermark, and one flush of the disk answers many.
//
// # What an answer means
//
//	A  nil                  everything that the shard had written when the operation ended,
//	                        its own records included, is below the high watermark
//	B  refused              the records were not written (too few in-sync replicas, too
//	                        large, disk full). They are taken back out of the shard, as are
//	                        those of the other operations in the same batch. The shard lives.
//	C  COORDINATOR_NOT_AVAILABLE  nothing became of the wait in time. The records are in the
//	                        log and in the shard, and may be committed later.
//	D  NOT_COORDINATOR      leadership is lost, or what an append did is not known: the
//	                        shard is dropped, and loaded again if this broker still leads.
//
// State that is committed, and what is written above it, are two versions that a shard
// keeps with package overlay. State that no record describes (members that are joining,
// answers that are parked, deadlines) dies with the shard.
//
// # Loading
//
// A shard is loaded by replaying its partition up to the log end. What lies above the high
// watermark is pending, like what the shard writes later: the former leader may or may not
// have answered it. Some shards load at a time, the others wait; meanwhile operations get
// COORDINATOR_LOAD_IN_PROGRESS. A load that fails is tried again after a pause, during
// which they get NOT_COORDINATOR.
//
// The partition may be compacted at any time below the high watermark: a record may have
// been replaced by a later one of its key, a tombstone stand alone, or be gone as well. A
// shard must come to the same state from whatever is left of its records, in their order.
//
// # Goroutines
//
// One per shard that is led here, which loads it and then sleeps until there is an
// operation, a move of the high watermark that somebody waits for, or a deadline.
// Operations, answers and every method of the shard run on it.
//
// # Locks
//
//	Runtime.mu   the table of shards
//	host.mu      the queue of one shard; nothing is called under it
//
// Neither is held while a log is used. A watch of the high watermark only notes a number
// and wakes the shard's goroutine.
package coordinator
