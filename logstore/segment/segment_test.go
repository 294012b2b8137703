package segment

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/errfs"
	"github.com/klamm-mq/klamm/protocol/batch"
)

func TestFileNames(t *testing.T) {
	if got := FileName(4711, TimeIndexSuffix); got != "00000000000000004711.timeindex" {
		t.Error(got)
	}
	for name, want := range map[string]string{
		"00000000000000004711.log":         LogSuffix,
		"00000000000000004711.index":       IndexSuffix,
		"00000000000000004711.timeindex":   TimeIndexSuffix,
		"00000000000000004711.txnindex":    TxnIndexSuffix,
		"00000000000000004711.snapshot":    "",
		"00000000000000004711.log.deleted": "",
		"00000000000000004711.":            "",
		"00000000000000004711":             "",
		"0000000000000004711.log":          "",
		"-0000000000000004711.log":         "",
		"99999999999999999999.log":         "",
		"leader-epoch-checkpoint":          "",
	} {
		base, suffix, ok := ParseFileName(name)
		if ok != (want != "") || ok && (base != 4711 || suffix != want) {
			t.Errorf("%s: %d %q %v", name, base, suffix, ok)
		}
	}
}

func TestCreate(t *testing.T) {
	o := testOptions(vfs.NewMem())
	s := mustCreate(t, o, 7)
	for _, suffix := range []string{LogSuffix, IndexSuffix, TimeIndexSuffix} {
		if _, err := o.FS.Stat(s.path(suffix)); err != nil {
			t.Error(err)
		}
	}
	if _, err := Create(testDir, 7, testNow, o); !errors.Is(err, fs.ErrExist) {
		t.Errorf("create over an existing log: %v", err)
	}
	if _, err := Open(testDir, 8, testNow, o); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open of a missing log: %v", err)
	}
	if err := s.Delete(); err != nil {
		t.Fatal(err)
	}
	if entries, err := o.FS.ReadDir(testDir); err != nil || len(entries) != 0 {
		t.Errorf("after delete: %v, %v", entries, err)
	}
	if err := s.Delete(); err != nil {
		t.Errorf("second delete: %v", err)
	}
}

// TestIndexesOfADeletedSegmentStayAway: who moves recovery points works beside retention.
func TestIndexesOfADeletedSegmentStayAway(t *testing.T) {
	o := testOptions(vfs.NewMem())
	s := mustCreate(t, o, 0)
	mustAppend(t, s, testBatch(0, 1, 300, 0), testBatch(1, 1, 300, 0))
	b, err := s.BeginIndexSync()
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, s, testBatch(2, 1, 300, 0), testBatch(3, 1, 300, 0))
	if err := s.Delete(); err != nil {
		t.Fatal(err)
	}
	b.Finish(nil)
	if _, err := s.BeginIndexSync(); !errors.Is(err, ErrClosed) {
		t.Errorf("sync of a deleted segment: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("close of a deleted segment: %v", err)
	}
	if entries, err := o.FS.ReadDir(testDir); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

// TestOrphanIndexIsEmptied: what a deletion that was cut short has left of an older
// segment is not taken for this one's.
func TestOrphanIndexIsEmptied(t *testing.T) {
	o := testOptions(vfs.NewMem())
	s := mustCreate(t, o, 0)
	for i := range int64(10) {
		mustAppend(t, s, testBatch(i, 1, 100, i))
	}
	if err := s.AppendAbortedTxn(AbortedTxn{1, 0, 5, 6}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := o.FS.Remove(s.path(LogSuffix)); err != nil {
		t.Fatal(err)
	}
	s = mustCreate(t, o, 0)
	if txns, _, err := s.AbortedTxns(0, 100); len(txns) > 0 || err != nil {
		t.Errorf("%v, %v", txns, err)
	}
	for _, suffix := range []string{IndexSuffix, TimeIndexSuffix} {
		if info, err := o.FS.Stat(s.path(suffix)); err != nil || info.Size() != 0 {
			t.Errorf("%s: %v", suffix, err)
		}
	}
}

// TestOffsetOverflow: an index entry holds offsets up to 2^31-1 above the base.
func TestOffsetOverflow(t *testing.T) {
	s := mustCreate(t, testOptions(vfs.NewMem()), 10)
	if err := s.Append(testNow, testBatch(10+1<<31-1, 2, 10, 0)); !errors.Is(err, ErrOffsetOverflow) {
		t.Errorf("append beyond: %v", err)
	}
	if s.Unflushed() {
		t.Error("a refused append has made the file unflushed")
	}
	mustAppend(t, s, testBatch(10+1<<31-2, 2, 10, 0))
	if b, found, err := s.Lookup(11); !found || err != nil || b.BaseOffset != 10+1<<31-2 {
		t.Errorf("%+v %v %v", b, found, err)
	}
}

func TestSetDirFollowsARename(t *testing.T) {
	o := testOptions(vfs.NewMem())
	s := mustCreate(t, o, 0)
	mustAppend(t, s, testBatch(0, 1, 500, 0), testBatch(1, 1, 500, 0))
	if err := o.FS.Rename(testDir, "/d/t-0.x-delete"); err != nil {
		t.Fatal(err)
	}
	s.SetDir("/d/t-0.x-delete")
	if got, want := s.Path(), "/d/t-0.x-delete/00000000000000000000.log"; got != want {
		t.Errorf("path %s, want %s", got, want)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open("/d/t-0.x-delete", 0, testNow, o)
	if err != nil {
		t.Fatal(err)
	}
	if got := describe(mustRead(t, s, 0)); got != "[0..0][1..1]" {
		t.Error(got)
	}
}

// TestReadOnlyWritesNothing: tools look into the files of others.
func TestReadOnlyWritesNothing(t *testing.T) {
	dir := t.TempDir()
	o := testOptions(vfs.OS())
	s, err := Create(dir, 0, testNow, o)
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, s, testBatch(0, 1, 500, 0), testBatch(1, 1, 500, 0))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(s.path(IndexSuffix)); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(s.path(TimeIndexSuffix), 3); err != nil {
		t.Fatal(err)
	}
	readOnly := *o
	readOnly.ReadOnly = true
	if s, err = Open(dir, 0, testNow, &readOnly); err != nil {
		t.Fatal(err)
	}
	if got := describe(mustRead(t, s, 1)); got != "[1..1]" {
		t.Error(got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
	if info, err := os.Stat(filepath.Join(dir, FileName(0, TimeIndexSuffix))); err != nil || info.Size() != 3 {
		t.Errorf("%v", err)
	}
}

// TestLargeBatch: a batch larger than what is read at a time is checked piece by piece,
// and believed only then.
func TestLargeBatch(t *testing.T) {
	o := testOptions(vfs.NewMem())
	s := mustCreate(t, o, 0)
	large := testBatch(1, 3, 3*chunkSize+5000, 10)
	mustAppend(t, s, testBatch(0, 1, 10, 0), large, testBatch(4, 1, 10, 20))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, o, 0)
	var seen []batch.View
	r, err := s.Recover(RecoverParams{OnBatch: func(v batch.View, _ int64) error {
		seen = append(seen, bytes.Clone(v))
		return nil
	}})
	if err != nil || r.Damage != nil || len(seen) != 3 || !bytes.Equal(seen[1], large) {
		t.Fatalf("%+v, %v, %d batches", r, err, len(seen))
	}
	if ts, found, err := s.OffsetForTimestamp(12, 0); ts.Offset != 3 || !found || err != nil {
		t.Errorf("%+v %v %v", ts, found, err)
	}
	if got := mustRead(t, s, 2); !bytes.Equal(got[:len(large)], large) {
		t.Error("the large batch reads differently")
	}

	flipByte(t, o.FS, s.Path(), int64(len(seen[0])+2*chunkSize))
	s = mustOpen(t, o, 0)
	r, err = s.Recover(RecoverParams{})
	if err != nil || r.Damage == nil || r.Damage.Pos != int64(len(seen[0])) || r.NextOffset != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

func flipByte(t *testing.T, fsys vfs.FS, name string, pos int64) {
	t.Helper()
	data, err := vfs.ReadFile(fsys, name)
	if err != nil {
		t.Fatal(err)
	}
	data[pos] ^= 1
	writeFile(t, fsys, name, data)
}

// TestColdExtents: which bytes a read has to check.
func TestColdExtents(t *testing.T) {
	c := coldBytes{end: 1000}
	steps := []struct {
		add  extent
		want []extent
	}{
		{extent{100, 200}, []extent{{100, 200}}},
		{extent{300, 400}, []extent{{100, 200}, {300, 400}}},
		{extent{0, 50}, []extent{{0, 50}, {100, 200}, {300, 400}}},
		{extent{200, 250}, []extent{{0, 50}, {100, 250}, {300, 400}}},
		{extent{240, 320}, []extent{{0, 50}, {100, 400}}},
		{extent{60, 60}, []extent{{0, 50}, {100, 400}}},
		{extent{50, 100}, []extent{{0, 400}}},
	}
	for _, step := range steps {
		c.add(step.add)
		if diff := cmp.Diff(step.want, c.verified, cmp.AllowUnexported(extent{})); diff != "" {
			t.Fatalf("after %v:\n%s", step.add, diff)
		}
	}
	c.verified = []extent{{100, 200}, {300, 400}}
	for _, g := range []struct {
		from, to int64
		want     extent
		cold     bool
	}{
		{0, 50, extent{0, 50}, true},
		{0, 150, extent{0, 100}, true},
		{0, 1000, extent{0, 100}, true},
		{100, 200, extent{}, false},
		{150, 200, extent{}, false},
		{150, 350, extent{200, 300}, true},
		{350, 5000, extent{400, 1000}, true},
		{1000, 5000, extent{}, false},
	} {
		if got, cold := c.gap(g.from, g.to); cold != g.cold || cold && got != g.want {
			t.Errorf("gap in %d..%d: %v %v, want %v %v", g.from, g.to, got, cold, g.want, g.cold)
		}
	}
	c.cut(350)
	if diff := cmp.Diff([]extent{{100, 200}, {300, 350}}, c.verified, cmp.AllowUnexported(extent{})); diff != "" || c.end != 350 {
		t.Errorf("after a cut at 350: end %d\n%s", c.end, diff)
	}
	for i := range int64(maxExtents + 3) {
		c.add(extent{1000 * i, 1000*i + 10 + i})
	}
	if len(c.verified) != maxExtents {
		t.Errorf("%d extents, want %d", len(c.verified), maxExtents)
	}
}

// TestHeaderBounds: what a header may say.
func TestHeaderBounds(t *testing.T) {
	good := testBatch(100, 3, 30, 0)
	b := bounds{file: "f", pos: 10, end: 10 + int64(len(good)), base: 90, nextOffset: 100}
	if c := b.check(good); c != nil {
		t.Fatal(c)
	}
	change := func(fn func(batch.View)) []byte {
		v := bytes.Clone(good)
		fn(v)
		return v
	}
	for want, header := range map[string][]byte{
		"batch of 60 bytes is shorter than a header":                  change(func(v batch.View) { v[11] = 48 }),
		"batch of -2147483536 bytes is shorter than a header":         change(func(v batch.View) { v[8] = 0x80 }),
		"batch has magic 1, want 2":                                   change(func(v batch.View) { v[16] = 1 }),
		"batch of 113 bytes reaches beyond the end at 122":            change(func(v batch.View) { v[11]++ }),
		"offset 99 follows 99":                                        change(func(v batch.View) { v.SetBaseOffset(99) }),
		"last offset 2147483739 does not fit base offset 2147483737":  change(func(v batch.View) { v.SetBaseOffset(90 + 1<<31 - 1) }),
		"last offset 98 does not fit base offset 100":                 change(func(v batch.View) { copy(v[23:], []byte{0xff, 0xff, 0xff, 0xfe}) }),
		"last offset -9223372036854775807 does not fit base offset 9": change(func(v batch.View) { v.SetBaseOffset(1<<63 - 1) }),
	} {
		c := b.check(header)
		if c == nil || !bytes.HasPrefix([]byte(c.Reason), []byte(want)) || c.Pos != 10 || c.File != "f" {
			t.Errorf("%v, want %s", c, want)
		}
	}
}

// TestErrorsOfTheDiskAreNotDamage: a read that fails says nothing about the bytes.
func TestErrorsOfTheDiskAreNotDamage(t *testing.T) {
	fsys := errfs.Wrap(vfs.NewMem())
	o := testOptions(fsys)
	s := mustCreate(t, o, 0)
	for i := range int64(5) {
		mustAppend(t, s, testBatch(i, 1, 100, i))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	calls := map[string]func(*Segment) error{
		"NextOffset":         func(s *Segment) error { _, err := s.NextOffset(); return err },
		"MaxTimestamp":       func(s *Segment) error { _, err := s.MaxTimestamp(); return err },
		"FirstTimestamp":     func(s *Segment) error { _, _, err := s.FirstTimestamp(); return err },
		"Lookup":             func(s *Segment) error { _, _, err := s.Lookup(2); return err },
		"OffsetForTimestamp": func(s *Segment) error { _, _, err := s.OffsetForTimestamp(2, 0); return err },
		"UpperBoundOffset":   func(s *Segment) error { _, _, err := s.UpperBoundOffset(0, 1); return err },
		"Read":               func(s *Segment) error { _, err := s.Read(ReadParams{MaxPos: 500, MaxBytes: 500}); return err },
		"ForEachBatch":       func(s *Segment) error { return s.ForEachBatch(0, 10, func(batch.View, int64) error { return nil }) },
		"TruncateTo":         func(s *Segment) error { _, err := s.TruncateTo(testNow, 2); return err },
		"Recover":            func(s *Segment) error { _, err := s.Recover(RecoverParams{}); return err },
		"Recover in part":    func(s *Segment) error { _, err := s.Recover(RecoverParams{FromOffset: 3}); return err },
		"Append":             func(s *Segment) error { return s.Append(testNow, testBatch(5, 1, 10, 0)) },
		"Seal":               func(s *Segment) error { return s.Seal() },
		"ShouldRoll":         func(s *Segment) error { _, err := s.ShouldRoll(RollParams{SegmentBytes: 1 << 20}); return err },
	}
	for name, call := range calls {
		for _, rule := range []string{"read *.log", "open *.log err=EMFILE"} {
			s := mustOpen(t, o, 0)
			fsys.Add(rule)
			err := call(s)
			fsys.Clear()
			if err == nil || isCorrupt(err) {
				t.Errorf("%s with %q: %v", name, rule, err)
			}
			if got := describe(mustRead(t, s, 0)); got != "[0..0][1..1][2..2][3..3][4..4]" {
				t.Errorf("after %s with %q: %s", name, rule, got)
			}
			s.Abandon()
		}
	}
	if n := o.Pool.OpenFiles(); n != 0 {
		t.Errorf("%d files are still open", n)
	}
}

// TestSyncIndexesAgain: a sync that failed is owed.
func TestSyncIndexesAgain(t *testing.T) {
	fsys := errfs.Wrap(vfs.NewMem())
	s := mustCreate(t, testOptions(fsys), 0)
	mustAppend(t, s, testBatch(0, 1, 300, 0), testBatch(1, 1, 300, 0))
	for _, rule := range []string{"open *.timeindex", "write *.index", "truncate *.index", "sync *.timeindex", "sync *.index"} {
		fsys.Add(rule)
		err := s.SyncIndexes()
		if rule == "truncate *.index" {
			if err != nil {
				t.Errorf("%s: %v, although nothing was taken away", rule, err)
			}
		} else if err == nil {
			t.Errorf("%s: no error", rule)
		}
		fsys.Clear()
		mustAppend(t, s, testBatch(2+s.Size(), 1, 300, s.Size()))
	}
	if err := s.SyncIndexes(); err != nil {
		t.Fatal(err)
	}
	b, err := s.BeginIndexSync()
	if err != nil || len(b.Files()) != 0 {
		t.Errorf("%d files to sync after a sync, %v", len(b.Files()), err)
	}
	b.Finish(nil)
}

// TestFailedIndexSyncIsOwed: also where nothing has changed since.
func TestFailedIndexSyncIsOwed(t *testing.T) {
	s := mustCreate(t, testOptions(vfs.NewMem()), 0)
	mustAppend(t, s, testBatch(0, 1, 300, 0), testBatch(1, 1, 300, 0))
	for _, result := range []error{errors.New("failed"), nil} {
		b, err := s.BeginIndexSync()
		if err != nil || len(b.Files()) == 0 {
			t.Fatalf("%d files to sync, %v", len(b.Files()), err)
		}
		b.Finish(result)
	}
}
