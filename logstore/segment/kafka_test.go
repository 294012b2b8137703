//go:build kafka

package segment_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/logstore/producerstate"
	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// The tests in this file let Apache Kafka's own tool read what this package and
// producerstate have written. They need Java, and KAFKA_LIB, the directory of Kafka's
// jars:
//
//	KAFKA_LIB=… go test -tags kafka -run Kafka ./logstore/segment

// dumpLogSegments runs Kafka's tool over files and returns what it printed, complaints
// included.
func dumpLogSegments(t *testing.T, files []string, args ...string) string {
	t.Helper()
	lib := os.Getenv("KAFKA_LIB")
	if lib == "" {
		t.Fatal("KAFKA_LIB is not set")
	}
	args = append([]string{"-cp", filepath.Join(lib, "*"), "org.apache.kafka.tools.DumpLogSegments", "--files", strings.Join(files, ",")}, args...)
	out, err := exec.CommandContext(t.Context(), "java", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("DumpLogSegments: %v\n%s", err, out)
	}
	return string(out)
}

// complaints are what the tool says about files that are not as Kafka's.
var complaints = []string{
	"Mismatches in", "Index timestamp", "Found timestamp mismatch", "Found out of order timestamp",
	"are not found in", " is followed by ", "invalid bytes", "Exception", "orrupt",
}

// firstRecord begins what the tool says of every segment but the first: it expects
// offset 0 in each file.
const firstRecord = "  -1 is followed by "

func checkDump(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		for _, c := range complaints {
			if strings.Contains(line, c) && !strings.HasPrefix(line, firstRecord) {
				t.Errorf("Kafka says: %s", line)
			}
		}
	}
}

// world writes a log of several segments the way a log does.
type world struct {
	t         *testing.T
	dir       string
	o         *segment.Options
	s         *segment.Segment
	all       []*segment.Segment
	producers *producerstate.Manager
	rng       *rand.Rand
	next, ts  int64
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, dir: t.TempDir(), rng: rand.New(rand.NewPCG(1, 2)), ts: 1_700_000_000_000}
	codecs := batch.NewCodecs(batch.CodecsOptions{})
	w.o = &segment.Options{FS: vfs.OS(), Pool: segment.NewFilePool(segment.PoolOptions{}), Codecs: codecs, IndexIntervalBytes: 512, MaxIndexBytes: 10 << 20}
	w.producers = producerstate.New(producerstate.Options{FS: vfs.OS(), Dir: w.dir, Expiration: time.Hour})
	w.roll()
	return w
}

func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) roll() {
	if w.s != nil {
		w.check(w.s.Seal())
		_, err := w.producers.TakeSnapshot(true)
		w.check(err)
	}
	s, err := segment.Create(w.dir, w.next, time.UnixMilli(w.ts), w.o)
	w.check(err)
	w.s, w.all = s, append(w.all, s)
}

// batch is a random one, of any codec, whose timestamps go back now and then.
func (w *world) batch() batch.View {
	o := batch.BuilderOptions{
		BaseOffset:  w.next,
		LeaderEpoch: 7,
		Codec:       batch.Codec(w.rng.IntN(5)),
	}
	b := batch.NewBuilder(o)
	w.ts += w.rng.Int64N(2000) - 500
	for i := range 1 + w.rng.IntN(6) {
		b.Append(batch.NewRecord{
			TimestampMs: w.ts + int64(w.rng.IntN(100)),
			Key:         fmt.Appendf(nil, "key-%d", i),
			Value:       bytes.Repeat([]byte("value "), w.rng.IntN(60)),
		})
	}
	v, err := b.Build(w.o.Codecs)
	w.check(err)
	return v
}

func (w *world) append(batches ...batch.View) {
	var records []byte
	for _, v := range batches {
		records = append(records, v...)
		w.next = v.NextOffset()
	}
	w.check(w.s.Append(time.UnixMilli(w.ts), records))
	for _, v := range batches {
		done, ended, err := w.producers.Update(v)
		w.check(err)
		if ended && done.Aborted {
			w.check(w.s.AppendAbortedTxn(segment.AbortedTxn{
				ProducerID: done.ProducerID, FirstOffset: done.FirstOffset,
				LastOffset: done.LastOffset, LastStableOffset: done.LastStableOffset,
			}))
		}
	}
}

// transaction appends two batches of a producer and the marker that ends it.
func (w *world) transaction(pid int64, seq int32, kind batch.ControlType) {
	for i := range int32(2) {
		w.append(batch.New(batch.BuilderOptions{
			BaseOffset: w.next, LeaderEpoch: 7, Transactional: true,
			Producer: &batch.Producer{ID: pid, Epoch: 1, BaseSequence: seq + i},
		}, batch.NewRecord{TimestampMs: w.ts, Value: []byte("in a transaction")}))
	}
	marker := batch.NewEndTxnMarker(w.ts, pid, 1, batch.EndTxnMarker{Type: kind, CoordinatorEpoch: 3})
	marker.SetBaseOffset(w.next)
	w.append(marker)
}

func (w *world) fill(batches int) {
	for range batches {
		switch {
		case w.s.Size() > 40_000:
			w.roll()
		case w.rng.IntN(20) == 0:
			w.transaction(w.rng.Int64N(3), 0, batch.ControlType(w.rng.IntN(2)))
		case w.rng.IntN(10) == 0: // as a follower: several at once
			first := w.batch()
			w.next = first.NextOffset()
			w.append(first, w.batch())
		default:
			w.append(w.batch())
		}
	}
}

func (w *world) close() {
	for _, s := range w.all {
		w.check(s.Close())
	}
	_, err := w.producers.TakeSnapshot(true)
	w.check(err)
}

func (w *world) files() (names []string) {
	entries, err := os.ReadDir(w.dir)
	w.check(err)
	for _, e := range entries {
		names = append(names, filepath.Join(w.dir, e.Name()))
	}
	return names
}

func (w *world) dump() {
	w.t.Helper()
	out := dumpLogSegments(w.t, w.files(), "--deep-iteration", "--print-data-log")
	checkDump(w.t, out)
	if n := strings.Count(out, "| offset: "); int64(n) != w.next {
		w.t.Errorf("Kafka sees %d records, want %d", n, w.next)
	}
	if strings.Contains(out, "isvalid: false") {
		w.t.Error("Kafka finds an invalid batch")
	}
	if !strings.Contains(out, "producerId: 1 firstOffset:") || !strings.Contains(out, "firstSequence:") {
		w.t.Error("Kafka sees no aborted transaction or no producer")
	}
	out = dumpLogSegments(w.t, w.files(), "--index-sanity-check")
	checkDump(w.t, out)
	for _, name := range w.files() {
		if suffix := filepath.Ext(name); suffix == segment.IndexSuffix || suffix == segment.TimeIndexSuffix {
			if !strings.Contains(out, name+" passed sanity check.") && !strings.Contains(out, name+" is empty.") {
				w.t.Errorf("Kafka does not pass %s", name)
			}
		}
	}
}

func TestKafkaReadsSegments(t *testing.T) {
	w := newWorld(t)
	w.fill(1500)
	w.close()
	w.dump()
}

// TestKafkaReadsTruncatedAndRecoveredSegments: also after a truncation, a start without
// indexes, and a recovery.
func TestKafkaReadsTruncatedAndRecoveredSegments(t *testing.T) {
	w := newWorld(t)
	w.fill(300)
	for range 5 {
		next, err := w.s.NextOffset()
		w.check(err)
		_, err = w.s.TruncateTo(time.UnixMilli(w.ts), (w.s.BaseOffset()+next)/2)
		w.check(err)
		w.next, err = w.s.NextOffset()
		w.check(err)
		w.fill(20)
	}
	w.close()
	w.check(os.Remove(filepath.Join(w.dir, segment.FileName(0, segment.IndexSuffix))))
	for i, s := range w.all {
		s, err := segment.Open(w.dir, s.BaseOffset(), time.UnixMilli(w.ts), w.o)
		w.check(err)
		if i%2 == 0 {
			_, err = s.Recover(segment.RecoverParams{FromOffset: s.BaseOffset() + int64(i)})
		} else {
			_, err = s.NextOffset()
		}
		w.check(err)
		w.check(s.Close())
	}
	w.dump()
}
