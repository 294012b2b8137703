package cleaner

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/java"
	"github.com/klamm-mq/klamm/logstore/compaction"
	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// TestCleansAsKafka cleans random logs, each several times, once here and once by Kafka.
func TestCleansAsKafka(t *testing.T) {
	codecs := batch.NewCodecs(batch.CodecsOptions{})
	first, runs := env(t, "SEED", 1), env(t, "RUNS", 1000)
	var cases bytes.Buffer
	var ours []outcome
	for seed := range runs {
		h := randomHistory(uint64(first+seed), codecs)
		dirty := int64(0)
		for n := range 5 {
			if h.r.IntN(3) == 0 {
				dirty = 0
			}
			o := outcome{name: fmt.Sprintf("seed %d, cleaning %d", first+seed, n)}
			x := h.round(dirty)
			put(&cases, h, x)
			h.clean(t, x, &o)
			ours = append(ours, o)
			dirty = o.Latest + 1
		}
	}
	compare(t, codecs, ours, kafka(t, len(ours), cases.Bytes()))
}

func env(t *testing.T, name string, otherwise int) int {
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("%s=%s: %v", name, s, err)
	}
	return n
}

// outcome is what a cleaning ended with.
type outcome struct {
	name    string
	Latest  int64
	Log     []byte
	Aborted []segment.AbortedTxn
	Counts  counts
}

// counts are what Kafka's CleanerStats has.
type counts struct {
	Indexed, MessagesRead, BytesRead, MessagesKept, BytesKept, Invalid int64
}

// clean does here what Clean.java does, and puts what is left in the place of what was cleaned.
func (h *history) clean(t *testing.T, x round, o *outcome) {
	m := compaction.NewOffsetMap(int64(2*x.keys*24), 0.5)
	index := compaction.NewIndexer(m, x.firstDirty, h.codecs, h.abortedIn(x.firstDirty, h.end))
	h.index(t, index, m, x)
	f := compaction.NewFilter(compaction.FilterOptions{
		Map: m, NowMs: x.nowMs, DeleteRetentionMs: x.retentionMs, Producers: x.producers, HighWatermark: x.hw, Codecs: h.codecs,
	})
	out := &part{base: h.segments[0].base}
	n := 0
	for n < len(h.segments) && h.segments[n].base <= m.Latest() {
		p := h.segments[n]
		f.AddAborted(h.abortedIn(p.base, p.next))
		each(t, p.log, func(v batch.View) bool {
			kept, err := f.Batch(v, false)
			if err != nil {
				t.Fatal(err)
			}
			out.log = append(out.log, kept...)
			return true
		})
		out.next = p.next
		n++
	}
	out.aborted = f.Aborted()
	if n > 0 {
		h.segments = append([]*part{out}, h.segments[n:]...)
	}
	s := f.Stats()
	o.Latest, o.Log, o.Aborted = m.Latest(), out.log, out.aborted
	o.Counts = counts{index.Stats().MessagesRead, s.MessagesRead, s.BytesRead, s.MessagesKept, s.BytesKept, s.Invalid}
}

func (h *history) index(t *testing.T, x *compaction.Indexer, m *compaction.OffsetMap, r round) {
	for _, p := range h.segments {
		if p.next <= r.firstDirty {
			continue
		}
		full := false
		each(t, p.log, func(v batch.View) bool {
			var err error
			if full, err = x.Batch(v); err != nil {
				t.Fatal(err)
			}
			return !full
		})
		if full {
			return
		}
		m.Reach(p.next - 1)
	}
}

// each calls fn with each batch of a log until it returns false.
func each(t *testing.T, log []byte, fn func(batch.View) bool) {
	for len(log) > 0 {
		v, rest, err := batch.Next(log)
		if err != nil {
			t.Fatal(err)
		}
		if !fn(v) {
			return
		}
		log = rest
	}
}

// put writes a case: count of segments; of each base, end, log, transactions that overlap it;
// first dirty offset i64, keys i32, now, retention and high watermark i64; transactions that
// overlap the dirty part; producers. Counts and lengths are i32.
func put(w *bytes.Buffer, h *history, x round) {
	number(w, int32(len(h.segments)))
	for _, p := range h.segments {
		number(w, p.base, p.next, int32(len(p.log)))
		w.Write(p.log)
		putAborted(w, h.abortedIn(p.base, p.next))
	}
	number(w, x.firstDirty, int32(x.keys), x.nowMs, x.retentionMs, x.hw)
	putAborted(w, h.abortedIn(x.firstDirty, h.end))
	number(w, int32(len(x.producers)))
	for id, p := range x.producers {
		number(w, id, p.LastDataOffset, p.Epoch)
	}
}

func putAborted(w *bytes.Buffer, txns []segment.AbortedTxn) {
	number(w, int32(len(txns)), txns)
}

func number(w *bytes.Buffer, values ...any) {
	for _, v := range values {
		if err := binary.Write(w, binary.BigEndian, v); err != nil {
			panic(err) // not a number
		}
	}
}

// kafka has Clean.java do it.
func kafka(t *testing.T, n int, cases []byte) []outcome {
	_, here, _, _ := runtime.Caller(0)
	cmd, err := java.Command(filepath.Join(filepath.Dir(here), "Clean.java"), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	count := binary.BigEndian.AppendUint32(nil, uint32(n))
	cmd.Stdin, cmd.Stderr = io.MultiReader(bytes.NewReader(count), bytes.NewReader(cases)), &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	r := bufio.NewReader(bytes.NewReader(out))
	results := make([]outcome, n)
	for i := range results {
		read(t, r, &results[i])
	}
	return results
}

// read is the other side of Clean.write.
func read(t *testing.T, r io.Reader, o *outcome) {
	get := func(into any) {
		if err := binary.Read(r, binary.BigEndian, into); err != nil {
			t.Fatal(err)
		}
	}
	var n int32
	get(&o.Latest)
	get(&n)
	o.Log = make([]byte, n)
	get(o.Log)
	get(&n)
	o.Aborted = make([]segment.AbortedTxn, n)
	get(o.Aborted)
	get(&o.Counts)
}
