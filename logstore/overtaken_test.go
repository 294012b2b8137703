package logstore

import (
	"strings"
	"testing"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
)

// TestLookUpOvertakenByRetention: a segment goes while somebody looks into it. That is no
// reason to send its clients away (NOT_LEADER_OR_FOLLOWER): what is left has an answer.
func TestLookUpOvertakenByRetention(t *testing.T) {
	for name, lookUp := range map[string]func(l *Log) (int64, error){
		"timestamp": func(l *Log) (int64, error) {
			at, _, err := l.OffsetForTimestamp(epochTime.UnixMilli())
			return at.Offset, err
		},
		"largest timestamp": func(l *Log) (int64, error) {
			at, _, err := l.OffsetOfMaxTimestamp()
			return at.Offset, err
		},
		"aborted transactions": func(l *Log) (int64, error) {
			_, err := l.AbortedTransactions(0, 7)
			return 3, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			c := threeInASegment()
			d, _ := mustOpen(t, testOptions(fs), epochTime, c)
			l := mustCreate(t, d, testID("t", 0), c)
			for sequence := range int32(7) {
				sequenced(t, l, sequence)
				d.Flush()
			}
			if err := d.Close(epochTime, 1); err != nil {
				t.Fatal(err)
			}
			var retain func()
			hooked := hookfs.Wrap(fs, true, func(call *hookfs.Call) error {
				if strings.HasSuffix(call.Name, "00000000000000000000.timeindex") && call.Op == hookfs.Open && retain != nil {
					once := retain
					retain = nil
					once()
				}
				return nil
			})
			d, report := mustOpen(t, testOptions(hooked), epochTime, c)
			defer d.Abandon()
			l = report.Opened[0]
			retain = func() {
				if err := l.AdvanceLogStart(3); err != nil {
					t.Error(err)
				}
				if deleted, err := l.Retain(epochTime, 7); err != nil || len(deleted) != 1 {
					t.Errorf("deleted %+v, %v", deleted, err)
				}
			}
			if at, err := lookUp(l); err != nil || at != 3 {
				t.Errorf("offset %d, %v; want 3", at, err)
			}
		})
	}
}
