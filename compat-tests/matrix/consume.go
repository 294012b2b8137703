package matrix

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/compat-tests/matrix/programs"
	"github.com/klamm-mq/klamm/compat-tests/tap"
)

const (
	// corpus is the topic that is read: records of all codecs, one each second from an
	// hour ago.
	corpus     = "corpus"
	perCodec   = 30
	readers    = "readers" // the group
	readByOne  = 60        // by its first member
	appended   = 30        // by who writes behind a consumer
	corpusSize = 5 * perCodec
)

func consuming() []capability {
	return []capability{
		{"consume from start", (*run).fromStart},
		{"consume by time", (*run).byTime},
		{"group: commit and resume", (*run).resume},
		{"consume from end", (*run).fromEnd},
	}
}

// writeCorpus writes it: every codec in each partition, values that are null and empty.
func (r *run) writeCorpus() {
	r.t.Helper()
	r.topic(corpus)
	begin := time.Now().Add(-time.Hour).UnixMilli()
	for i, codec := range []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	} {
		var records []programs.Record
		for n := range perCodec {
			at := i*perCodec + n
			record := programs.Record{
				Partition: int32(n % partitions), Time: begin + int64(at)*1000,
				Key: text(fmt.Sprintf("key-%d", at)), Value: text(strings.Repeat(fmt.Sprintf("value-%d ", at), 10)),
				Headers: map[string]string{"number": fmt.Sprint(at)},
			}
			switch n {
			case 0:
				record.Key = nil
			case 1:
				record.Value = nil
			case 2:
				record.Value = text("")
			}
			records = append(records, record)
		}
		r.write(records, codec)
	}
}

// write appends to the corpus.
func (r *run) write(records []programs.Record, codec kgo.CompressionCodec) {
	r.t.Helper()
	r.corpus = append(r.corpus, r.writeTo(corpus, records, codec)...)
}

// writeTo appends to a topic, and returns the records with their offsets.
func (r *run) writeTo(topic string, records []programs.Record, codec kgo.CompressionCodec) []programs.Record {
	r.t.Helper()
	w, err := kgo.NewClient(kgo.SeedBrokers(r.tap.Addr), kgo.ClientID(tap.Judge), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(10*time.Millisecond))
	if err != nil {
		r.t.Fatal(err)
	}
	defer w.Close()
	var all []*kgo.Record
	for _, record := range records {
		k := &kgo.Record{Topic: topic, Partition: record.Partition, Key: programs.Bytes(record.Key), Value: programs.Bytes(record.Value), Timestamp: time.UnixMilli(record.Time)}
		for _, name := range slices.Sorted(maps.Keys(record.Headers)) {
			k.Headers = append(k.Headers, kgo.RecordHeader{Key: name, Value: []byte(record.Headers[name])})
		}
		all = append(all, k)
	}
	if err := w.ProduceSync(r.context(), all...).FirstErr(); err != nil {
		r.t.Fatal(err)
	}
	return fromStored(all)
}

func fromStored(all []*kgo.Record) (records []programs.Record) {
	for _, k := range all {
		records = append(records, fromKgo(k))
	}
	return records
}

func fromKgo(k *kgo.Record) programs.Record {
	record := programs.Record{
		Partition: k.Partition, Offset: k.Offset, Time: k.Timestamp.UnixMilli(),
		Key: programs.Text(k.Key), Value: programs.Text(k.Value), Headers: map[string]string{},
	}
	for _, h := range k.Headers {
		record.Headers[h.Key] = string(h.Value)
	}
	return record
}

// line is a record as it is compared.
func (r *run) line(record programs.Record) string {
	if r.client.EmptyIsNull && same(record.Value, text("")) {
		record.Value = nil
	}
	return line(record)
}

func line(r programs.Record) string {
	return fmt.Sprintf("partition %d offset %d time %d key %s value %s headers %v", r.Partition, r.Offset, r.Time, show(r.Key), show(r.Value), r.Headers)
}

// compareRead expects exactly these records, each once, in order within a partition.
func (r *run) compareRead(want []programs.Record, lines []programs.Line) {
	r.t.Helper()
	missing := map[string]bool{}
	for _, w := range want {
		missing[r.line(w)] = true
	}
	var wrong faults
	last := map[int32]int64{}
	for _, l := range lines {
		got := l.Record
		if got == nil {
			continue
		}
		if before, any := last[got.Partition]; any && got.Offset <= before {
			wrong.add("partition %d: offset %d was read after %d", got.Partition, got.Offset, before)
		}
		last[got.Partition] = got.Offset
		if !missing[r.line(*got)] {
			wrong.add("nobody expects: %s", r.line(*got))
		}
		delete(missing, r.line(*got))
	}
	for _, m := range slices.Sorted(maps.Keys(missing)) {
		wrong.add("not read: %s", m)
	}
	wrong.report(r)
}

func (r *run) fromStart() {
	lines := r.do(programs.Command{Do: "consume", Topic: corpus, Partitions: partitions, From: "start", Count: len(r.corpus)})
	r.compareRead(r.corpus, lines)
}

func (r *run) byTime() {
	at := r.corpus[0].Time + corpusSize/2*1000
	want := slices.DeleteFunc(slices.Clone(r.corpus), func(record programs.Record) bool { return record.Time < at })
	from := r.tap.Count()
	lines := r.do(programs.Command{Do: "consume", Topic: corpus, Partitions: partitions, From: strconv.FormatInt(at, 10), Count: len(want)})
	r.compareRead(want, lines)
	asked := map[int32]bool{}
	for _, req := range requests[*kmsg.ListOffsetsRequest](r.tap, from) {
		for _, t := range req.Topics {
			for _, p := range t.Partitions {
				asked[p.Partition] = asked[p.Partition] || p.Timestamp == at
			}
		}
	}
	if fmt.Sprint(asked) != fmt.Sprint(map[int32]bool{0: true, 1: true, 2: true}) {
		r.t.Errorf("ListOffsets has asked for the time of partitions %v", asked)
	}
}

// fromEnd writes when the client waits at the end of each partition.
func (r *run) fromEnd() {
	ends, err := r.ends(corpus)
	if err != nil {
		r.t.Fatal(err)
	}
	id, from, old := r.id(corpus), r.tap.Count(), len(r.corpus)
	var lines []programs.Line
	done := make(chan error, 1)
	ctx := r.context()
	var reading sync.WaitGroup
	r.t.Cleanup(reading.Wait) // also when it fails below: the session is for one command at a time
	reading.Go(func() {
		command := programs.Command{Do: "consume", Topic: corpus, Partitions: partitions, From: "end", Count: appended}
		done <- r.session.Do(ctx, command, func(l programs.Line) { lines = append(lines, l) })
	})
	r.await("the client waits at the ends", func() (bool, error) {
		waiting := waitingAt(requests[*kmsg.FetchRequest](r.tap, from), corpus, id)
		return maps.Equal(waiting, ends), fmt.Errorf("the client fetches from %v, the ends are %v", waiting, ends)
	})
	var more []programs.Record
	for i := range appended {
		more = append(more, programs.Record{
			Partition: int32(i % partitions), Time: time.Now().UnixMilli(),
			Key: text(fmt.Sprintf("new-%d", i)), Value: text("x"), Headers: map[string]string{"number": fmt.Sprint(i)},
		})
	}
	r.write(more, kgo.NoCompression())
	if err := <-done; err != nil {
		r.t.Fatalf("after %d records: %v", len(lines), err)
	}
	r.compareRead(r.corpus[old:], lines)
}

// waitingAt is the newest offset that was fetched from, by partition.
func waitingAt(all []*kmsg.FetchRequest, topic string, id [16]byte) map[int32]int64 {
	at := map[int32]int64{}
	for _, req := range all {
		for _, t := range req.Topics {
			if t.Topic != topic && t.TopicID != id {
				continue
			}
			for _, p := range t.Partitions {
				at[p.Partition] = p.FetchOffset
			}
		}
	}
	return at
}

// resume has one member read a part, commit it and leave, and the next one the rest.
func (r *run) resume() {
	first := r.member(readByOne)
	committed := r.committed()
	for partition, next := range committed {
		var want int64
		for _, l := range first {
			if l.Record.Partition == partition {
				want = max(want, l.Record.Offset+1)
			}
		}
		if next != want {
			r.t.Errorf("partition %d: %d is committed, read was up to %d", partition, next, want)
		}
	}
	if sum(committed) != readByOne {
		r.t.Errorf("committed is %v after %d records", committed, readByOne)
	}
	second := r.member(len(r.corpus) - readByOne)
	r.compareRead(r.corpus, append(first, second...))
	if got := r.committed(); sum(got) != int64(len(r.corpus)) {
		r.t.Errorf("committed is %v after all %d records", got, len(r.corpus))
	}
}

// member is one that has left when it returns.
func (r *run) member(count int) []programs.Line {
	r.t.Helper()
	lines := r.do(programs.Command{Do: "group", Topic: corpus, Group: readers, Count: count})
	r.await("the member has left", func() (bool, error) {
		described, err := r.admin.DescribeGroups(r.context(), readers)
		return described[readers].State == "Empty", err
	})
	return lines
}

func (r *run) committed() map[int32]int64 {
	r.t.Helper()
	offsets := map[int32]int64{}
	answers, err := r.admin.FetchOffsets(r.context(), readers)
	if err != nil {
		r.t.Fatal(err)
	}
	for partition, o := range answers[corpus] {
		offsets[partition] = o.At
	}
	return offsets
}
