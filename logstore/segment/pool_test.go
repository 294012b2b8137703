package segment

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"unsafe"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/countfs"
	"github.com/klamm-mq/klamm/logstore/vfs/errfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
	"github.com/prometheus/client_golang/prometheus"
)

// manySegments returns n closed segments of one batch each.
func manySegments(t *testing.T, o *Options, n int) []*Segment {
	t.Helper()
	segments := make([]*Segment, n)
	for i := range segments {
		base := int64(i) * 10
		s := mustCreate(t, o, base)
		mustAppend(t, s, testBatch(base, 1, 100, 1000))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		segments[i] = mustOpen(t, o, base)
	}
	return segments
}

func TestPoolKeepsWhatWasUsedLast(t *testing.T) {
	fs := countfs.Wrap(vfs.NewMem())
	o := testOptions(fs)
	registry := prometheus.NewPedanticRegistry()
	o.Pool = NewFilePool(PoolOptions{MaxOpenFiles: 3, Registerer: registry})
	segments := manySegments(t, o, 5)
	for _, s := range segments {
		mustRead(t, s, s.BaseOffset())
	}
	if got := o.Pool.OpenFiles(); got != 3 {
		t.Errorf("%d files open, want 3", got)
	}
	fs.Reset()
	for _, s := range segments[2:] {
		mustRead(t, s, s.BaseOffset())
	}
	if n := fs.Of(hookfs.Open).Calls; n != 0 {
		t.Errorf("%d files opened again", n)
	}
	mustRead(t, segments[0], 0)
	if n := fs.Of(hookfs.Open).Calls; n != 1 {
		t.Errorf("%d files opened, want 1: the log, since the indexes are in memory", n)
	}
	values := gather(t, registry)
	if values["klamm_segment_evictions_total"] != 3 || values["klamm_segment_files_open"] != 3 || values["klamm_segment_files_limit"] != 3 || len(values) != 5 {
		t.Errorf("metrics %v", values)
	}
}

// TestPoolNeverOpensMoreThanItMay: files with unflushed bytes cannot be given up, so at the
// bound an append to yet another segment is refused as if the process had no descriptor
// left; after a flush it goes through.
func TestPoolNeverOpensMoreThanItMay(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.Pool = NewFilePool(PoolOptions{MaxOpenFiles: 1, MaxFiles: 3})
	segments := make([]*Segment, 4)
	for i := range segments {
		segments[i] = mustCreate(t, o, int64(i)*10)
	}
	for _, s := range segments[:3] {
		mustAppend(t, s, testBatch(s.BaseOffset(), 1, 100, 1000))
	}
	last := segments[3]
	batch := testBatch(last.BaseOffset(), 1, 100, 1000)
	if err := last.Append(testNow, batch); !errors.Is(err, syscall.EMFILE) || last.Unflushed() || o.Pool.OpenFiles() != 3 {
		t.Errorf("append beyond the bound: %v, unflushed %v, %d files open", err, last.Unflushed(), o.Pool.OpenFiles())
	}
	f, err := segments[0].BeginFlush()
	if err != nil {
		t.Fatal(err)
	}
	f.Finish(f.File().Sync())
	mustAppend(t, last, batch)
	if got := o.Pool.OpenFiles(); got != 3 {
		t.Errorf("%d files open, want 3", got)
	}
}

// TestFileThatCannotBeOpenedNeedsNoFlush: an append that failed to open its file has
// changed nothing, so that no flush has to open it either.
func TestFileThatCannotBeOpenedNeedsNoFlush(t *testing.T) {
	faulty := errfs.Wrap(vfs.NewMem())
	o := testOptions(faulty)
	s := mustCreate(t, o, 0)
	faulty.Add("open *.log err=EMFILE")
	if err := s.Append(testNow, testBatch(0, 1, 100, 1000)); !errors.Is(err, syscall.EMFILE) || s.Unflushed() {
		t.Errorf("append: %v, unflushed %v", err, s.Unflushed())
	}
}

func gather(t *testing.T, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		m := f.GetMetric()[0]
		values[f.GetName()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
	}
	return values
}

// TestUnflushedFileStaysOpen: the error of a failed write-back is only reported to
// descriptors that were open when it happened.
func TestUnflushedFileStaysOpen(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.Pool = NewFilePool(PoolOptions{MaxOpenFiles: 1})
	segments := manySegments(t, o, 4)
	for _, s := range segments[:3] {
		mustAppend(t, s, testBatch(s.BaseOffset()+1, 1, 10, 0))
	}
	mustRead(t, segments[3], 30)
	if got := o.Pool.OpenFiles(); got != 3 {
		t.Fatalf("%d files open, want the 3 unflushed ones", got)
	}
	f, err := segments[0].BeginFlush()
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, segments[0], testBatch(2, 1, 10, 0))
	f.Finish(f.File().Sync())
	if !segments[0].Unflushed() {
		t.Error("flushed, although an append came after the flush began")
	}
	f, err = segments[1].BeginFlush()
	if err != nil {
		t.Fatal(err)
	}
	f.Finish(fmt.Errorf("no luck"))
	if !segments[1].Unflushed() {
		t.Error("flushed, although the sync failed")
	}
	for _, s := range segments {
		if err := flushSome(s); err != nil {
			t.Fatal(err)
		}
	}
	if got := o.Pool.OpenFiles(); got != 1 {
		t.Errorf("%d files open after all are flushed, want 1", got)
	}
}

// TestFlushDuringAWrite: a flush that begins while bytes are on their way into the file
// does not cover them, even if nothing else happens until its sync is done.
func TestFlushDuringAWrite(t *testing.T) {
	var s *Segment
	var flush *Flush
	armed := false
	fsys := hookfs.Wrap(vfs.NewMem(), false, func(c *hookfs.Call) error {
		if !armed || c.Op != hookfs.Write {
			return nil
		}
		armed = false
		var err error
		flush, err = s.BeginFlush()
		return err
	})
	s = mustCreate(t, testOptions(fsys), 0)
	armed = true
	mustAppend(t, s, testBatch(0, 1, 10, 0))
	if flush == nil {
		t.Fatal("no flush began during the write")
	}
	flush.Finish(flush.File().Sync())
	if !s.Unflushed() {
		t.Error("the file counts as flushed")
	}
	if err := flushSome(s); err != nil || s.Unflushed() {
		t.Errorf("after another flush: %v, unflushed %v", err, s.Unflushed())
	}
}

func TestIndexMemoryIsBounded(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.IndexIntervalBytes = 0
	o.Pool = NewFilePool(PoolOptions{MaxIndexBytes: 1000})
	for i := range 5 {
		base := int64(i) * 1000
		s := mustCreate(t, o, base)
		for j := range int64(20) {
			mustAppend(t, s, testBatch(base+j, 1, 10, j))
		}
		if err := s.Seal(); err != nil {
			t.Fatal(err)
		}
		if err := flushSome(s); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Lookup(base); err != nil {
			t.Fatal(err)
		}
		if got := o.Pool.IndexBytes(); got == 0 || got > 1000 {
			t.Errorf("%d bytes of indexes after %d segments", got, i+1)
		}
	}
}

// TestIdleSegmentIsSmall: partitions have many segments, of which few are used.
func TestIdleSegmentIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(Segment{}); size > 700 {
		t.Errorf("a segment takes %d bytes", size)
	}
	fs := countfs.Wrap(vfs.NewMem())
	o := testOptions(fs)
	manySegments(t, o, 1)
	fs.Reset()
	s := mustOpen(t, o, 0)
	if got := fs.String(); got != "stat=1" {
		t.Errorf("opening takes %s, want one stat", got)
	}
	if s.Size() == 0 || s.LastModified().IsZero() {
		t.Error("size and time are not known after opening")
	}
}
