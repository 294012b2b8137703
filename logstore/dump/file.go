package dump

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/klamm-mq/klamm/logstore/checkpoint"
	"github.com/klamm-mq/klamm/logstore/producerstate"
	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// Options say how files are read.
type Options struct {
	FS     vfs.FS
	Codecs *batch.Codecs
	// BatchesOnly leaves the records of batches out of a dump.
	BatchesOnly bool
	// Decode, if not nil, gives key and value of a record of a topic as fields. It
	// answers nil for what it does not know; then the bytes are shown as they are.
	Decode func(topic string, key, value []byte) []Field
	// GapsAreDamage: offsets must follow each other without a gap, as they do in a topic
	// that is not compacted.
	GapsAreDamage bool
}

// ErrUnknownFile is for a name that no file of a log directory has.
var ErrUnknownFile = errors.New("not the name of a file of a log directory")

// File gives every entry of a file to emit, what is wrong in its place as entries of kind
// "damage". The name decides what the file is, as it does for a broker; endings such as
// .deleted, .cleaned and .swap behind it do not matter. The error wraps ErrUnknownFile, or
// is the file system's or emit's.
func File(o Options, name string, emit func(Entry) error) ([]Problem, error) {
	d := dumper{Options: o, name: name, out: emit}
	read := d.reader()
	if read == nil {
		return nil, fmt.Errorf("%s: %w", name, ErrUnknownFile)
	}
	err := read()
	return d.problems, err
}

type dumper struct {
	Options
	name     string
	out      func(Entry) error
	problems []Problem
}

// reader is how the file is read, nil if its name says nothing.
func (d *dumper) reader() func() error {
	name := plainName(filepath.Base(d.name))
	switch name {
	case checkpoint.LeaderEpochFile:
		return d.epochs
	case checkpoint.PartitionMetadataFile, "meta.properties":
		return d.properties
	case checkpoint.FlushedFile:
		return d.flushed
	case checkpoint.SegmentsFile:
		return d.segments
	case checkpoint.CleanShutdownFile:
		return d.cleanShutdown
	case checkpoint.RecoveryPointFile, checkpoint.HighWatermarkFile, checkpoint.LogStartFile, checkpoint.CleanerFile:
		return d.offsets
	}
	switch filepath.Ext(name) {
	case segment.LogSuffix, ".checkpoint": // the latter is a snapshot of Kafka's metadata
		return d.log
	case segment.IndexSuffix:
		return d.offsetIndex
	case segment.TimeIndexSuffix:
		return d.timeIndex
	case segment.TxnIndexSuffix:
		return d.txnIndex
	case producerstate.SnapshotSuffix:
		return d.snapshot
	}
	return nil
}

// plainName removes the endings that files have on their way in or out.
func plainName(name string) string {
	for _, ending := range []string{".deleted", ".cleaned", ".swap", ".tmp"} {
		name = strings.TrimSuffix(name, ending)
	}
	return name
}

// baseOffset is the number that a file's name begins with; 0 if it does not.
func (d *dumper) baseOffset() int64 {
	digits, _, _ := strings.Cut(filepath.Base(d.name), ".")
	base, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0
	}
	return base
}

func (d *dumper) emit(kind string, fields ...Field) error { return d.out(Entry{kind, fields}) }

// damaged notes a problem and shows it in its place.
func (d *dumper) damaged(p Problem) error {
	p.File = d.name
	d.problems = append(d.problems, p)
	return d.out(p.entry())
}

func (d *dumper) log() error {
	topic := topicOf(filepath.Dir(d.name))
	end, err := walk(d.FS, d.name, func(b found) error {
		if err := d.out(b.entry()); err != nil {
			return err
		}
		if b.bad != "" {
			return d.damaged(Problem{Pos: b.pos, Reason: b.bad})
		}
		if b.view == nil || d.BatchesOnly {
			return nil
		}
		return d.records(topic, b)
	})
	switch {
	case err != nil:
		return err
	case end.reason != "":
		return d.damaged(Problem{Pos: end.pos, Reason: end.reason})
	case end.zeros > 0:
		return d.emit("unwritten", Field{"pos", end.pos}, Field{"size", end.zeros})
	}
	return nil
}

func (d *dumper) records(topic string, b found) error {
	it := batch.NewIterator(b.view, d.Codecs)
	defer it.Close()
	for it.Next() {
		if err := d.emit("record", d.record(topic, b.view.IsControl(), it.Record)...); err != nil {
			return err
		}
	}
	if err := it.Err(); err != nil {
		return d.damaged(Problem{Pos: b.pos, Reason: err.Error()})
	}
	return nil
}

func (d *dumper) record(topic string, isControl bool, r batch.Record) []Field {
	fields := []Field{{"offset", r.Offset}, {"timestamp", r.Timestamp}}
	if isControl {
		return append(fields, control(r)...)
	}
	if d.Decode != nil {
		if decoded := d.Decode(topic, r.Key, r.Value); decoded != nil {
			return append(fields, decoded...)
		}
	}
	fields = append(fields, Field{"key", r.Key}, Field{"value", r.Value})
	if r.Headers.Len() == 0 {
		return fields
	}
	var headers []Field
	for key, value := range r.Headers.All() {
		headers = append(headers, Field{string(key), value})
	}
	return append(fields, Field{"headers", headers})
}

// topicOf is the topic whose partition a directory holds, "" if its name is not one's.
func topicOf(dir string) string {
	name := filepath.Base(dir)
	if retired(name) {
		name = name[:max(0, strings.LastIndexByte(name, '.'))] // .<32 hex digits>-delete
	}
	dash := strings.LastIndexByte(name, '-')
	if dash <= 0 {
		return ""
	}
	if _, err := strconv.ParseUint(name[dash+1:], 10, 31); err != nil {
		return ""
	}
	return name[:dash]
}

// retired tells whether a directory is not, or not yet, the log of a partition.
func retired(name string) bool {
	for _, ending := range []string{"-delete", "-stray", "-future"} {
		if strings.HasSuffix(name, ending) {
			return true
		}
	}
	return false
}
