package matrix

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/compat-tests/compaction"
	"github.com/klamm-mq/klamm/compat-tests/matrix/programs"
	"github.com/klamm-mq/klamm/compat-tests/tap"
	"github.com/klamm-mq/klamm/conform"
)

// compacting is what a client shows of topics of which little is left.
func compacting() []capability {
	return []capability{
		{"consume a compacted topic", func(r *run) { r.fromCompacted("compacted", (*run).writeCompacted, beginsLate) }},
		{emptyBatches, func(r *run) { r.fromCompacted("emptied", (*run).writeEmptied, hasEmpty) }},
	}
}

// fromCompacted has the client read to the end, wait there, and read on.
func (r *run) fromCompacted(topic string, write func(*run, *compaction.Client, string), fine func(partition int32, batches []compaction.Batch, end int64) bool) {
	judge := compaction.Dial(r.t, r.cluster.addr, kgo.ClientID(tap.Judge))
	judge.Create(topic, partitions, compaction.Configs()...)
	write(r, judge, topic)
	var left []programs.Record
	ends := map[int32]int64{}
	for p := range int32(partitions) {
		batches, err := compaction.Stored(r.cluster.logs, topic, p)
		if err != nil {
			r.t.Fatal(err)
		}
		left = append(left, survivors(p, batches)...)
		if ends[p] = judge.LogEnd(topic, p); !fine(p, batches, ends[p]) {
			r.t.Fatalf("partition %d of %s is not worth reading: %v", p, topic, batches)
		}
	}
	r.readOn(topic, left, ends)
}

// writers of the partitions, whose times are in the past.
func writers(judge *compaction.Client, topic string) (w [partitions]*compaction.Writer) {
	begin := time.Now().Add(-time.Hour)
	for p := range w {
		w[p] = compaction.On(judge, topic, int32(p), begin)
	}
	return w
}

// writeCompacted writes and compacts partitions of which the start, the middle, or all but
// the last record goes, in whole segments.
func (r *run) writeCompacted(judge *compaction.Client, topic string) {
	r.t.Helper()
	w := writers(judge, topic)
	superseded(w[0])
	stays(w[0])
	stays(w[1])
	superseded(w[1])
	stays(w[1])
	superseded(w[2])
	superseded(w[2])
	ends := map[int32]int64{}
	for p := range w {
		ends[int32(p)] = w[p].End()
		w[p].Append(0, compaction.KV("the last", "x"))
	}
	r.compact(judge, topic, ends)
}

func (r *run) compact(judge *compaction.Client, topic string, ends map[int32]int64) {
	r.t.Helper()
	judge.Set(topic, "cleanup.policy", "compact")
	for p, end := range ends {
		judge.AwaitClean(r.cluster.logs, topic, p, end)
	}
}

// beginsLate expects gaps: a broker may mark them by batches without records.
func beginsLate(_ int32, batches []compaction.Batch, end int64) bool {
	return len(survivors(0, batches)) < int(end)/2
}

// emptied are producers whose last batch is kept without its records.
const emptied = 20

// writeEmptied has batches without records at the start of partition 0, in the middle of 1,
// and at the end of 2, and batches whose last record is gone. For the latter the active segment must be empty, as it is when a
// broker has lost the end of its log.
func (r *run) writeEmptied(judge *compaction.Client, topic string) {
	r.t.Helper()
	w, goes := writers(judge, topic), compaction.KV("goes", "x")
	supersededOf(w[0])
	stays(w[0], goes)
	stays(w[1], goes)
	supersededOf(w[1])
	stays(w[1], goes)
	stays(w[2], goes)
	for range 3 { // records without keys do not stay
		w[2].Append(0, conform.Record{Value: []byte("no key")}, conform.Record{Value: []byte("no key")})
	}
	ends := map[int32]int64{}
	r.cluster.stop()
	for p := range int32(partitions) {
		ends[p] = w[p].End()
		segment := filepath.Join(r.cluster.logs, fmt.Sprintf("%s-%d", topic, p), fmt.Sprintf("%020d.log", ends[p]))
		if err := os.WriteFile(segment, nil, 0o644); err != nil {
			r.t.Fatal(err)
		}
	}
	r.cluster.start()
	judge.AwaitLeaders(topic, partitions)
	r.compact(judge, topic, ends)
}

func hasEmpty(partition int32, batches []compaction.Batch, end int64) bool {
	empty := 0
	for _, b := range batches {
		if b.NumRecords == 0 {
			empty++
		}
	}
	first, last := batches[0], batches[len(batches)-1]
	switch partition {
	case 0:
		return empty >= emptied && first.NumRecords == 0
	case 1:
		return empty >= emptied && first.NumRecords > 0
	default:
		return last.NumRecords == 0 && last.Last == end-1
	}
}

// superseded writes segments of which nothing stays.
func superseded(w *compaction.Writer) {
	noise := make([]byte, 100_000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise) // it never fails
	for range 3 {
		for i := range 9 {
			w.Append(0, compaction.KV(fmt.Sprint("key-", i), string(noise)))
		}
		w.Roll()
	}
	for i := range 9 {
		w.Append(0, compaction.KV(fmt.Sprint("key-", i), "new"))
	}
	w.Roll()
}

// supersededOf has the last batches of producers before superseded.
func supersededOf(w *compaction.Writer) {
	for p := range emptied {
		w.As(int64(900_000+p), 0, compaction.KV("key-0", "old"))
	}
	superseded(w)
}

// stays writes records of all codecs that stay, each behind one that goes, and before more
// of them.
func stays(w *compaction.Writer, more ...conform.Record) {
	for i, codec := range compaction.Codecs {
		own := fmt.Sprintf("stays-%d-%d", w.End(), i)
		records := []conform.Record{compaction.KV("goes", "x"), compaction.KV(own, "stays", "number", fmt.Sprint(i))}
		w.Append(codec, append(records, more...)...)
	}
	w.Roll()
}

func survivors(partition int32, batches []compaction.Batch) (all []programs.Record) {
	for _, b := range batches {
		for _, k := range b.Kept {
			record := programs.Record{
				Partition: partition, Offset: b.FirstOffset + int64(k.OffsetDelta), Time: b.FirstTimestamp + k.TimestampDelta64,
				Key: programs.Text(k.Key), Value: programs.Text(k.Value), Headers: map[string]string{},
			}
			for _, h := range k.Headers {
				record.Headers[h.Key] = string(h.Value)
			}
			all = append(all, record)
		}
	}
	return all
}

// readOn has the client read what is left; when it waits at the ends, more is written.
func (r *run) readOn(topic string, left []programs.Record, ends map[int32]int64) {
	r.t.Helper()
	id, from := r.id(topic), r.tap.Count()
	var lines []programs.Line
	done := make(chan error, 1)
	ctx := r.context()
	var reading sync.WaitGroup
	r.t.Cleanup(reading.Wait) // also when it fails below: the session is for one command at a time
	reading.Go(func() {
		command := programs.Command{Do: "consume", Topic: topic, Partitions: partitions, From: "start", Count: len(left) + partitions}
		done <- r.session.Do(ctx, command, func(l programs.Line) { lines = append(lines, l) })
	})
	r.await("the client waits at the ends", func() (bool, error) {
		waiting := waitingAt(requests[*kmsg.FetchRequest](r.tap, from), topic, id)
		return maps.Equal(waiting, ends), fmt.Errorf("the client fetches from %v, the ends are %v", waiting, ends)
	})
	var more []programs.Record
	for p := range int32(partitions) {
		more = append(more, programs.Record{Partition: p, Time: time.Now().UnixMilli(), Key: text("more"), Value: text("x")})
	}
	left = append(left, r.writeTo(topic, more, kgo.NoCompression())...)
	if err := <-done; err != nil {
		r.t.Fatalf("after %d records of %d: %v", len(lines), len(left), err)
	}
	r.compareRead(left, lines)
}
