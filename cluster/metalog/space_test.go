package metalog

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// meter is a disk whose free space a test sets; giving up the ballast adds its size.
type meter struct {
	free    atomic.Int64
	disk    vfs.FS
	reserve Reserve
}

func newMeter(disk vfs.FS) *meter {
	m := &meter{disk: disk, reserve: Reserve{KeepFree: 1000, Floor: 100, Ballast: 500}}
	m.free.Store(1 << 20)
	return m
}

func (m *meter) space() (vfs.Space, error) {
	free := m.free.Load()
	if m.hasBallast() {
		free -= int64(m.reserve.Ballast)
	}
	return vfs.Space{TotalBytes: 1 << 30, AvailBytes: uint64(max(free, 0))}, nil
}

func (m *meter) hasBallast() bool {
	info, err := m.disk.Stat("/metadata/ballast")
	return err == nil && info.Size() == int64(m.reserve.Ballast)
}

// withBallast sets the free space as it is while the ballast lies there.
func (m *meter) withBallast(free int64) { m.free.Store(free + int64(m.reserve.Ballast)) }

func (m *meter) options(t *testing.T, fatal chan error) Options {
	o := alone(t, m.disk)
	o.Reserve, o.Space = m.reserve, m.space
	o.Fatal = func(err error) { fatal <- err }
	return o
}

// §6, "Metadata on a full disk", from plenty to nothing and back.
func TestDiskFillsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeter(vfs.NewMem())
		fatal := make(chan error, 1)
		o := m.options(t, fatal)
		l, term := lead(t, o)
		synctest.Wait()
		if !m.hasBallast() {
			t.Fatal("no ballast on an empty disk")
		}

		// Less than the reserve: the ballast goes, and with it there is room again.
		m.withBallast(600)
		if err := create(l, term, "a"); err != nil {
			t.Fatalf("with the ballast given up: %v", err)
		}
		if m.hasBallast() {
			t.Fatal("the ballast is still there")
		}

		// Still less: proposals are refused, the leadership stays, and so does what a
		// leader needs.
		m.free.Store(999)
		if err := create(l, term, "b"); !errors.Is(err, ErrFull) || !errors.Is(err, kafkaerr.KafkaStorageError) || errors.Is(err, kafkaerr.NotController) {
			t.Errorf("below the reserve: %v", err)
		}
		if _, err := l.Barrier(context.Background(), term); err != nil {
			t.Errorf("barrier below the reserve: %v", err)
		}
		mustClose(t, l)
		l, term = lead(t, o)
		if err := create(l, term, "c"); !errors.Is(err, ErrFull) {
			t.Errorf("below the reserve after a restart: %v", err)
		}

		// Room comes back: no ballast yet, then plenty and a ballast.
		m.free.Store(1100)
		if err := create(l, term, "d"); !errors.Is(err, ErrFull) {
			t.Errorf("with hardly more than the reserve: %v", err)
		}
		m.free.Store(1300)
		if err := create(l, term, "d"); err != nil {
			t.Errorf("with room again: %v", err)
		}
		m.free.Store(2499)
		if err := create(l, term, "e"); err != nil || settled(m) {
			t.Errorf("ballast below twice the reserve, or %v", err)
		}
		m.free.Store(2500)
		if err := create(l, term, "f"); err != nil || !settled(m) {
			t.Errorf("no ballast above twice the reserve, or %v", err)
		}
		if got := strings.Join(topics(l.Image()), " "); got != "a d e f" {
			t.Errorf("topics %s", got)
		}

		// No room for a vote: a proposal is refused, and since all outcomes are known nothing
		// has to be written after it.
		m.free.Store(99)
		if err := create(l, term, "g"); !errors.Is(err, ErrFull) {
			t.Errorf("below the floor: %v", err)
		}
		if _, err := l.Barrier(context.Background(), term); err != nil {
			t.Errorf("barrier below the floor that has nothing to find out: %v", err)
		}

		// Something has to be written all the same: the end, with the reason.
		m.free.Store(2500)
		loseSight(t, l, term)
		m.free.Store(99)
		if _, err := l.Barrier(context.Background(), term); !errors.Is(err, kafkaerr.NotController) {
			t.Errorf("barrier below the floor: %v", err)
		}
		if err := <-fatal; !strings.Contains(err.Error(), "99 bytes free, 100 needed") || !strings.Contains(err.Error(), "/metadata") {
			t.Errorf("fatal: %v", err)
		}
		mustClose(t, l)
		if l, err := Open(o); err == nil || !strings.Contains(err.Error(), "99 bytes free, 100 needed") {
			t.Errorf("opened without room for a vote: %v", err)
			mustClose(t, l)
		}
		m.free.Store(1 << 20)
		l, _ = lead(t, o)
		mustClose(t, l)
	})
}

// loseSight makes a proposal whose outcome nobody waits for, so that a barrier has to find
// out.
func loseSight(t *testing.T, l *Log, term Term) {
	t.Helper()
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	for unseen := false; !unseen; {
		p, err := l.Start(context.Background(), term, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Wait(gone)
		unseen = errors.Is(err, kafkaerr.NotController) // else it was decided before anybody looked
		<-p.Done()
	}
}

// settled waits for what the log does beside, and tells whether the ballast is there.
func settled(m *meter) bool {
	synctest.Wait()
	return m.hasBallast()
}

var errBlind = errors.New("stale handle")

// blindOptions are of a log that cannot read its free space while fails is set.
func blindOptions(t *testing.T, fails *atomic.Bool, fatal chan error) Options {
	m := newMeter(vfs.NewMem())
	o := m.options(t, fatal)
	o.Space = func() (vfs.Space, error) {
		if fails.Load() {
			return vfs.Space{}, errBlind
		}
		return m.space()
	}
	return o
}

// Nobody can read how full the disk is: then nothing is written to it.
func TestFreeSpaceIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		fatal := make(chan error, 1)
		l, term := lead(t, blindOptions(t, &fails, fatal))
		loseSight(t, l, term)
		fails.Store(true)
		if err := create(l, term, "a"); !errors.Is(err, errBlind) {
			t.Errorf("proposal: %v", err)
		}
		if _, err := l.Barrier(context.Background(), term); !errors.Is(err, kafkaerr.NotController) {
			t.Errorf("barrier: %v", err)
		}
		if err := <-fatal; !errors.Is(err, errBlind) {
			t.Errorf("fatal: %v", err)
		}
		mustClose(t, l)
	})
}

// TestNothingIsTriedForEverOnADiskThatCannotBeSeen: the barrier of a new cluster proposes
// before anything has to be written; a node that only refused that tried again without end.
func TestNothingIsTriedForEverOnADiskThatCannotBeSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		fatal := make(chan error, 1)
		l, term := lead(t, blindOptions(t, &fails, fatal))
		fails.Store(true)
		if err := create(l, term, "a"); !errors.Is(err, errBlind) || !errors.Is(err, kafkaerr.NotController) {
			t.Errorf("proposal: %v", err)
		}
		if err := <-fatal; !errors.Is(err, errBlind) {
			t.Errorf("fatal: %v", err)
		}
		mustClose(t, l)
	})
}

// A follower whose disk is full stays behind and votes; the others go on, and when it has
// room again it catches up.
func TestFollowerOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.close()
		lead := c.leader()
		lead.mustPropose("before")
		full, other := c.followers()[0], c.followers()[1]
		c.eventually("the follower has it", func() bool { return full.has("before") })
		full.full.Store(true)
		for _, name := range []string{"a", "b", "c"} {
			lead.mustPropose(name)
		}
		c.eventually("the other follower has them", func() bool { return other.has("c") })
		if full.has("a") {
			t.Error("the full follower stored an entry")
		}

		// Its vote still counts: without the old leader the other one needs it. Nothing can be
		// committed, since that takes two disks with room.
		c.net.Isolate(lead.host())
		c.eventually("the other follower leads", func() bool { return other.log.raft.State() == raft.Leader })
		<-time.After(time.Second)
		if other.log.raft.State() != raft.Leader || other.ready.Load() != 0 {
			t.Errorf("the new leader is %v and passed its barrier in term %d", other.log.raft.State(), other.ready.Load())
		}
		if err := full.log.failure(); err != nil {
			t.Errorf("the full follower gave up: %v", err)
		}
		full.full.Store(false)
		if next := c.leader(lead); next != other || !next.has("c") {
			t.Errorf("node %d leads, with %v", next.id, topics(next.log.Image()))
		}
		c.net.Rejoin(lead.host())
		c.leader().mustPropose("after")
		c.wantConverged()
	})
}

// A full follower refuses to delete a conflicting suffix, too, until it can store what
// belongs there: Raft would otherwise go on with a last entry that it no longer has.
func TestConflictingSuffixOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.close()
		old := c.leader()
		old.mustPropose("before")
		c.wantConverged()
		c.net.Isolate(old.host())
		for _, name := range []string{"x", "y", "z"} {
			if _, err := old.log.Start(context.Background(), old.ready.Load(), newTopic(name)); err != nil {
				t.Fatal(err)
			}
		}
		next := c.leader(old)
		next.mustPropose("a")
		old.full.Store(true)
		c.net.Rejoin(old.host())
		<-time.After(2 * time.Second)
		if old.has("a") || old.has("x") {
			t.Errorf("the full node has %v", topics(old.log.Image()))
		}
		next.mustPropose("b")
		old.full.Store(false)
		c.wantConverged()
		if old.has("x") || !old.has("b") {
			t.Errorf("the node has %v", topics(old.log.Image()))
		}
	})
}
