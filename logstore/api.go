package logstore

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/offset"
	"github.com/klamm-mq/klamm/protocol/uuid"
	"github.com/klamm-mq/klamm/protocol/wire"
	"github.com/prometheus/client_golang/prometheus"
)

// ID names the partition that a log holds.
type ID struct {
	Topic     string
	TopicID   uuid.UUID
	Partition int32
}

// Origin is who appends as leader; it decides which checks apply (Kafka's AppendOrigin).
type Origin int8

const (
	OriginClient Origin = iota
	OriginCoordinator
)

// AppendParams is one produced batch.
type AppendParams struct {
	Now time.Time
	// Records is one whole batch as received. It is patched in place (base offset,
	// leader epoch, and what validation corrects) and not kept.
	Records        []byte
	LeaderEpoch    int32
	Origin         Origin
	RequestVersion int16 // of Produce; some rules depend on it
}

// AppendInfo tells what an append did.
type AppendInfo struct {
	FirstOffset, LastOffset int64
	LogAppendTimeMs         int64 // -1 unless the topic stamps; a duplicate's own timestamp
	MaxTimestampMs          int64
	RecordCount             int32
	Duplicate               bool // nothing was written: the offsets are the original's
	Rolled                  bool
	FlushWanted             bool // the committer should be woken
	AppendedBytes           int
}

// ReadParams asks for the batches from Offset on.
type ReadParams struct {
	Offset   int64
	MaxBytes int
	UpTo     int64 // exclusive bound: no batch that begins at or above it
	MinOne   bool  // the first batch comes whole even if larger than MaxBytes
}

// ReadInfo is what a read found. Region is nil if there is nothing to read; else the
// caller releases it.
type ReadInfo struct {
	Region wire.Region
	// Start is where the region begins: Offset is the one asked for.
	Start Position
	// FirstIncomplete says that MaxBytes cut the first batch short.
	FirstIncomplete bool
}

// Position is an offset with the place of its batch (Kafka's LogOffsetMetadata).
type Position struct {
	Offset      int64
	SegmentBase int64
	Pos         int64 // in the segment's .log file
}

// TimestampOffset is an answer to a look-up by time.
type TimestampOffset struct {
	TimestampMs int64
	Offset      int64
	LeaderEpoch int32 // -1 if unknown
}

// EpochEnd is the largest known epoch not above the one asked for, and where it ends.
type EpochEnd struct {
	Epoch     int32
	EndOffset int64
}

// AbortedTxn is one aborted transaction that touches a range that was read.
type AbortedTxn struct {
	ProducerID  int64
	FirstOffset int64
}

// DeletedSegment is a segment that retention removed.
type DeletedSegment struct {
	BaseOffset int64
	SizeBytes  int64
	Reason     string
}

// Log is one partition's log.
type Log struct{ dir *Dir }

func (l *Log) ID() ID       { panic("api") }
func (l *Log) Dir() *Dir    { return l.dir }
func (l *Log) Path() string { panic("api") }

func (l *Log) AppendAsLeader(p AppendParams) (AppendInfo, error) { panic("api") }
func (l *Log) AppendAsFollower(now time.Time, records []byte, leaderEpoch int32) (AppendInfo, error) {
	panic("api")
}
func (l *Log) Read(p ReadParams) (ReadInfo, error) { panic("api") }

func (l *Log) LogStart() offset.LogStart                            { panic("api") }
func (l *Log) LogEnd() offset.LogEnd                                { panic("api") }
func (l *Log) Flushed() offset.Flushed                              { panic("api") }
func (l *Log) RecoveryPoint() offset.RecoveryPoint                  { panic("api") }
func (l *Log) LastStable(hw offset.HighWatermark) offset.LastStable { panic("api") }
func (l *Log) CheckpointedHighWatermark() offset.HighWatermark      { panic("api") }
func (l *Log) SizeBytes() int64                                     { panic("api") }
func (l *Log) NumSegments() int                                     { panic("api") }
func (l *Log) Config() Config                                       { panic("api") }
func (l *Log) UpdateConfig(c Config)                                { panic("api") }
func (l *Log) Failure() error                                       { panic("api") }

func (l *Log) OffsetForTimestamp(tsMs int64) (TimestampOffset, bool, error) { panic("api") }
func (l *Log) OffsetOfMaxTimestamp() (TimestampOffset, bool, error)         { panic("api") }
func (l *Log) EndOffsetForEpoch(epoch int32) (EpochEnd, bool)               { panic("api") }
func (l *Log) LatestEpoch() (int32, bool)                                   { panic("api") }
func (l *Log) EpochForOffset(o int64) (int32, bool)                         { panic("api") }
func (l *Log) AssignEpoch(epoch int32, startOffset int64) error             { panic("api") }
func (l *Log) AbortedTransactions(from, to int64) ([]AbortedTxn, error)     { panic("api") }

func (l *Log) TruncateTo(o int64) error              { panic("api") }
func (l *Log) TruncateFullyAndStartAt(o int64) error { panic("api") }
func (l *Log) AdvanceLogStart(o int64) error         { panic("api") }
func (l *Log) Retain(now time.Time, hw offset.HighWatermark) ([]DeletedSegment, error) {
	panic("api")
}
func (l *Log) Roll(now time.Time) error { panic("api") }

// DirOptions describes one log directory.
type DirOptions struct {
	FS        vfs.FS
	Path      string
	NodeID    int32
	ClusterID string    // "" while it is not known yet, see Dir.SetClusterID
	Rand      io.Reader // draws the directory id and the names of deleted directories
	Logger    *slog.Logger

	// ReserveBytes is the room that appends leave on the file system; 0 = 1 % of it,
	// at least 64 MiB and at most 1 GiB.
	ReserveBytes uint64
	// ProducerIDExpiration is producer.id.expiration.ms.
	ProducerIDExpiration time.Duration

	// OnOffline is called once, on a goroutine of its own, when the disk fails.
	OnOffline func(d *Dir, err error)
	// OnLogFailed is called once per log that turns out to be damaged while in use.
	OnLogFailed func(l *Log, err error)

	Registerer prometheus.Registerer // nil = no metrics
}

// Dir is one log directory.
type Dir struct{}

func OpenDir(o DirOptions) (*Dir, error) { panic("api") }

func (d *Dir) Path() string                 { panic("api") }
func (d *Dir) DirectoryID() uuid.UUID       { panic("api") }
func (d *Dir) ClusterID() string            { panic("api") }
func (d *Dir) SetClusterID(id string) error { panic("api") }

// PreviousBrokerEpoch is the broker epoch of the clean stop that ended the last run.
func (d *Dir) PreviousBrokerEpoch() (epoch int64, clean bool) { panic("api") }
func (d *Dir) Err() error                                     { panic("api") }
func (d *Dir) Full() bool                                     { panic("api") }

// OpenLogsParams says how logs are opened at start.
type OpenLogsParams struct {
	Now      time.Time
	Threads  int // num.recovery.threads.per.data.dir
	Config   func(ID) Config
	Progress func(done, total int) // may be nil; called from any of the threads
}

// FailedLog is a partition directory that cannot be used.
type FailedLog struct {
	ID  ID    // Topic is "" if only its topic id is known
	Err error // usually a *CorruptionError
}

// OpenReport tells what start found.
type OpenReport struct {
	Opened   []*Log
	Failed   []FailedLog
	SetAside []string // directories renamed to -stray
}

func (d *Dir) OpenLogs(ctx context.Context, p OpenLogsParams) (OpenReport, error) { panic("api") }
func (d *Dir) CreateLog(now time.Time, id ID, c Config) (*Log, error)             { panic("api") }
func (d *Dir) Log(topicID uuid.UUID, partition int32) *Log                        { panic("api") }
func (d *Dir) Logs() []*Log                                                       { panic("api") }

// DeleteLogs renames the logs' directories to -delete; their files go after
// file.delete.delay.ms. One checkpoint write for all.
func (d *Dir) DeleteLogs(now time.Time, logs ...*Log) error { panic("api") }

// SetAside renames the logs' directories to -stray; nothing removes them.
func (d *Dir) SetAside(now time.Time, logs ...*Log) error { panic("api") }

// Truncation is a truncation about to happen.
type Truncation struct {
	Log *Log
	To  int64
}

// PrepareTruncations lowers the durable marks of many logs with one write each, so
// that the TruncateTo calls that follow need none.
func (d *Dir) PrepareTruncations(ts ...Truncation) error { panic("api") }

// Close flushes everything, writes all checkpoints and the clean shutdown marker.
func (d *Dir) Close(now time.Time, brokerEpoch int64) error { panic("api") }

// Abandon closes files without flushing or marking anything, as a crash would.
func (d *Dir) Abandon() { panic("api") }

// FlushRound is one group commit: noted ends first, then the sync, then the report.
type FlushRound struct{}

// FlushedLog is a log whose flushed end moved.
type FlushedLog struct {
	Log     *Log
	Flushed offset.Flushed
}

func (d *Dir) BeginFlush() *FlushRound              { panic("api") }
func (r *FlushRound) Sync() error                   { panic("api") }
func (r *FlushRound) Finish(err error) []FlushedLog { panic("api") }

// CommitterOptions configure the driver of group commits.
type CommitterOptions struct {
	// OnFlushed is called after every round, on the committer's goroutine.
	OnFlushed func([]FlushedLog)
}

// Committer runs rounds while somebody wants them: one goroutine per directory.
type Committer struct{}

func StartCommitter(d *Dir, o CommitterOptions) *Committer { panic("api") }
func (c *Committer) Wake()                                 { panic("api") }
func (c *Committer) Stop()                                 { panic("api") }

// KeeperOptions configure what runs by the clock.
type KeeperOptions struct {
	// HighWatermark tells what is to be checkpointed; false = nothing.
	HighWatermark func(*Log) (offset.HighWatermark, bool)
	// Wake is called when a round is due.
	Wake func()
	// OnDeleted hears of what retention removed.
	OnDeleted func(*Log, []DeletedSegment)

	FlushedInterval       time.Duration // 1 s
	RecoveryPointInterval time.Duration // 30 s
	RecoveryPointBytes    int64         // 64 MiB
	LogStartInterval      time.Duration // log.flush.start.offset.checkpoint.interval.ms, 60 s
	HighWatermarkInterval time.Duration // replica.high.watermark.checkpoint.interval.ms, 5 s
	RetentionInterval     time.Duration // log.retention.check.interval.ms, 5 min
	SpaceInterval         time.Duration // 1 s
}

// Keeper does the periodic work of a directory. Tick is its core; Start drives it.
type Keeper struct{}

func NewKeeper(d *Dir, o KeeperOptions) *Keeper       { panic("api") }
func (k *Keeper) Tick(now time.Time) (next time.Time) { panic("api") }
func (k *Keeper) Start()                              { panic("api") }
func (k *Keeper) Stop()                               { panic("api") }
