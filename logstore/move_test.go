package logstore

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/errfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// openAt opens a directory of a test that has two.
func openAt(t testing.TB, fs vfs.FS, path string, seed uint64) (*Dir, OpenReport) {
	t.Helper()
	o := testOptions(fs)
	o.Path, o.Rand = path, &stream{seed: seed}
	return mustOpen(t, o, epochTime, smallSegments())
}

func smallSegments() Config {
	c := DefaultConfig()
	c.SegmentBytes = 500
	return c
}

func mustBegin(t testing.TB, to *Dir, l *Log) *Move {
	t.Helper()
	m, err := to.BeginMove(epochTime, l)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// copyAll copies until nothing is missing.
func copyAll(t testing.TB, m *Move) {
	t.Helper()
	for range 1000 {
		if _, err := m.Copy(epochTime, 200); err != nil {
			t.Fatal(err)
		}
		if m.Lag() == 0 {
			return
		}
	}
	t.Fatalf("the copy ends at %d, the log at %d", m.Future().LogEnd(), m.From().LogEnd())
}

// same compares two logs batch by batch.
func same(t testing.TB, a, b *Log) {
	t.Helper()
	if a.LogStart() != b.LogStart() || a.LogEnd() != b.LogEnd() {
		t.Fatalf("[%d, %d) and [%d, %d)", a.LogStart(), a.LogEnd(), b.LogStart(), b.LogEnd())
	}
	if !slices.Equal(a.epochs.Entries(), b.epochs.Entries()) {
		t.Errorf("epochs %v and %v", a.epochs.Entries(), b.epochs.Entries())
	}
	var all [2]string
	for i, l := range []*Log{a, b} {
		views, err := readAll(l, int64(l.LogStart()), int64(l.LogEnd()), math.MaxInt32)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range views {
			all[i] += string(v)
		}
	}
	if all[0] != all[1] {
		t.Error("the batches differ")
	}
}

// TestCopyFollowsItsOriginal whatever becomes of that while it is copied.
func TestCopyFollowsItsOriginal(t *testing.T) {
	do := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		change func(t *testing.T, l *Log)
	}{
		{"truncated", func(t *testing.T, l *Log) { do(t, l.TruncateTo(9)) }},
		{"truncated and written in the same epoch", func(t *testing.T, l *Log) {
			do(t, l.TruncateTo(9))
			mustAppend(t, l, epochTime, 2, "other")
		}},
		{"truncated and longer in later epochs", func(t *testing.T, l *Log) {
			do(t, l.TruncateTo(3)) // also what was of epoch 2
			for i := range 20 {
				mustAppend(t, l, epochTime, int32(3+i/10), fmt.Sprint("other ", i))
			}
		}},
		{"truncated wholly", func(t *testing.T, l *Log) {
			do(t, l.TruncateTo(0))
			mustAppend(t, l, epochTime, 5, "other")
		}},
		{"begun anew above", func(t *testing.T, l *Log) {
			do(t, l.TruncateFullyAndStartAt(100))
			mustAppend(t, l, epochTime, 5, "other")
		}},
		{"begun anew below", func(t *testing.T, l *Log) {
			do(t, l.TruncateFullyAndStartAt(4))
			mustAppend(t, l, epochTime, 5, "other")
		}},
		{"records deleted", func(t *testing.T, l *Log) { do(t, l.AdvanceLogStart(7)) }},
		{"all records deleted", func(t *testing.T, l *Log) { do(t, l.AdvanceLogStart(int64(l.LogEnd()))) }},
		{"an epoch without records", func(t *testing.T, l *Log) { do(t, l.AssignEpoch(7, int64(l.LogEnd()))) }},
		{"another configuration", func(_ *testing.T, l *Log) { l.UpdateConfig(DefaultConfig()) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := vfs.NewMem()
			a, _ := openAt(t, fs, "/a", 1)
			b, _ := openAt(t, fs, "/b", 2)
			l := mustCreate(t, a, testID("t", 0), smallSegments())
			for i := range 12 {
				mustAppend(t, l, epochTime, int32(1+i/6), fmt.Sprint("value ", i), "and more")
			}
			m := mustBegin(t, b, l)
			copyAll(t, m)
			c.change(t, l)
			copyAll(t, m)
			moved, err := m.Finish(epochTime, 0)
			do(t, err)
			same(t, l, moved)
			if got, want := moved.Config(), l.Config(); got != want {
				t.Errorf("configuration %+v, want %+v", got, want)
			}
			do(t, m.Leave(epochTime))
			mustAppend(t, moved, epochTime, 9, "on")
		})
	}
}

// TestMoveMeetsFaults: with each call that a move makes on either disk failing in turn, the
// log is in use at the end, whole, in the new directory or the old.
func TestMoveMeetsFaults(t *testing.T) {
	for _, dir := range []string{"/a", "/b"} {
		for _, kind := range []string{"ENOSPC", "EMFILE", "EIO"} {
			t.Run(dir[1:]+" "+kind, func(t *testing.T) {
				calls, moved := moveWithFault(t, dir, "stat /nowhere")
				if !moved {
					t.Fatal("nothing fails, and the log does not move")
				}
				stays := 0
				for nth := range calls {
					if _, moved := moveWithFault(t, dir, fmt.Sprintf("any dir=%s err=%s nth=%d", dir, kind, nth+1)); !moved {
						stays++
					}
				}
				t.Logf("%d of %d faults kept the log from moving", stays, calls)
			})
		}
	}
}

// moveWithFault moves a log with one fault, and again if that failed. It tells how many calls
// were made in a directory, and whether the log has moved.
func moveWithFault(t *testing.T, dir, rule string) (calls int, moved bool) {
	t.Helper()
	faults := errfs.Wrap(hookfs.Wrap(vfs.NewMem(), true, func(c *hookfs.Call) error {
		if strings.HasPrefix(c.Name, dir) {
			calls++
		}
		return nil
	}))
	a, _ := openAt(t, faults, "/a", 1)
	b, _ := openAt(t, faults, "/b", 2)
	l := mustCreate(t, a, testID("t", 0), smallSegments())
	for i := range 12 {
		mustAppend(t, l, epochTime, 1, fmt.Sprint("value ", i))
	}
	a.Flush()
	calls = 0
	faults.Add(rule)
	log, err := moveOnce(b, l)
	for range 3 {
		if err == nil || b.Err() != nil || a.Err() != nil || l.Failure() != nil {
			break
		}
		b.checkSpace()
		log, err = moveOnce(b, l)
	}
	faults.Clear()
	switch {
	case err == nil && b.Err() == nil:
		l, moved = log, true
	case a.Err() != nil || l.Failure() != nil:
		return calls, false // the disk has failed before the log could leave it
	case b.Err() == nil:
		t.Errorf("%s: both disks work, and the log does not move: %v", rule, err)
	}
	a.checkSpace()
	b.checkSpace()
	mustAppend(t, l, epochTime, 1, "value 12")
	views, err := readAll(l, 0, int64(l.LogEnd()), 1<<20)
	if err != nil || len(views) != 13 {
		t.Errorf("%s: %d batches in %s, %v", rule, len(views), l.Path(), err)
	}
	return calls, moved
}

func moveOnce(to *Dir, l *Log) (*Log, error) {
	m, err := to.BeginMove(epochTime, l)
	if err != nil {
		return nil, err
	}
	for m.Lag() > 0 {
		if _, err := m.Copy(epochTime, 300); err != nil {
			return nil, err
		}
		if err := m.Flush(true); err != nil {
			return nil, err
		}
	}
	if err := m.Settle(epochTime); err != nil {
		return nil, err
	}
	moved, err := m.Finish(epochTime, 0)
	if err != nil {
		return nil, err
	}
	if err := m.Leave(epochTime); err != nil && l.Dir().Err() == nil && !MayPass(err) {
		return nil, fmt.Errorf("leave: %w", err)
	}
	return moved, nil
}

// TestUselessCopies are thrown away by a start: one that cannot be opened, one beside the log
// itself, a second one. How far it was flushed stays known, as of a log that was here before.
func TestUselessCopies(t *testing.T) {
	fs := vfs.NewMem()
	a, _ := openAt(t, fs, "/a", 1)
	b, _ := openAt(t, fs, "/b", 2)
	for _, topic := range []string{"good", "bad", "twice"} {
		l := mustCreate(t, a, testID(topic, 0), smallSegments())
		mustAppend(t, l, epochTime, 1, "value")
		copyAll(t, mustBegin(t, b, l))
	}
	mustBear(t, b, testID("whole", 0), smallSegments())
	if err := b.Close(epochTime, 1); err != nil {
		t.Fatal(err)
	}
	const unique = ".00112233445566778899aabbccddeeff-future"
	for _, name := range []string{"/b/whole-0", "/b/twice-0"} {
		if err := fs.MkdirAll(name+unique, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b, _ = openAt(t, fs, "/b", 3) // notices which of the two says whose it is
	if got := futuresOf(b); got != "bad-0 good-0 twice-0" {
		t.Fatalf("copies %s", got)
	}
	bad := b.Futures()[0].Path() + "/00000000000000000000.log"
	if err := b.Close(epochTime, 1); err != nil {
		t.Fatal(err)
	}
	if err := fs.Remove(bad); err != nil {
		t.Fatal(err)
	}
	if err := fs.Remove("/b/.kafka_cleanshutdown"); err != nil {
		t.Fatal(err)
	}
	b, report := openAt(t, fs, "/b", 4)
	if got := futuresOf(b); got != "good-0 twice-0" || len(report.Failed) != 1 || report.Failed[0].ID.TopicID != testID("bad", 0).TopicID || len(report.Opened) != 1 {
		t.Errorf("copies %s, %d logs, failed %v", got, len(report.Opened), report.Failed)
	}
	b.removeRetired(epochTime.AddDate(1, 0, 0))
	entries, err := fs.ReadDir("/b")
	if err != nil {
		t.Fatal(err)
	}
	dirs := 0
	for _, e := range entries {
		if e.IsDir() {
			dirs++
		}
	}
	if dirs != 3 {
		t.Errorf("%d directories are left, want a log and two copies", dirs)
	}
}

func futuresOf(d *Dir) string {
	var names []string
	for _, l := range d.Futures() {
		names = append(names, l.ID().String())
	}
	return strings.Join(names, " ")
}

// TestNameOfACopy: what does not fit into 255 bytes cannot be moved (KAFKA-4893).
func TestNameOfACopy(t *testing.T) {
	fs := vfs.NewMem()
	a, _ := openAt(t, fs, "/a", 1)
	b, _ := openAt(t, fs, "/b", 2)
	for n, fits := range map[int]bool{213: true, 214: false} {
		id := testID(strings.Repeat("x", n), 0)
		l := mustCreate(t, a, id, smallSegments())
		_, err := b.BeginMove(epochTime, l)
		if HasFutureName(id.Topic, 0) != fits || (err == nil) != fits || !fits && !errors.Is(err, kafkaerr.InvalidTopic) {
			t.Errorf("a topic name of %d bytes: %v", n, err)
		}
	}
}

// TestTheBetterLog of two of one partition.
func TestTheBetterLog(t *testing.T) {
	fs := vfs.NewMem()
	a, _ := openAt(t, fs, "/a", 1)
	b, _ := openAt(t, fs, "/b", 2)
	written := func(d *Dir, topic string, epochs ...int32) *Log {
		l := mustCreate(t, d, testID(topic, 0), smallSegments())
		for _, e := range epochs {
			mustAppend(t, l, epochTime, e, "value")
		}
		return l
	}
	for i, c := range []struct {
		a, b     []int32
		order    int
		contains bool // a has all of b
	}{
		{nil, nil, 0, true},
		{[]int32{1}, nil, 1, true},
		{[]int32{1, 1}, []int32{1, 1}, 0, true},
		{[]int32{1, 1, 1}, []int32{1, 1}, 1, true},
		{[]int32{1, 2}, []int32{1, 1, 1}, 1, false},
		{[]int32{1, 1, 1, 2}, []int32{1, 1, 1}, 1, true},
		{[]int32{3}, []int32{1}, 1, false},
	} {
		topic := fmt.Sprint("t", i)
		x, y := written(a, topic, c.a...), written(b, topic, c.b...)
		if got, back := x.Outdoes(y), y.Outdoes(x); got != c.order || back != -c.order {
			t.Errorf("%v and %v: %d and %d, want %d", c.a, c.b, got, back, c.order)
		}
		if got := x.Contains(y); got != c.contains {
			t.Errorf("%v contains %v: %v", c.a, c.b, got)
		}
	}
}
