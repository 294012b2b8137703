package logstore

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/klamm-mq/klamm/logstore/checkpoint"
	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/uuid"
	"github.com/prometheus/client_golang/prometheus"
)

// DirOptions describe one log directory.
type DirOptions struct {
	FS        vfs.FS
	Path      string
	NodeID    int32
	ClusterID string    // "" while it is not known yet, see Dir.SetClusterID
	Rand      io.Reader // draws the directory id and the names of retired directories
	Logger    *slog.Logger
	Codecs    *batch.Codecs
	// Pool bounds descriptors and indexes; share one between the directories of a
	// broker. nil = one with default bounds.
	Pool *segment.FilePool

	// ReserveBytes is the room that appends leave on the file system; 0 = 1 % of it,
	// at least 64 MiB and at most 1 GiB; a tenth, at least 32 MiB, of a small one.
	ReserveBytes uint64
	// ProducerIDExpiration is producer.id.expiration.ms; 0 = one day.
	ProducerIDExpiration time.Duration

	// OnOffline is called once, on a goroutine of its own, when the disk fails: all
	// waiters for this directory must be answered. Dir.Err says the same. It is for whoever is
	// called to log it: nobody else does.
	OnOffline func(d *Dir, err error)
	// OnLogFailed is called once, on a goroutine of its own, for each log that turns
	// out to be damaged while in use. Log.Failure says the same.
	OnLogFailed func(l *Log, err error)

	Registerer prometheus.Registerer // nil = no metrics
}

func (o *DirOptions) setDefaults() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Pool == nil {
		o.Pool = segment.NewFilePool(segment.PoolOptions{})
	}
	if o.Codecs == nil {
		o.Codecs = batch.NewCodecs(batch.CodecsOptions{})
	}
	if o.ProducerIDExpiration == 0 {
		o.ProducerIDExpiration = 24 * time.Hour
	}
}

// Dir is one log directory: its identity, its logs, and what they share, which is the
// disk. It is safe for concurrent use.
type Dir struct {
	o DirOptions
	// expiration is producer.id.expiration.ms as it is now, a time.Duration.
	expiration atomic.Int64
	lockFile   io.Closer
	marks      *marks
	space      *space
	metrics    *metrics

	// Rounds have a syncer of their own. If they shared the keeper's, which may sync at
	// the same time, the error of a lost page could be told to the keeper, and the round
	// that has noted its bytes would be told of success.
	syncer, keeperSyncer vfs.Syncer

	previousEpoch int64
	cleanStop     bool // the last run ended with a clean stop
	opened        bool // OpenLogs has succeeded
	distrust      bool // the disk has failed in an earlier run, see distrust.go

	// securing is held while a producer snapshot for a log start is written (secureStart). A
	// channel, as marks.turn.
	securing chan struct{}

	failure atomic.Pointer[error]
	nowMs   atomic.Int64 // the latest time that anybody has mentioned

	identity chan struct{} // held while meta.properties is written

	mu          sync.Mutex
	meta        meta
	logs        map[checkpoint.TopicIDPartition]*Log
	futures     map[checkpoint.TopicIDPartition]*Log // see Move
	copyBuffers sync.Pool                            // of *[]byte: of thousands of moves few copy at a time
	failed      map[checkpoint.TopicIDPartition]failedDir
	segOptions  map[segmentSizes]*segment.Options
	retired     []retiredDir
	renamed     []ID        // partitions whose marks are to be forgotten, see forgetRenamed
	unborn      []unbornLog // in the order in which they are due
	noBirths    time.Time   // until then, while more are created
	wanted      []*Log      // want a flush round
	uncleaned   []*Log      // see uncleaned.go
	// uncleanedMost is how many of them there may be before those that are gone are taken out.
	uncleanedMost int
	spareWanted   []*Log
	spareRound    *FlushRound
	flushing      bool
	rootUnsynced  bool
	moved         map[*Log]struct{}
}

// failedDir is a partition directory that could not be opened.
type failedDir struct {
	id   ID
	path string // "" if it is missing
	err  error
}

type segmentSizes struct{ indexInterval, maxIndex int32 }

// OpenDir opens a log directory, making it if need be: it takes the lock, and reads the
// identity and the checkpoints. OpenLogs must follow. A directory that belongs to
// another broker is refused with a *ForeignDirError; vfs.ErrLocked says that another
// process uses it.
func OpenDir(o DirOptions) (*Dir, error) {
	o.setDefaults()
	d := &Dir{
		o:          o,
		identity:   make(chan struct{}, 1),
		securing:   make(chan struct{}, 1),
		logs:       make(map[checkpoint.TopicIDPartition]*Log),
		futures:    make(map[checkpoint.TopicIDPartition]*Log),
		failed:     make(map[checkpoint.TopicIDPartition]failedDir),
		segOptions: make(map[segmentSizes]*segment.Options),
		moved:      make(map[*Log]struct{}),
		marks:      newMarks(o.FS, o.Path),
		metrics:    newMetrics(o.Registerer, o.Path),
	}
	d.SetProducerIDExpiration(o.ProducerIDExpiration)
	if err := d.open(); err != nil {
		if d.lockFile != nil && errors.Is(err, syscall.EIO) {
			d.leaveMarker(err) // what it was about to make durable may be lost
		}
		d.metrics.offline()
		d.release()
		return nil, fmt.Errorf("open log directory %s: %w", o.Path, err)
	}
	return d, nil
}

const lockName = ".lock"

func (d *Dir) open() (err error) {
	o := &d.o
	if err := makeDir(o.FS, o.Path); err != nil {
		return err
	}
	if err := refuseKafkaMetadata(o.FS, o.Path); err != nil {
		return err
	}
	if d.lockFile, err = o.FS.Lock(filepath.Join(o.Path, lockName)); err != nil {
		return err
	}
	if d.meta, err = loadMeta(o); err != nil {
		return err
	}
	if d.syncer, err = o.FS.OpenSyncer(o.Path); err != nil {
		return err
	}
	if d.keeperSyncer, err = o.FS.OpenSyncer(o.Path); err != nil {
		return err
	}
	room, err := o.FS.Space(o.Path)
	if err != nil {
		return fmt.Errorf("find out the free space: %w", err)
	}
	d.space = newSpace(o.ReserveBytes, room)
	d.checkSpace()
	d.previousEpoch, d.cleanStop, err = checkpoint.ReadCleanShutdown(o.FS, d.file(checkpoint.CleanShutdownFile))
	if err != nil {
		return err
	}
	return d.marks.load(func(err error) { o.Logger.Error("checkpoint cannot be read", "err", err) })
}

// makeDir makes a directory and those above it, each durably before the next. The name
// of what exists already is synced as well: an earlier process may have made it and been
// killed before it came to that, and everything in it would go with the name.
func makeDir(fsys vfs.FS, dir string) error {
	missing := []string{}
	at := dir
	for ; ; at = filepath.Dir(at) {
		_, err := fsys.Stat(at)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		missing = append(missing, at)
	}
	// What this process may not even open, it has not made.
	if err := fsys.SyncDir(filepath.Dir(at)); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	for _, name := range slices.Backward(missing) {
		if err := fsys.MkdirAll(name, 0o755); err != nil {
			return err
		}
		if err := fsys.SyncDir(filepath.Dir(name)); err != nil {
			return err
		}
	}
	return nil
}

// release gives up lock and syncers.
func (d *Dir) release() {
	for _, s := range []vfs.Syncer{d.syncer, d.keeperSyncer} {
		if s != nil {
			_ = s.Close()
		}
	}
	if d.lockFile != nil {
		_ = d.lockFile.Close()
	}
}

func (d *Dir) file(name string) string { return filepath.Join(d.o.Path, name) }

// Path is the directory's path as configured.
func (d *Dir) Path() string { return d.o.Path }

// DirectoryID is the id that meta.properties gives the directory.
func (d *Dir) DirectoryID() uuid.UUID {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.meta.directoryID
}

// ClusterID is the cluster that the directory belongs to, "" if that is not known yet.
func (d *Dir) ClusterID() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.meta.clusterID
}

// Joined tells whether the directory belonged to a cluster before it was opened: that a
// configuration names one says nothing of where the directory has been.
func (d *Dir) Joined() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.meta.joined
}

// PreviousBrokerEpoch is the broker epoch of the clean stop that ended the last run;
// -1 and false after a crash, or in a new directory.
func (d *Dir) PreviousBrokerEpoch() (epoch int64, clean bool) {
	return d.previousEpoch, d.cleanStop
}

// Err is nil while the disk works. Afterwards it wraps ErrDirOffline and the cause.
func (d *Dir) Err() error {
	if err := d.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// fail takes the directory offline, for good: after a failed sync nobody knows what is
// on the disk, and a repeated one proves nothing.
func (d *Dir) fail(cause error) {
	var err error = &offlineError{cause}
	if !d.failure.CompareAndSwap(nil, &err) {
		return
	}
	d.leaveMarker(cause)
	d.metrics.offline()
	if d.o.OnOffline != nil {
		go d.o.OnOffline(d, err)
	}
}

// clock is the latest time that a caller has mentioned, for what has no time of its
// own to go by.
func (d *Dir) clock() time.Time { return time.UnixMilli(d.nowMs.Load()) }

func (d *Dir) noteTime(now time.Time) {
	if ms := now.UnixMilli(); ms > d.nowMs.Load() {
		d.nowMs.Store(ms)
	}
}

// Log is the log of a partition, nil if the directory has none that is usable.
func (d *Dir) Log(topicID uuid.UUID, partition int32) *Log {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.logs[checkpoint.TopicIDPartition{TopicID: topicID, Partition: partition}]
}

// Logs is all logs in use, ordered by topic and partition.
func (d *Dir) Logs() []*Log {
	d.mu.Lock()
	defer d.mu.Unlock()
	return sorted(maps.Values(d.logs))
}

// Futures is all copies in the making, in the same order.
func (d *Dir) Futures() []*Log {
	d.mu.Lock()
	defer d.mu.Unlock()
	return sorted(maps.Values(d.futures))
}

// everyLog is both.
func (d *Dir) everyLog() []*Log { return append(d.Logs(), d.Futures()...) }

// shelf is where a log is kept. Callers hold mu.
func (d *Dir) shelf(l *Log) map[checkpoint.TopicIDPartition]*Log {
	if l.future {
		return d.futures
	}
	return d.logs
}

func sorted(logs iter.Seq[*Log]) []*Log { return slices.SortedFunc(logs, compareLogs) }

func sortedLogs(set map[*Log]struct{}) []*Log { return sorted(maps.Keys(set)) }

func compareLogs(a, b *Log) int {
	return cmp.Or(cmp.Compare(a.id.Topic, b.id.Topic), cmp.Compare(a.id.Partition, b.id.Partition))
}

// segmentOptions is shared by all logs with the same sizes.
func (d *Dir) segmentOptions(c Config) *segment.Options {
	d.mu.Lock()
	defer d.mu.Unlock()
	sizes := segmentSizes{c.IndexIntervalBytes, c.SegmentIndexBytes}
	o := d.segOptions[sizes]
	if o == nil {
		o = &segment.Options{
			FS: d.o.FS, Pool: d.o.Pool, Codecs: d.o.Codecs,
			IndexIntervalBytes: int(c.IndexIntervalBytes), MaxIndexBytes: int(c.SegmentIndexBytes),
		}
		d.segOptions[sizes] = o
	}
	return o
}

// SetProducerIDExpiration changes producer.id.expiration.ms for all logs of the directory.
func (d *Dir) SetProducerIDExpiration(after time.Duration) { d.expiration.Store(int64(after)) }

func (d *Dir) producerIDExpiration() time.Duration { return time.Duration(d.expiration.Load()) }
