package logstore

import (
	"strings"
	"testing"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/errfs"
)

// TestFailedRollLeavesNoSegment: a roll that fails half way leaves no file behind. The
// next batch may be small enough for the old segment; the log would then run past an empty
// segment in its middle, which a start takes for the loss of what is missing there.
func TestFailedRollLeavesNoSegment(t *testing.T) {
	for _, rule := range []string{
		"open *2.log nth=1 err=ENOSPC",
		"open *2.index nth=1 err=ENOSPC",
		"open *2.timeindex nth=1 err=ENOSPC",
		"open *2.index nth=1 err=EMFILE",
		"open *0.index nth=1 err=EMFILE", // of the segment that is given up for writing
		"open *.snapshot nth=1 err=EMFILE",
		"write *.snapshot nth=1 err=ENOSPC",
	} {
		t.Run(rule, func(t *testing.T) {
			mem := vfs.NewMem()
			faulty := errfs.Wrap(mem)
			c := DefaultConfig()
			c.SegmentBytes, c.IndexIntervalBytes = 300, 1
			d, _ := mustOpen(t, testOptions(faulty), epochTime, c)
			l := mustCreate(t, d, testID("t", 0), c)
			mustAppend(t, l, epochTime, 1, "a")
			mustAppend(t, l, epochTime, 1, "b")
			d.Flush()
			faulty.Add(rule)
			large := produced(epochTime, strings.Repeat("x", 200))
			info, err := l.AppendAsLeader(AppendParams{Now: epochTime, Records: large, LeaderEpoch: 1, RequestVersion: 9})
			if faulty.Fired() != 1 {
				t.Fatalf("fired %d times: %+v %v", faulty.Fired(), info, err)
			}
			faulty.Clear()
			d.checkSpace()
			for range 2 {
				mustAppend(t, l, epochTime, 1, "c")
			}
			end := l.LogEnd()
			if err := d.captureRecoveryPoints(epochTime, d.Logs()); err != nil {
				t.Fatal(err)
			}
			d.Flush()
			l.settleRecoveryPoint()
			if err := d.checkpointPromises(); err != nil {
				t.Fatal(err)
			}
			d.Abandon() // killed

			d, report := mustOpen(t, testOptions(mem), epochTime, c)
			defer d.Abandon()
			if len(report.Failed) > 0 || report.Opened[0].LogEnd() != end {
				t.Fatalf("after a restart: %+v", report)
			}
			for i, s := range report.Opened[0].segments() {
				if s.Size() == 0 && i < report.Opened[0].NumSegments()-1 {
					t.Errorf("segment %d of %d is empty", i+1, report.Opened[0].NumSegments())
				}
			}
		})
	}
}
