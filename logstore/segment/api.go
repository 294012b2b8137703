package segment

import (
	"time"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/wire"
	"github.com/prometheus/client_golang/prometheus"
)

// PoolOptions bound what all segments together keep open and in memory.
type PoolOptions struct {
	// MaxOpenFiles bounds the descriptors of segments that could be closed; one with
	// unflushed bytes or a region in flight stays open beyond it. 0 = 1024.
	MaxOpenFiles int
	// MaxIndexBytes bounds the indexes held in memory; those with entries that are not
	// in their files stay beyond it. 0 = 64 MiB.
	MaxIndexBytes int64
	// Registerer exports klamm_segment_files_open, …_evictions_total and so on; nil = none.
	Registerer prometheus.Registerer
}

// FilePool keeps the descriptors and indexes that were used last. One is shared by all
// segments of a broker. It is safe for concurrent use.
type FilePool struct{}

func NewFilePool(o PoolOptions) *FilePool { panic("api") }

// OpenFiles is the number of descriptors that segments hold now.
func (p *FilePool) OpenFiles() int { panic("api") }

// Options are what all segments of one log share. The pointer is kept.
type Options struct {
	FS   vfs.FS
	Pool *FilePool
	// Codecs decode the records of a batch for look-ups by time.
	Codecs *batch.Codecs
	// IndexIntervalBytes is index.interval.bytes: an index entry is added for the
	// first batch that begins more than this many bytes after the last entry's.
	IndexIntervalBytes int
	// MaxIndexBytes is segment.index.bytes: ShouldRoll when an index is this full.
	MaxIndexBytes int
}

// Segment is one piece of a log. Appends, truncations, Seal, Recover and Close are
// serialised by the caller; reads, flushes and the accessors may run at any time beside
// them and each other.
type Segment struct{}

// Create makes the files of a new segment; an error wraps fs.ErrExist if there is a log
// file of that name. The caller syncs the directory before it relies on the file.
func Create(dir string, base int64, now time.Time, o *Options) (*Segment, error) { panic("api") }

// Open returns a segment whose log file exists, after one Stat. Nothing is opened or
// read before the segment is used.
func Open(dir string, base int64, now time.Time, o *Options) (*Segment, error) { panic("api") }

// OpenSized is Open for a caller who knows the log file's size and modification time.
func OpenSized(dir string, base, size int64, modified, now time.Time, o *Options) *Segment {
	panic("api")
}

func (s *Segment) BaseOffset() int64 { panic("api") }

// Size is the number of bytes in the log file that hold batches.
func (s *Segment) Size() int64 { panic("api") }

// LastModified is when the log file was last written: now of the last Append, or the
// file's modification time. Retention uses it for segments without timestamps.
func (s *Segment) LastModified() time.Time { panic("api") }

// SetDir follows a rename of the partition directory.
func (s *Segment) SetDir(dir string) { panic("api") }

// Path is the name of the log file.
func (s *Segment) Path() string { panic("api") }

// Append writes whole batches, which must continue the segment, with exactly one
// WriteAt. Their CRC was checked by the caller. On an error nothing was appended: what a
// failed write left behind the end is cut off or overwritten. ErrOffsetOverflow and
// file system errors, which are wrapped.
func (s *Segment) Append(now time.Time, records []byte) error { panic("api") }

// NextOffset is the offset after the last batch, or the base offset of an empty
// segment. It reads the end of the segment on first use.
func (s *Segment) NextOffset() (int64, error) { panic("api") }

// RollParams are the limits that decide whether the next batches fit (Kafka's
// RollParams).
type RollParams struct {
	Now            time.Time
	SegmentBytes   int64 // segment.bytes
	SegmentMs      int64 // segment.ms minus the segment's share of segment.jitter.ms
	AppendBytes    int64 // of the batches about to be appended
	LastOffset     int64 // of their last record
	MaxTimestampMs int64 // of their records
}

// ShouldRoll decides whether a new segment must begin before the append.
func (s *Segment) ShouldRoll(p RollParams) (bool, error) { panic("api") }

// Seal is called when a newer segment has taken over: it adds the last time index entry,
// writes the indexes to their files, without sync, and gives up what only appends need.
func (s *Segment) Seal() error { panic("api") }

// ReadParams bound a read.
type ReadParams struct {
	Offset   int64
	MaxPos   int64 // exclusive bound in the file; Size() for no bound
	MaxBytes int
	MinOne   bool // the first batch comes whole even if larger than MaxBytes (KIP-74)
}

// ReadResult is what a read found.
type ReadResult struct {
	// Found is false if every batch of the segment ends below the offset: the reader
	// goes on with the next segment.
	Found bool
	// Region holds whole batches, the last of which may be cut short by MaxBytes. It is
	// nil if MaxPos or MaxBytes leave nothing; else the caller releases it.
	Region wire.Region
	// First is the batch that holds the offset, or else the first one above it.
	First BatchPos
	// FirstIncomplete says that the region does not hold First whole.
	FirstIncomplete bool
}

// BatchPos is where a batch lies.
type BatchPos struct {
	BaseOffset int64
	Pos        int64 // in the log file
	Size       int64
}

// Read returns the region that begins with the batch that holds the offset. Batches that
// were there when the segment was opened have their CRC checked the first time that they
// are read. Errors are *CorruptionError, ErrClosed or the file system's.
func (s *Segment) Read(p ReadParams) (ReadResult, error) { panic("api") }

// Lookup finds the batch that holds an offset, or else the first one above it; found is
// false if there is none.
func (s *Segment) Lookup(offset int64) (pos BatchPos, found bool, err error) { panic("api") }

// ForEachBatch calls fn with each batch that ends at or above from and begins below upTo,
// in order, reading sequentially and checking each CRC. The view is valid during the call.
// An error of fn ends the walk and is returned.
func (s *Segment) ForEachBatch(from, upTo int64, fn func(v batch.View, pos int64) error) error {
	panic("api")
}

// TimestampOffset is a timestamp and where it is.
type TimestampOffset struct {
	TimestampMs int64
	Offset      int64
	LeaderEpoch int32 // of the batch; -1 if not known
}

// MaxTimestamp is the largest timestamp of the segment with the last offset of the first
// batch that has it; {-1, base offset, -1} if no batch has a timestamp.
func (s *Segment) MaxTimestamp() (TimestampOffset, error) { panic("api") }

// OffsetForTimestamp is the first record with a timestamp of at least timestampMs and an
// offset of at least from.
func (s *Segment) OffsetForTimestamp(timestampMs, from int64) (t TimestampOffset, found bool, err error) {
	panic("api")
}

// FirstTimestamp is the max timestamp of the first batch, by which segment.ms is counted;
// false if the segment is empty.
func (s *Segment) FirstTimestamp() (int64, bool, error) { panic("api") }

// AbortedTxn is an entry of the transaction index.
type AbortedTxn struct {
	ProducerID       int64
	FirstOffset      int64
	LastOffset       int64 // of the abort marker
	LastStableOffset int64 // when the marker was written
}

// AppendAbortedTxn adds an entry to the transaction index. Last offsets must rise.
func (s *Segment) AppendAbortedTxn(t AbortedTxn) error { panic("api") }

// AbortedTxns are the entries of transactions that overlap [from, upTo). complete means
// that later segments cannot have more (Kafka's collectAbortedTxns).
func (s *Segment) AbortedTxns(from, upTo int64) (txns []AbortedTxn, complete bool, err error) {
	panic("api")
}

// UpperBoundOffset is an offset that is certainly above everything in the n bytes from
// pos on; false if the index knows none.
func (s *Segment) UpperBoundOffset(pos, n int64) (int64, bool, error) { panic("api") }

// TruncateTo drops all batches that hold or follow the offset, from the log file and
// the indexes, and returns how many bytes. Regions in flight may come to their end early.
// Nothing is synced; the file counts as unflushed.
func (s *Segment) TruncateTo(now time.Time, offset int64) (int64, error) { panic("api") }

// RecoverParams say where to begin.
type RecoverParams struct {
	// FromOffset is an offset below which everything is known to be durable, the indexes
	// included; the base offset or less scans all.
	FromOffset int64
	// OnBatch is called with each good batch from FromOffset on, in order. The view is
	// valid during the call. An error ends the scan and is returned.
	OnBatch func(v batch.View, pos int64) error
}

// Recovered tells what a scan found.
type Recovered struct {
	NextOffset int64 // after the last good batch
	ValidSize  int64 // bytes before the first bad one
	FileSize   int64 // bytes in the file
	Batches    int   // good ones that were scanned
	// Damage is the first bad batch, nil if the file is good to its end. Nothing has
	// been cut off: DropTail does, if the damage is a torn tail.
	Damage *CorruptionError
}

// Recover reads the log file sequentially, checks every batch and rebuilds the indexes
// in memory. Afterwards the segment ends at ValidSize.
func (s *Segment) Recover(p RecoverParams) (Recovered, error) { panic("api") }

// DropTail cuts the log file to the segment's size: what Recover found bad is gone.
func (s *Segment) DropTail() error { panic("api") }

// Flush is one segment's part in a group commit.
type Flush struct{}

// BeginFlush notes the end of the segment and holds its file; nil if everything is
// flushed. The caller syncs File and calls Finish exactly once.
func (s *Segment) BeginFlush() (*Flush, error) { panic("api") }

// File is what must be synced.
func (f *Flush) File() vfs.File { panic("api") }

// Finish reports the sync. With nil the bytes noted by BeginFlush are flushed, unless a
// truncation came between; with an error nothing changes and the file stays pinned.
func (f *Flush) Finish(err error) { panic("api") }

// Unflushed reports whether the log file has changes that no Flush has covered.
func (s *Segment) Unflushed() bool { panic("api") }

// WriteIndexes writes what is new in the indexes to their files, without sync.
func (s *Segment) WriteIndexes() error { panic("api") }

// SyncIndexes writes what is new in the indexes and syncs the files that were written
// since the last SyncIndexes. It holds no lock while the disk works.
func (s *Segment) SyncIndexes() error { panic("api") }

// Close writes the indexes, with the last time index entry, and gives the file up. The
// descriptor is closed when the last region is released. Nothing is synced.
func (s *Segment) Close() error { panic("api") }

// Abandon is Close without writing: the disk has failed, or the files are about to go.
func (s *Segment) Abandon() { panic("api") }

// Delete abandons the segment and removes its files, the log first. Regions in flight
// stay readable. It is not an error if files are missing. The caller syncs the directory.
func (s *Segment) Delete() error { panic("api") }
