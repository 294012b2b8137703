package logstore

import (
	"math/rand/v2"
	"testing"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/errfs"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/offset"
)

// powerCuts is how often the names of files are lost in a new mixture.
const powerCuts = 40

// sequenced sends one batch of one record, whose offset in an untouched log is its sequence.
func sequenced(t *testing.T, l *Log, sequence int32) AppendInfo {
	t.Helper()
	records := producedBy(&batch.Producer{ID: 5, BaseSequence: sequence}, epochTime, "some value")
	info, err := l.AppendAsLeader(AppendParams{Now: epochTime, Records: records, LeaderEpoch: 1, RequestVersion: 9})
	if err != nil {
		t.Fatalf("sequence %d: %v", sequence, err)
	}
	return info
}

func threeInASegment() Config {
	c := DefaultConfig()
	c.SegmentBytes = 300
	return c
}

// TestFirstSegmentWaitsForItsName: a log that is filled faster than its first round begins
// no second segment, whose name a power cut could leave without that of the first. Its
// producers would be strangers, and their retries out of order for ever.
func TestFirstSegmentWaitsForItsName(t *testing.T) {
	for seed := range uint64(powerCuts) {
		crash := vfs.NewCrash(rand.NewPCG(seed, 1))
		d, _ := mustOpen(t, testOptions(crash.Process()), epochTime, threeInASegment())
		l := mustCreate(t, d, testID("t", 0), threeInASegment())
		for sequence := range int32(5) {
			sequenced(t, l, sequence)
		}
		crash.PowerCut()
		d.Abandon()

		d, report := mustOpen(t, testOptions(crash.Process()), epochTime, threeInASegment())
		if len(report.Opened) == 1 {
			l = report.Opened[0]
			if l.LogStart() != 0 {
				t.Errorf("seed %d: the log begins at %d", seed, l.LogStart())
			} else {
				sequenced(t, l, 0) // a duplicate, or the first again
			}
		}
		d.Abandon()
		if t.Failed() {
			return
		}
	}
}

// TestFirstSegmentWaitsNoLonger: it is the first round that ends it, which is due at once
// also where appends want none by themselves.
func TestFirstSegmentWaitsNoLonger(t *testing.T) {
	for _, durability := range []Durability{DurabilityFsync, DurabilityReplicated} {
		c := threeInASegment()
		c.Durability = durability
		d, _ := mustOpen(t, testOptions(vfs.NewMem()), epochTime, c)
		l := mustCreate(t, d, testID("t", 0), c)
		wanted := false
		for sequence := range int32(4) {
			wanted = sequenced(t, l, sequence).FlushWanted
		}
		round := d.BeginFlush()
		sequenced(t, l, 4)
		if l.NumSegments() != 1 || !wanted {
			t.Errorf("durability %v: %d segments before the end of the first round, wanted %v", durability, l.NumSegments(), wanted)
		}
		round.Finish(round.Sync())
		sequenced(t, l, 5)
		if l.NumSegments() != 2 {
			t.Errorf("durability %v: %d segments after it", durability, l.NumSegments())
		}
		d.Abandon()
	}
}

// TestFirstSegmentGetsItsNameBeforeItIsFull: appends that come one after the other, and wait
// for nothing, find the name synced when the segment is full.
func TestFirstSegmentGetsItsNameBeforeItIsFull(t *testing.T) {
	c := threeInASegment()
	c.Durability = DurabilityReplicated
	d, _ := mustOpen(t, testOptions(vfs.NewMem()), epochTime, c)
	defer d.Abandon()
	l := mustCreate(t, d, testID("t", 0), c)
	if !sequenced(t, l, 0).FlushWanted {
		t.Error("a third of the first segment is full, and no round is wanted")
	}
	d.Flush()
	for sequence := range int32(3) {
		if info := sequenced(t, l, 1+sequence); info.FlushWanted != (sequence == 2) {
			t.Errorf("sequence %d: flush wanted %v", 1+sequence, info.FlushWanted)
		}
	}
	if l.NumSegments() != 2 {
		t.Errorf("%d segments", l.NumSegments())
	}
}

// TestRetentionLeavesADurableBeginning: the round that made the first segment deletable may
// have begun before the next ones had names. The one that becomes the first must have its
// name, and the snapshot of the producers whose records go, before anything is removed.
func TestRetentionLeavesADurableBeginning(t *testing.T) {
	c := threeInASegment()
	c.RetentionBytes = 0
	for seed := range uint64(powerCuts) {
		crash := vfs.NewCrash(rand.NewPCG(seed, 1))
		d, _ := mustOpen(t, testOptions(crash.Process()), epochTime, c)
		l := mustCreate(t, d, testID("t", 0), c)
		for sequence := range int32(3) {
			sequenced(t, l, sequence)
		}
		d.Flush()
		for sequence := range int32(4) {
			sequenced(t, l, 3+sequence)
		}
		if deleted, err := l.Retain(epochTime, offset.HighWatermark(l.Flushed())); err != nil || len(deleted) != 1 || l.NumSegments() != 2 {
			t.Fatalf("deleted %+v, %v; %d segments", deleted, err, l.NumSegments())
		}
		crash.PowerCut()
		d.Abandon()

		d, report := mustOpen(t, testOptions(crash.Process()), epochTime, c)
		if len(report.Opened) != 1 || report.Opened[0].LogStart() != 3 {
			t.Fatalf("seed %d: %+v", seed, report)
		}
		if info := sequenced(t, report.Opened[0], 2); !info.Duplicate || info.FirstOffset != 2 {
			t.Errorf("seed %d: an acknowledged batch is sent again: %+v", seed, info)
		}
		d.Abandon()
		if t.Failed() {
			return
		}
	}
}

// TestRetentionWithoutDescriptors: what cannot be removed now goes with the next retention,
// and not with the next start only.
func TestRetentionWithoutDescriptors(t *testing.T) {
	c := threeInASegment()
	c.RetentionBytes = 1
	for _, rule := range []string{"syncdir /data/t-0 err=EMFILE", "open *.tmp err=EMFILE", "open *.snapshot err=EMFILE"} {
		t.Run(rule, func(t *testing.T) {
			fs := vfs.NewMem()
			faulty := errfs.Wrap(fs)
			d, _ := mustOpen(t, testOptions(faulty), epochTime, c)
			defer d.Abandon()
			l := mustCreate(t, d, testID("t", 0), c)
			for sequence := range int32(7) {
				sequenced(t, l, sequence)
				d.Flush()
			}
			faulty.Add(rule)
			if deleted, err := l.Retain(epochTime, 7); !MayPass(err) || len(deleted) > 0 || l.NumSegments() != 3 {
				t.Fatalf("deleted %+v, %v; %d segments are left", deleted, err, l.NumSegments())
			}
			faulty.Clear()
			if deleted, err := l.Retain(epochTime, 7); err != nil || len(deleted) != 2 || l.LogStart() != 6 {
				t.Errorf("deleted %+v, %v; log start %d", deleted, err, l.LogStart())
			}
			if _, err := fs.Stat(l.file("00000000000000000003.log")); err == nil {
				t.Error("a file is left")
			}
		})
	}
}

// TestLogStartComesAfterItsProducers: the power fails when the new log start is durable, and
// nothing else has happened yet. What the start after it does not find at the log start, it
// does not look for below.
func TestLogStartComesAfterItsProducers(t *testing.T) {
	crash := vfs.NewCrash(rand.NewPCG(1, 1))
	c := threeInASegment()
	c.RetentionBytes = 0
	d, _ := mustOpen(t, testOptions(crash.Process()), epochTime, c)
	l := mustCreate(t, d, testID("t", 0), c)
	for sequence := range int32(4) {
		sequenced(t, l, sequence)
		d.Flush()
	}
	cut := false
	crash.OnSync(func(p vfs.SyncPoint) error {
		if p.Done && p.Name == d.o.Path && !cut {
			cut = true
			crash.PowerCutLosingAll()
		}
		return nil
	})
	if deleted, err := l.Retain(epochTime, 3); !cut || err == nil {
		t.Fatalf("power cut %v: deleted %+v, %v", cut, deleted, err)
	}
	crash.OnSync(nil)
	d.Abandon()
	d, report := mustOpen(t, testOptions(crash.Process()), epochTime, c)
	defer d.Abandon()
	if len(report.Opened) != 1 || report.Opened[0].LogStart() != 3 {
		t.Fatalf("%+v", report)
	}
	if info := sequenced(t, report.Opened[0], 2); !info.Duplicate || info.FirstOffset != 2 {
		t.Errorf("an acknowledged batch is sent again: %+v", info)
	}
}

// TestRetentionWritesTheSnapshotThatIsMissing: a crash has torn that of a roll. The start
// after it found the producers in the batches before, which retention is about to remove.
func TestRetentionWritesTheSnapshotThatIsMissing(t *testing.T) {
	crash := vfs.NewCrash(rand.NewPCG(1, 1))
	c := threeInASegment()
	c.RetentionBytes = 0
	d, _ := mustOpen(t, testOptions(crash.Process()), epochTime, c)
	l := mustCreate(t, d, testID("t", 0), c)
	for sequence := range int32(4) {
		sequenced(t, l, sequence)
		d.Flush()
	}
	d.Abandon()
	removeSnapshots(t, crash.Process(), l.Path())
	d, report := mustOpen(t, testOptions(crash.Process()), epochTime, c)
	l = report.Opened[0]
	if info := sequenced(t, l, 3); !info.Duplicate {
		t.Fatalf("%+v", info)
	}
	if deleted, err := l.Retain(epochTime, 3); err != nil || len(deleted) != 1 || l.LogStart() != 3 {
		t.Fatalf("deleted %+v, %v; log start %d", deleted, err, l.LogStart())
	}
	crash.PowerCutLosingAll()
	d.Abandon()
	d, report = mustOpen(t, testOptions(crash.Process()), epochTime, c)
	defer d.Abandon()
	if info := sequenced(t, report.Opened[0], 2); !info.Duplicate || info.FirstOffset != 2 {
		t.Errorf("an acknowledged batch is sent again: %+v", info)
	}
}
