package segment

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// TestFlushedSurvivesPowerCut is the promise of this package to those who acknowledge:
// what a Flush has covered is there after a power cut, and recovery finds the rest to be
// a prefix of what was appended, whatever the disk kept of it.
//
// A life appends, flushes, syncs indexes and truncates at random and ends at a random
// sync point by a kill or a power cut. The next one recovers from the recovery point, as
// a start does.
func TestFlushedSurvivesPowerCut(t *testing.T) {
	for seed := range uint64(300) {
		w := &crashWorld{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1))}
		w.fs = vfs.NewCrash(rand.NewPCG(seed, 2))
		if seed%2 == 0 {
			w.fs.SetPageSize(64) // tears batches and index entries
		}
		w.run()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

type crashWorld struct {
	t    *testing.T
	seed uint64
	rng  *rand.Rand
	fs   *vfs.CrashFS
	s    *Segment

	batches []batch.View // appended and not truncated
	// What a caller keeps durably: everything below flushed survives, and everything
	// below recoveryPoint including its index entries. Both are lowered before a
	// truncation.
	flushed, recoveryPoint int64
}

func (w *crashWorld) run() {
	o := testOptions(w.fs.Process())
	if err := o.FS.MkdirAll(testDir, 0o755); err != nil {
		w.t.Fatal(err)
	}
	w.s = mustCreate(w.t, o, 0)
	if err := o.FS.SyncDir(testDir); err != nil {
		w.t.Fatal(err)
	}
	if err := o.FS.SyncDir("/d"); err != nil {
		w.t.Fatal(err)
	}
	if err := o.FS.SyncDir("/"); err != nil {
		w.t.Fatal(err)
	}
	for range 4 {
		w.live()
		w.die()
		w.restart()
		if w.t.Failed() {
			return
		}
	}
}

func (w *crashWorld) end() int64 {
	if n := len(w.batches); n > 0 {
		return w.batches[n-1].NextOffset()
	}
	return 0
}

func (w *crashWorld) live() {
	for range 1 + w.rng.IntN(40) {
		switch w.rng.IntN(10) {
		case 0, 1, 2, 3, 4:
			v := testBatch(w.end(), 1+w.rng.IntN(3), 10+w.rng.IntN(400), w.rng.Int64N(5000))
			if w.seed%3 == 0 {
				w.writeAhead(len(v))
			}
			mustAppend(w.t, w.s, v)
			w.batches = append(w.batches, v)
		case 5, 6, 7:
			w.flush()
		case 8:
			w.moveRecoveryPoint()
		case 9:
			w.truncate()
		}
	}
}

func (w *crashWorld) writeAhead(n int) {
	block := 64 << (w.seed / 3 % 8)
	if _, err := w.s.WriteAhead(AheadParams{Now: testNow, AppendBytes: n, BlockBytes: block}); err != nil {
		w.t.Fatal(err)
	}
	if w.rng.IntN(20) == 0 {
		if err := w.s.DropTail(); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *crashWorld) flush() {
	end := w.end()
	f, err := w.s.BeginFlush()
	if err != nil {
		w.t.Fatal(err)
	}
	if f != nil {
		if err := f.File().Sync(); err != nil {
			w.t.Fatal(err)
		}
		f.Finish(nil)
	}
	w.flushed = end
}

func (w *crashWorld) moveRecoveryPoint() {
	w.flush()
	if err := w.s.SyncIndexes(); err != nil {
		w.t.Fatal(err)
	}
	w.recoveryPoint = w.flushed
}

func (w *crashWorld) truncate() {
	i := w.rng.IntN(len(w.batches) + 1)
	if i == len(w.batches) {
		return
	}
	o := w.batches[i].BaseOffset()
	w.flushed, w.recoveryPoint = min(w.flushed, o), min(w.recoveryPoint, o)
	if _, err := w.s.TruncateTo(testNow, o); err != nil {
		w.t.Fatal(err)
	}
	w.batches = w.batches[:i]
}

func (w *crashWorld) die() {
	switch w.rng.IntN(4) {
	case 0:
		w.fs.Kill()
	case 1:
		w.fs.Writeback()
		w.fs.PowerCutLosingAll()
	case 2:
		w.fs.PowerCutLosingAll()
	default:
		w.fs.PowerCut()
	}
	if w.rng.IntN(4) == 0 {
		w.fs.PowerCut() // after a kill it still takes what was not synced
	}
	w.s.Abandon()
}

func (w *crashWorld) restart() {
	o := testOptions(w.fs.Process())
	w.s = mustOpen(w.t, o, 0)
	var found []byte
	r, err := w.s.Recover(RecoverParams{FromOffset: w.recoveryPoint, OnBatch: func(v batch.View, _ int64) error {
		found = append(found, v...)
		return nil
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	if r.NextOffset < w.flushed {
		w.t.Errorf("recovered to %d, but %d was flushed: %v", r.NextOffset, w.flushed, r.Damage)
		return
	}
	if err := w.s.DropTail(); err != nil {
		w.t.Fatal(err)
	}
	w.keep(r.NextOffset, found)
	w.flush()
}

// keep compares what was found with what was appended. After a truncation that did not
// reach the disk, what was cut off may be back; it is whole batches all the same.
func (w *crashWorld) keep(next int64, found []byte) {
	for len(found) > 0 {
		v, rest, err := batch.Next(found)
		if err != nil {
			w.t.Fatal(err)
		}
		if v.NextOffset() <= w.flushed && !bytes.Contains(joined(w.batches), v) {
			w.t.Errorf("batch %d..%d is not the one that was flushed", v.BaseOffset(), v.LastOffset())
		}
		found = rest
	}
	w.batches = nil
	err := w.s.ForEachBatch(0, maxOffset, func(v batch.View, _ int64) error {
		w.batches = append(w.batches, bytes.Clone(v))
		return nil
	})
	if err != nil {
		w.t.Errorf("walk after recovery: %v", err)
	}
	if w.end() != next {
		w.t.Errorf("the log ends at %d, recovery said %d", w.end(), next)
	}
	w.checkIndexes()
}

// checkIndexes compares the indexes with those that the log alone gives.
func (w *crashWorld) checkIndexes() {
	fresh := emptyContent(0)
	pos := int64(0)
	for _, v := range w.batches {
		fresh.note(v, pos, 0, w.s.opts.IndexIntervalBytes)
		pos += int64(len(v))
	}
	fresh.noteLastTime(0)
	c := &w.s.content
	if !bytes.Equal(c.offsets.raw, fresh.offsets.raw) {
		w.t.Errorf("offset index %x, want %x", c.offsets.raw, fresh.offsets.raw)
	}
	if c.max.TimestampMs != fresh.max.TimestampMs || c.max.Offset != fresh.max.Offset {
		w.t.Errorf("max timestamp %+v, want %+v", c.max, fresh.max)
	}
	for i := range c.times.len() {
		ms, relative := c.times.entry(i)
		if !timeEntryFits(w.batches, ms, relative) {
			w.t.Errorf("time index entry %d@%d fits no batch", ms, relative)
		}
	}
}

// timeEntryFits: the batch with that last offset has that timestamp, and none before it
// has a larger one.
func timeEntryFits(batches []batch.View, ms, last int64) bool {
	for _, v := range batches {
		if v.LastOffset() == last {
			return v.MaxTimestamp() == ms
		}
		if v.MaxTimestamp() >= ms {
			return false
		}
	}
	return false
}
