// Package group holds the rules of consumer groups: which answer each request gets, which
// records it leaves behind, when a member is given up. It is pure: no goroutine, lock,
// clock or file. A Shard is what the coordinator runtime (package coordinator) runs for
// one partition of __consumer_offsets; Service is what handlers call.
//
//	handler ─▶ Service ── group id → partition ──▶ coordinator.Runtime
//	                                                  │ one operation at a time
//	                                                  ▼
//	     answer ◀── Effects.Answers ◀── log ◀── Shard.JoinGroup, OffsetCommit, Tick …
//	                (below the high watermark)        ▲
//	                                                  └── Replay, Committed, Rollback
//
// # Hard and soft state
//
// Hard state is what records say, in Kafka's schemas (records.go): which groups exist,
// with which members and assignments, and the offsets they committed. It changes in Replay
// alone and is kept in two views (package overlay): decisions see what was written last,
// OffsetFetch and the describing calls see what is below the high watermark.
//
// Soft state is what no record says: members that are joining, parked answers, deadlines,
// the phase of a rebalance. It hangs on the same group object and changes at once. It dies
// with the shard; whoever had an answer parked is answered NOT_COORDINATOR.
//
//	state                 hard                         soft
//	Empty                 record or offsets only       pending members
//	PreparingRebalance    record of the last           parked JoinGroups, join timer
//	                      generation that synced
//	CompletingRebalance   the same                     new generation, leader, protocol,
//	                                                   parked SyncGroups, sync timer
//	Stable                record with assignments      session timers
//
// A generation becomes hard when the SyncGroup of its leader is written. When that is
// committed the group is Stable and its members are told. If the append is refused, or not
// committed in time, they get the error and the group rebalances. Meanwhile the leader may
// send SyncGroup again; only its first assignment is written, since after a crash the
// group would be loaded with another than its members were told (Kafka's ClassicGroup
// writes both).
//
// # Answers
//
// An answer that tells of a group waits until all that the shard wrote before it is
// committed: whoever is told of a group can describe it, and whoever is told an assignment
// keeps it, whatever crashes. Kafka answers JoinGroup and SyncGroup of a group that it has
// loaded without that wait. Refusals of JoinGroup and SyncGroup go out at once.
//
// A parked answer that is asked for again, by a client that gave up waiting, is answered
// REBALANCE_IN_PROGRESS; Kafka drops it.
//
// # Time
//
// Every deadline is a timer in one heap (timers.go): a session for each member, one for
// the join phase, one for the sync phase of each group, one for the expiry of offsets.
// NextDeadline is the earliest; Tick runs what is due, in the order of deadlines.
//
// # Bounds
//
// Members of a group: group.max.size. Members that were sent an id and did not come back:
// maxPendingMembers per group, the oldest is forgotten first. Metadata of an offset:
// offset.metadata.max.bytes. What one operation writes: the runtime's batch; expiry and
// deletion of topics write at most sweepRecords at a time and go on at the next Tick.
//
// Left out: groups of the newer protocols (KIP-848, 932, 1071), whose records are skipped
// with one warning, while their committed offsets are kept; offsets committed in
// transactions.
package group
