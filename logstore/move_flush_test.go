package logstore

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/countfs"
	"github.com/klamm-mq/klamm/logstore/vfs/errfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
)

// TestRoundsLeaveCopiesOut: a group commit syncs nothing of what was copied, whether or not that
// was flushed; Flush syncs it, and the names of its files only where there are new ones.
func TestRoundsLeaveCopiesOut(t *testing.T) {
	var synced []string
	fs := hookfs.Wrap(vfs.NewMem(), true, func(c *hookfs.Call) error {
		if c.Op == hookfs.Sync || c.Op == hookfs.SyncDir {
			_, name, _ := strings.Cut(c.Name, "/b/")
			dir, file, _ := strings.Cut(name, "/")
			topic, _, _ := strings.Cut(dir, ".")
			synced = append(synced, strings.TrimSuffix(topic+"/"+file, "/"))
		}
		return nil
	})
	a, _ := openAt(t, fs, "/a", 1)
	b, _ := openAt(t, fs, "/b", 2)
	l, other := mustCreate(t, a, testID("t", 0), smallSegments()), mustCreate(t, b, testID("other", 0), DefaultConfig())
	for i := range 12 {
		mustAppend(t, l, epochTime, 1, fmt.Sprint("value ", i))
	}
	m := mustBegin(t, b, l)
	mustAppend(t, other, epochTime, 1, "a")
	b.Flush() // with the files of the new log, and the names of both
	copyPiece := func() {
		if n, err := m.Copy(epochTime, 100); err != nil || n == 0 {
			t.Fatal(n, err)
		}
		mustAppend(t, other, epochTime, 1, "a")
	}
	copyToRoll := func() {
		for had := m.Future().NumSegments(); m.Future().NumSegments() == had; {
			copyPiece()
		}
	}
	for i, step := range []struct {
		before func()
		do     func()
		synced string
	}{
		{copyPiece, func() { b.Flush() }, "[other-0/00000000000000000000.log]"},
		{func() {}, func() { must(t, m.Flush(true)) }, "[t-0/00000000000000000000.log t-0/partition.metadata t-0 ]"},
		{copyPiece, func() { must(t, m.Flush(true)) }, "[t-0/00000000000000000000.log]"},
		{func() {}, func() { b.Flush() }, "[other-0/00000000000000000000.log]"},
		{copyPiece, func() { must(t, m.Flush(false)) }, "[t-0/00000000000000000000.log]"},
		{copyToRoll, func() { b.Flush() }, "[other-0/00000000000000000000.log]"},
		{func() {}, func() { must(t, m.Flush(true)) }, "[t-0/00000000000000000000.log t-0/00000000000000000006.log t-0/partition.metadata t-0 ]"},
	} {
		step.before()
		synced = nil
		if step.do(); fmt.Sprint(synced) != step.synced {
			t.Errorf("step %d: synced %q, want %s", i, synced, step.synced)
		}
	}
	copyAll(t, m)
	must(t, m.Flush(true))
	if m.Future().NumSegments() < 2 || int64(m.Future().Flushed()) != int64(l.LogEnd()) {
		t.Errorf("%d segments, flushed to %d", m.Future().NumSegments(), m.Future().Flushed())
	}
}

// TestCopyReadBudget: a copy reads each byte of its original once, and but a window for each piece
// to find where it begins; to know what is left it reads nothing.
func TestCopyReadBudget(t *testing.T) {
	const size, piece, window = 1 << 20, 64 << 10, 8 << 10
	fs, rest := countfs.Wrap(vfs.NewMem()), vfs.NewMem()
	a, _ := openAt(t, fs, "/a", 1)
	b, _ := openAt(t, rest, "/b", 2)
	l := mustCreate(t, a, testID("t", 0), DefaultConfig())
	for l.SizeBytes() < size {
		mustAppend(t, l, epochTime, 1, strings.Repeat("v", 5000))
	}
	m := mustBegin(t, b, l)
	fs.Reset()
	pieces, left := 0, int(l.SizeBytes())
	for ; m.Lag() > 0; pieces++ {
		n, err := m.Copy(epochTime, piece)
		must(t, err)
		if n > piece {
			t.Errorf("a piece of %d bytes", n)
		}
		left -= n
		reads := fs.Of(hookfs.Read)
		if got := m.TailBytes(); got != left {
			t.Errorf("%d bytes are left, not %d", got, left)
		}
		if fs.Of(hookfs.Read) != reads {
			t.Error("it reads to know how much is left")
		}
		must(t, m.Flush(true))
	}
	reads, most := fs.Of(hookfs.Read), int64(size+pieces*(5200+2*window)) // batches that are cut short are read again
	t.Logf("%d pieces, %d reads of %d bytes", pieces, reads.Calls, reads.Bytes)
	if reads.Calls > 3*pieces || reads.Bytes > most {
		t.Errorf("%d pieces: %d reads of %d bytes, budget %d of %d", pieces, reads.Calls, reads.Bytes, 3*pieces, most)
	}
}

// TestSyncOfACopyIsNotRepeated, nor that of a log that is truncated, also if it was for lack of room that it failed: what was to be
// written may be lost, and the next sync would not say so.
func TestSyncOfACopyIsNotRepeated(t *testing.T) {
	for name, sync := range map[string]func(m *Move) error{
		"Flush":  func(m *Move) error { return m.Flush(false) },
		"Settle": func(m *Move) error { return m.Settle(epochTime) },
		"TruncateTo": func(m *Move) error {
			return m.Future().TruncateTo(int64(m.Future().LogEnd()) - 1)
		},
	} {
		for _, kind := range []string{"ENOSPC", "EIO"} {
			faults := errfs.Wrap(vfs.NewMem())
			a, _ := openAt(t, faults, "/a", 1)
			b, _ := openAt(t, faults, "/b", 2)
			l := mustCreate(t, a, testID("t", 0), smallSegments())
			for range 2 {
				mustAppend(t, l, epochTime, 1, "value")
			}
			m := mustBegin(t, b, l)
			copyAll(t, m)
			faults.Add("sync /b/*/*.log err=" + kind)
			err := sync(m)
			faults.Clear()
			if !errors.Is(err, ErrDirOffline) || MayPass(err) || b.Err() == nil || faults.Fired() == 0 {
				t.Errorf("%s, %s: %v, the directory says %v", name, kind, err, b.Err())
			}
		}
	}
}
