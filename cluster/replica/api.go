package replica

import (
	"math"
	"time"

	"github.com/klamm-mq/klamm/protocol/uuid"
	"github.com/klamm-mq/klamm/protocol/wire"
)

// TopicIDPartition names one partition of one topic. Names are reused after a deletion,
// ids never are, so everything inside the broker goes by id.
type TopicIDPartition struct {
	TopicID   uuid.UUID
	Partition int32
}

// Acks of a produce request.
const (
	AcksAll  int16 = -1 // every in-sync replica has it, at least min.insync.replicas of them
	AcksNone int16 = 0  // no answer at all
	AcksOne  int16 = 1  // the leader has it
)

// NoEpoch is the leader epoch of a request that does not want it checked.
const NoEpoch int32 = -1

// ConsumerReplicaID is the replica id of a reader that is no broker, DebuggingReplicaID
// that of one which ListOffsets answers from any replica.
const (
	ConsumerReplicaID  int32 = -1
	DebuggingReplicaID int32 = -2
)

// Isolation is the isolation level of a reader, with Kafka's numbers.
type Isolation int8

// The isolation levels of KIP-98.
const (
	ReadUncommitted Isolation = 0 // up to the high watermark
	ReadCommitted   Isolation = 1 // up to the last stable offset
)

// Leader is what this broker knows of a partition's leadership: the CurrentLeader of
// KIP-951 answers.
type Leader struct {
	ID    int32 // metadata.NoLeader if there is none
	Epoch int32
}

// noLeader is the answer about a partition that nobody knows.
var noLeader = Leader{ID: -1, Epoch: -1}

// AppendRequest is one Produce request whose topics have been resolved and authorized.
// It carries its results, and while it waits it is the delayed operation itself, so it
// must not be copied nor used again before it is answered.
type AppendRequest struct {
	Acks           int16 // AcksAll, AcksNone, AcksOne; anything else is refused per partition
	Timeout        time.Duration
	RequestVersion int16
	Partitions     []AppendPartition // each partition at most once

	// Done is called once, from any goroutine and without locks, when an append that
	// returned false has its results.
	Done func(*AppendRequest)
	// Of is for Done, to find what the request belongs to; nobody else looks at it.
	Of any

	delayed delayedProduce
}

// AppendPartition is the part of an AppendRequest for one partition.
type AppendPartition struct {
	TopicIDPartition
	// Records is read, and patched in place, before Append returns; not later.
	Records []byte

	// Result is valid once the request is answered.
	Result AppendResult

	hosted  *hosted
	awaited Awaited
	flush   bool
}

// AppendResult is the answer for one partition.
type AppendResult struct {
	// Err is nil, or wraps the kind to answer. It is a *batch.RecordErrors (errors.As)
	// where Kafka answers RecordErrors and an ErrorMessage; other errors have neither.
	Err             error
	BaseOffset      int64  // of the first record; of the original for a duplicate; -1 on error
	LogAppendTimeMs int64  // -1 unless the topic has LogAppendTime or this is a duplicate
	LogStartOffset  int64  // -1 where Kafka does not know it
	CurrentLeader   Leader // set with NOT_LEADER_OR_FOLLOWER

	appendedRecords, appendedBytes int64 // none of a duplicate
}

// FetchRequest is one Fetch request after its session has been resolved: what to read,
// in which order. It carries its results.
type FetchRequest struct {
	ReplicaID    int32 // ConsumerReplicaID, or the id of a follower
	ReplicaEpoch int64 // broker epoch of the follower, -1 if its request has none
	MaxWait      time.Duration
	MinBytes     int
	MaxBytes     int // of the whole answer; the first batch may exceed it (KIP-74)
	Isolation    Isolation
	// AnyReplica lets a follower answer (KIP-392): consumers from version 11 on.
	AnyReplica bool
	// Rack is that of a consumer, and Racks those of brokers: a leader in another one names a
	// replica there. Either may be empty: it does not.
	Rack       string
	Racks      Racks
	NoRoom     bool             // a follower whose log directory is full, see SetNoRoom
	Partitions []FetchPartition // each partition at most once, in the order of the answer

	// News and Again are set for a session in which partitions rest. Partitions are then those
	// that do not. While the fetch waits, News receives when there may be others, and Again makes
	// Partitions what is awake by then; it reports whether any cannot be read at all.
	News  <-chan struct{}
	Again func() (failed bool)

	// Waits, if set, is told when the fetch begins to wait for more.
	Waits interface{ Park() }
}

// FetchPartition is the part of a FetchRequest for one partition.
type FetchPartition struct {
	TopicIDPartition
	CurrentLeaderEpoch int32 // negative: not checked
	FetchOffset        int64
	LastFetchedEpoch   int32 // negative: divergence not checked
	LogStartOffset     int64 // of the follower, -1 for consumers
	// HighWatermark is what the follower knows of it (KIP-1166): a fetch that waits is
	// answered when the leader's has passed it. UnknownHighWatermark: never because of that.
	HighWatermark int64
	MaxBytes      int

	// Watch, KnownHighWatermark and KnownLogStart are set for a partition that may rest in a
	// follower's session: how the session hears of news, and what the follower was last told.
	Watch                             Watch
	KnownHighWatermark, KnownLogStart int64

	// Result is valid when Fetch returns. With an error from before, nothing is read.
	Result FetchResult
}

// FetchResult is the answer for one partition.
type FetchResult struct {
	Err              error // nil, or wraps the kind to answer
	HighWatermark    int64 // -1 on error
	LastStableOffset int64 // -1 on error
	LogStartOffset   int64 // -1 on error
	// Records is nil if there are none. The receiver owns it and releases it.
	Records             wire.Region
	AbortedTransactions []AbortedTransaction // with ReadCommitted only; nil: none asked for
	Diverging           *EpochEndOffset      // set instead of records: truncate and ask again
	CurrentLeader       Leader               // set with NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH
	PreferredReplica    *int32               // set instead of records: the broker to read from; nil: none

	throttled bool // what is sent of it counts for the throttle of leaders
}

// UnknownHighWatermark is that of a reader which does not tell what it knows.
const UnknownHighWatermark int64 = math.MaxInt64

// AbortedTransaction marks records of a producer that a read_committed reader skips.
type AbortedTransaction struct {
	ProducerID  int64
	FirstOffset int64
}

// EpochEndOffset is where a leader epoch ends in this log: -1 and -1 if unknown.
type EpochEndOffset struct {
	Epoch     int32
	EndOffset int64
}

// ListOffsetsRequest is one ListOffsets request whose topics have been resolved. It
// carries its results.
type ListOffsetsRequest struct {
	Version    int16
	ReplicaID  int32
	Isolation  Isolation
	Partitions []ListOffsetsPartition
}

// ListOffsetsPartition is the part of a ListOffsetsRequest for one partition.
type ListOffsetsPartition struct {
	TopicIDPartition
	CurrentLeaderEpoch int32 // -1: not checked (other negative values are, unlike Fetch's)
	Timestamp          int64 // ms, or one of the special ones below

	// Result with an error is not looked for any more.
	Result ListOffsetsResult
}

// ListOffsetsResult is the answer for one partition; -1 everywhere means "none found".
type ListOffsetsResult struct {
	Err         error
	TimestampMs int64
	Offset      int64
	LeaderEpoch int32 // of the record found, not of the leader
}

// Special timestamps of ListOffsets.
const (
	LatestTimestamp                int64 = -1
	EarliestTimestamp              int64 = -2
	MaxTimestamp                   int64 = -3 // KIP-734
	EarliestLocalTimestamp         int64 = -4 // KIP-405
	LatestTieredTimestamp          int64 = -5 // KIP-1005
	EarliestPendingUploadTimestamp int64 = -6 // KIP-1023
)

// EpochRequestPartition asks OffsetForLeaderEpoch about one partition, and carries the
// answer.
type EpochRequestPartition struct {
	TopicIDPartition
	CurrentLeaderEpoch int32 // -1: not checked
	LeaderEpoch        int32 // the epoch asked for

	Err    error // set by the caller: nothing is looked for
	Result EpochEndOffset
}
