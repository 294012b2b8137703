package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// txnLog is a log with transactions that reach over segments: four of them, three aborted.
//
//	segment 0   1: begins   2: begins   1: aborts
//	segment 3   2: goes on  3: begins   2: aborts   3: aborts
//	segment 7   1: begins   1: commits
func txnLog(t *testing.T, d *Dir) *Log {
	t.Helper()
	l := mustCreate(t, d, testID("t", 0), DefaultConfig())
	for i, step := range []string{"1", "2", "1a", "|", "2", "3", "2a", "3a", "|", "1", "1c"} {
		if step == "|" {
			if err := l.Roll(epochTime); err != nil {
				t.Fatal(err)
			}
			continue
		}
		pid := int64(step[0] - '0')
		var v batch.View
		switch step[1:] {
		case "":
			v = batch.New(batch.BuilderOptions{
				Producer: &batch.Producer{ID: pid, BaseSequence: int32(i)}, Transactional: true, LeaderEpoch: 1,
			}, batch.NewRecord{TimestampMs: epochTime.UnixMilli(), Value: []byte(step)})
		default:
			kind := map[string]batch.ControlType{"a": batch.ControlAbort, "c": batch.ControlCommit}[step[1:]]
			v = batch.NewEndTxnMarker(epochTime.UnixMilli(), pid, 0, batch.EndTxnMarker{Type: kind})
			v.SetLeaderEpoch(1)
		}
		v.SetBaseOffset(int64(l.LogEnd()))
		if _, err := l.AppendAsFollower(epochTime, v, 1); err != nil {
			t.Fatal(err)
		}
	}
	d.Flush()
	return l
}

// txnDamages are what may have become of a transaction index.
var txnDamages = map[string]func(raw []byte) []byte{
	"cut":          func(raw []byte) []byte { return raw[:len(raw)-7] },
	"zeros":        func(raw []byte) []byte { return make([]byte, len(raw)) },
	"zeros behind": func(raw []byte) []byte { return append(raw, make([]byte, 34)...) },
	"version":      func(raw []byte) []byte { raw[1] = 9; return raw },
	"above the end": func(raw []byte) []byte {
		binary.BigEndian.PutUint64(raw[len(raw)-16:], 1<<40)
		return raw
	},
}

func damageFile(t *testing.T, fs vfs.FS, name string, damage func([]byte) []byte) {
	t.Helper()
	raw, err := vfs.ReadFile(fs, name)
	if err != nil || len(raw) == 0 {
		t.Fatalf("%d bytes, %v", len(raw), err)
	}
	f, err := fs.OpenFile(name, os.O_RDWR|os.O_TRUNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(damage(raw), 0)
	if err := errors.Join(err, f.Close()); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}

// TestDamagedTransactionIndexIsBuiltAgain: also where a transaction began in an earlier
// segment, after a crash as after a clean stop, and without any snapshot of the producers.
func TestDamagedTransactionIndexIsBuiltAgain(t *testing.T) {
	for name, damage := range txnDamages {
		for _, base := range []int64{0, 3} {
			for _, how := range []string{"clean stop", "killed", "killed after a recovery point", "without snapshots"} {
				t.Run(fmt.Sprintf("%s/%d/%s", name, base, how), func(t *testing.T) {
					fs := vfs.NewMem()
					d, _ := mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
					l := txnLog(t, d)
					want, err := l.AbortedTransactions(0, 9)
					if err != nil || len(want) != 3 {
						t.Fatalf("%+v, %v", want, err)
					}
					switch how {
					case "clean stop", "without snapshots":
						err = d.Close(epochTime, 1)
					case "killed after a recovery point":
						moveRecoveryPoint(t, l)
					default:
						err = d.checkpointPromises()
					}
					if err != nil {
						t.Fatal(err)
					}
					d.Abandon()
					damageFile(t, fs, l.file(segment.FileName(base, segment.TxnIndexSuffix)), damage)
					if how == "without snapshots" {
						removeSnapshots(t, fs, l.Path())
					}
					for range 2 { // the second finds it whole
						d, report := mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
						if len(report.Opened) != 1 {
							t.Fatalf("%+v", report)
						}
						l = report.Opened[0]
						if got, err := l.AbortedTransactions(0, 9); err != nil || !reflect.DeepEqual(got, want) {
							t.Errorf("%+v, %v; want %+v", got, err, want)
						}
						if err := l.segments()[0].CheckTxnIndex(3); err != nil && how == "clean stop" {
							t.Error(err)
						}
						d.Abandon()
					}
				})
			}
		}
	}
}

func removeSnapshots(t *testing.T, fs vfs.FS, dir string) {
	t.Helper()
	entries, err := fs.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".snapshot") {
			if err := fs.Remove(dir + "/" + e.Name()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestMendingATransactionIndexKeepsSnapshots: the producers of later batches are those of the
// newest snapshot still.
func TestMendingATransactionIndexKeepsSnapshots(t *testing.T) {
	fs := vfs.NewMem()
	d, _ := mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
	l := txnLog(t, d)
	if err := d.Close(epochTime, 1); err != nil {
		t.Fatal(err)
	}
	before := l.producers.Snapshots()
	damageFile(t, fs, l.file(segment.FileName(0, segment.TxnIndexSuffix)), txnDamages["zeros"])
	d, report := mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
	defer d.Abandon()
	l = report.Opened[0]
	producers, err := l.Producers(epochTime)
	if err != nil || len(producers) != 3 || producers[0].TxnFirstOffset != -1 {
		t.Errorf("%+v, %v", producers, err)
	}
	if got := l.producers.Snapshots(); !reflect.DeepEqual(got, before) {
		t.Errorf("snapshots %v, were %v", got, before)
	}
	if l.LastStable(9) != 9 {
		t.Errorf("last stable offset %d", l.LastStable(9))
	}
}
