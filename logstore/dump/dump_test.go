package dump_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/logstore/dump"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// TestGolden plays testdata/transcripts on a log directory that logstore has written:
// orders-0 with three segments, a producer, a compressed batch and an aborted transaction,
// and __consumer_offsets-0 with one record.
//
//	dump FILE [json] [batches]
//	check [DIR] [gaps]
//	flip FILE pos=        one byte becomes another
//	chop FILE size=
//	append FILE n=        so many bytes 0x7f behind the end
//	rm FILE               write FILE (the input)
//	fresh                 the directory as it was
func TestGolden(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		fsys := written(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "fresh" {
				fsys = written(t)
				return ""
			}
			return play(t, fsys, d)
		})
	})
}

func play(t *testing.T, fsys vfs.FS, d *datadriven.TestData) string {
	name := "/data"
	if len(d.CmdArgs) > 0 && !d.HasArg("gaps") {
		name += "/" + d.CmdArgs[0].Key
	}
	o := dump.Options{
		FS: fsys, Codecs: batch.NewCodecs(batch.CodecsOptions{}), BatchesOnly: d.HasArg("batches"), GapsAreDamage: d.HasArg("gaps"),
		Decode: func(topic string, key, _ []byte) []dump.Field {
			if topic != "__consumer_offsets" {
				return nil
			}
			return []dump.Field{{Name: "decoded", Value: string(key)}}
		},
	}
	var n int
	switch d.Cmd {
	case "dump":
		return dumped(t, o, name, d.HasArg("json"))
	case "check":
		return checked(o, name)
	case "flip":
		d.ScanArgs(t, "pos", &n)
		change(t, fsys, name, func(b []byte) []byte { b[n] ^= 0x40; return b })
	case "chop":
		d.ScanArgs(t, "size", &n)
		change(t, fsys, name, func(b []byte) []byte { return b[:n] })
	case "append":
		d.ScanArgs(t, "n", &n)
		change(t, fsys, name, func(b []byte) []byte { return append(b, []byte(strings.Repeat("\x7f", n))...) })
	case "rm":
		if err := fsys.RemoveAll(name); err != nil {
			t.Fatal(err)
		}
	case "write":
		if err := vfs.WriteFileAtomic(fsys, name, []byte(d.Input+"\n")); err != nil {
			t.Fatal(err)
		}
	default:
		d.Fatalf(t, "unknown command")
	}
	return ""
}

func change(t *testing.T, fsys vfs.FS, name string, fn func([]byte) []byte) {
	t.Helper()
	data, err := vfs.ReadFile(fsys, name)
	if err != nil {
		t.Fatal(err)
	}
	if err := vfs.WriteFileAtomic(fsys, name, fn(data)); err != nil {
		t.Fatal(err)
	}
}

func dumped(t *testing.T, o dump.Options, name string, asJSON bool) string {
	var out strings.Builder
	problems, err := dump.File(o, name, func(e dump.Entry) error {
		if !asJSON {
			fmt.Fprintln(&out, e.Text())
			return nil
		}
		line, err := json.Marshal(e)
		if err == nil && !json.Valid(line) {
			err = errors.New("not JSON")
		}
		fmt.Fprintf(&out, "%s\n", line)
		return err
	})
	for _, p := range problems {
		fmt.Fprintln(&out, "problem:", p)
	}
	if err != nil {
		fmt.Fprintln(&out, "error:", err)
	}
	return out.String()
}

func checked(o dump.Options, dir string) string {
	report, err := dump.Check(o, dir)
	if err != nil {
		return fmt.Sprintln("error:", err)
	}
	var out strings.Builder
	for _, p := range report.Problems {
		fmt.Fprintln(&out, "damage:", p)
	}
	for _, p := range report.Notes {
		fmt.Fprintln(&out, "note:", p)
	}
	fmt.Fprintf(&out, "%d partitions, %d segments, %d batches, %d records, %d bytes\n",
		report.Partitions, report.Segments, report.Batches, report.Records, report.Bytes)
	return out.String()
}

// counting is a source of directory ids.
type counting byte

func (c *counting) Read(p []byte) (int, error) {
	for i := range p {
		*c++
		p[i] = byte(*c)
	}
	return len(p), nil
}

var begin = time.UnixMilli(1_700_000_000_000).UTC()

// written is a file system whose /data was closed cleanly.
func written(t testing.TB) vfs.FS {
	t.Helper()
	fsys := vfs.NewMem()
	dir := opened(t, fsys)
	orders := created(t, dir, "orders", 1)
	produce := func(epoch int32, o batch.BuilderOptions, values ...string) {
		t.Helper()
		records := make([]batch.NewRecord, len(values))
		for i, v := range values {
			records[i] = batch.NewRecord{TimestampMs: begin.UnixMilli() + int64(epoch), Key: []byte("k"), Value: []byte(v)}
		}
		records[0].Headers = []batch.Header{{Key: "trace", Value: []byte{0xff, 0}}}
		appendBatch(t, orders, epoch, build(t, o, records...))
	}
	produce(0, batch.BuilderOptions{}, "a", "b")
	produce(0, batch.BuilderOptions{Codec: batch.Gzip}, "c", "c", "c")
	produce(1, batch.BuilderOptions{Producer: &batch.Producer{ID: 7, Epoch: 2}}, "d")
	if err := orders.Roll(begin); err != nil {
		t.Fatal(err)
	}
	produce(2, batch.BuilderOptions{Producer: &batch.Producer{ID: 9}, Transactional: true}, "e")
	marker := batch.NewEndTxnMarker(begin.UnixMilli()+3, 9, 0, batch.EndTxnMarker{Type: batch.ControlAbort, CoordinatorEpoch: 4})
	if _, err := orders.AppendAsLeader(logstore.AppendParams{Now: begin, Records: marker, LeaderEpoch: 2, RequestVersion: 12, Origin: logstore.OriginCoordinator}); err != nil {
		t.Fatal(err)
	}
	if err := orders.Roll(begin); err != nil {
		t.Fatal(err)
	}
	produce(3, batch.BuilderOptions{Codec: batch.Zstd}, "f")
	appendBatch(t, created(t, dir, "__consumer_offsets", 2), 0, build(t, batch.BuilderOptions{}, batch.NewRecord{TimestampMs: 5, Key: []byte("x")}))
	dir.Flush()
	if err := dir.Close(begin, 17); err != nil {
		t.Fatal(err)
	}
	return fsys
}

func opened(t testing.TB, fsys vfs.FS) *logstore.Dir {
	t.Helper()
	dir, err := logstore.OpenDir(logstore.DirOptions{
		FS: fsys, Path: "/data", NodeID: 1, ClusterID: "cluster-a", Rand: new(counting), Logger: slog.New(slog.DiscardHandler), ReserveBytes: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = dir.OpenLogs(context.Background(), logstore.OpenLogsParams{Now: begin, Threads: 1, Config: func(logstore.ID) logstore.Config { return config() }})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func config() logstore.Config {
	return logstore.Config{
		SegmentBytes: 1 << 20, SegmentMs: 1 << 40, SegmentIndexBytes: 1 << 16, IndexIntervalBytes: 1, RetentionMs: -1, RetentionBytes: -1,
		MaxMessageBytes: 1 << 20, TimestampBeforeMs: 1 << 60, TimestampAfterMs: 1 << 60, FlushMessages: 1 << 60, FlushMs: 1 << 60,
	}
}

func created(t testing.TB, dir *logstore.Dir, topic string, id byte) *logstore.Log {
	t.Helper()
	l, err := dir.CreateLog(begin, logstore.ID{Topic: topic, TopicID: uuid.UUID{id}}, config())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func build(t testing.TB, o batch.BuilderOptions, records ...batch.NewRecord) batch.View {
	t.Helper()
	o.LeaderEpoch = -1
	b := batch.NewBuilder(o)
	for _, r := range records {
		b.Append(r)
	}
	v, err := b.Build(batch.NewCodecs(batch.CodecsOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func appendBatch(t testing.TB, l *logstore.Log, epoch int32, v batch.View) {
	t.Helper()
	_, err := l.AppendAsLeader(logstore.AppendParams{Now: begin, Records: v, LeaderEpoch: epoch, RequestVersion: 12})
	if err != nil {
		t.Fatal(err)
	}
}

// Nothing makes it panic, and everything has a form as text and one as JSON.
func FuzzFile(f *testing.F) {
	names := []string{
		"orders-0/00000000000000000000.log", "orders-0/00000000000000000000.index", "orders-0/00000000000000000006.timeindex",
		"orders-0/00000000000000000006.txnindex", "orders-0/00000000000000000006.snapshot", "orders-0/leader-epoch-checkpoint",
		"orders-0/partition.metadata", "meta.properties", "flushed-offset-checkpoint", "segment-checkpoint", "recovery-point-offset-checkpoint", ".kafka_cleanshutdown",
	}
	fsys := written(f)
	for i, name := range names {
		data, err := vfs.ReadFile(fsys, "/data/"+name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(i, data)
	}
	f.Fuzz(func(t *testing.T, which int, data []byte) {
		fsys := vfs.NewMem()
		name := "/data/" + names[max(0, which)%len(names)]
		err := cmp.Or(fsys.MkdirAll("/data/orders-0", 0o755), vfs.WriteFileAtomic(fsys, name, data))
		if err != nil {
			t.Fatal(err)
		}
		o := dump.Options{FS: fsys, Codecs: batch.NewCodecs(batch.CodecsOptions{})}
		dumped(t, o, name, true)
		dumped(t, o, name, false)
		if _, err := dump.Check(o, "/data"); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	})
}

// A value reads in JSON as it was written, <, > and & included.
func TestJSONIsNotMadeForPagesOfTheWeb(t *testing.T) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(dump.Object{{"a<b", []byte("x&y")}, {"c", "<d>"}, {"e", []dump.Field{{"f", errors.New("g > h")}}}}); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), `{"a<b":"x&y","c":"<d>","e":{"f":"g > h"}}`+"\n"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestCheckKnowsSwaps: what a compaction was about to put in place explains a segment that is gone.
func TestCheckKnowsSwaps(t *testing.T) {
	fsys := written(t)
	const dir = "/data/orders-0/"
	if err := fsys.Remove(dir + "00000000000000000006.log"); err != nil {
		t.Fatal(err)
	}
	o := dump.Options{FS: fsys, Codecs: batch.NewCodecs(batch.CodecsOptions{}), GapsAreDamage: true}
	if got := checked(o, "/data"); !strings.Contains(got, "damage: ") || !strings.Contains(got, "are missing between segments") {
		t.Errorf("without one:\n%s", got)
	}
	if err := vfs.WriteFileAtomic(fsys, dir+"00000000000000000000.log.swap", []byte("whatever")); err != nil {
		t.Fatal(err)
	}
	if got := checked(o, "/data"); strings.Contains(got, "are missing between segments") || !strings.Contains(got, "note: ") || !strings.Contains(got, ".log.swap") {
		t.Errorf("with one:\n%s", got)
	}
}
