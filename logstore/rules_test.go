package logstore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/offset"
	"github.com/prometheus/client_golang/prometheus"
)

// TestClusterIDIsLearned: a node's directories exist before it knows its cluster.
func TestClusterIDIsLearned(t *testing.T) {
	fs := vfs.NewMem()
	o := testOptions(fs)
	o.ClusterID = ""
	d, _ := mustOpen(t, o, epochTime, DefaultConfig())
	id := d.DirectoryID()
	if d.ClusterID() != "" || id.IsZero() {
		t.Fatalf("new directory: cluster %q, directory %s", d.ClusterID(), id)
	}
	for range 2 {
		if err := d.SetClusterID("cluster-a"); err != nil {
			t.Fatal(err)
		}
	}
	var foreign *ForeignDirError
	if err := d.SetClusterID("cluster-b"); !errors.As(err, &foreign) || foreign.Found != "cluster-a" || foreign.Wanted != "cluster-b" {
		t.Errorf("another cluster: %v", err)
	}
	d.Abandon()
	d, _ = mustOpen(t, o, epochTime, DefaultConfig())
	defer d.Abandon()
	if d.ClusterID() != "cluster-a" || d.DirectoryID() != id || d.Path() != o.Path {
		t.Errorf("after a restart: cluster %q, directory %s, was %s", d.ClusterID(), d.DirectoryID(), id)
	}
}

func TestDirectoryIsLocked(t *testing.T) {
	fs := vfs.NewMem()
	d, _ := mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
	if _, err := OpenDir(testOptions(fs)); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("second use: %v", err)
	}
	d.Abandon()
	d, _ = mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
	d.Abandon()
}

// TestRetiredNames: names that would be too long are cut in the topic, and every name
// can be taken apart again.
func TestRetiredNames(t *testing.T) {
	for _, topic := range []string{"t", "a-b.c_d", strings.Repeat("x", 249)} {
		for suffix, kind := range map[string]dirKind{deleteSuffix: deletedDir, straySuffix: strayDir} {
			name, err := retiredDirName(&stream{}, topic, 12, suffix)
			if err != nil || len(name) > maxNameLen {
				t.Fatalf("%q: %d bytes, %v", name, len(name), err)
			}
			gotKind, gotTopic, gotPartition := parseDirName(name)
			if gotKind != kind || gotPartition != 12 || !strings.HasPrefix(topic, gotTopic) {
				t.Errorf("%q is %v %q %d", name, gotKind, gotTopic, gotPartition)
			}
		}
	}
	for name, want := range map[string]dirKind{
		"t-0": partitionDir, "a-b-17": partitionDir, "t-": otherDir, "-3": otherDir, "t": otherDir,
		"t-03": otherDir, "t--1": partitionDir, "t-99999999999": otherDir, "x-delete": otherDir, "t-1.abc-stray": otherDir,
	} {
		if got, _, _ := parseDirName(name); got != want {
			t.Errorf("%q is %v, want %v", name, got, want)
		}
	}
}

// TestSpaceHasHysteresis: a directory that was full needs more room than one that was not.
func TestSpaceHasHysteresis(t *testing.T) {
	s := newSpace(100, vfs.Space{TotalBytes: 1000})
	for i, step := range []struct {
		avail uint64
		full  bool
	}{{101, false}, {100, false}, {99, true}, {110, true}, {124, true}, {125, false}, {110, false}, {99, true}} {
		if full, _ := s.observe(vfs.Space{AvailBytes: step.avail}); full != step.full {
			t.Errorf("step %d, %d bytes: full=%v", i, step.avail, full)
		}
	}
}

func TestEpochsOfALeader(t *testing.T) {
	d, _ := mustOpen(t, testOptions(vfs.NewMem()), epochTime, DefaultConfig())
	defer d.Abandon()
	l := mustCreate(t, d, testID("t", 0), DefaultConfig())
	if _, ok := l.LatestEpoch(); ok {
		t.Error("an empty log has an epoch")
	}
	mustAppend(t, l, epochTime, 4, "a", "b")
	if err := l.AssignEpoch(6, 2); err != nil {
		t.Fatal(err)
	}
	if err := l.AssignEpoch(7, 3); err == nil {
		t.Error("an epoch begins above the end")
	}
	if e, ok := l.LatestEpoch(); !ok || e != 6 {
		t.Errorf("latest %d %v", e, ok)
	}
	if e, ok := l.EpochForOffset(1); !ok || e != 4 {
		t.Errorf("epoch of offset 1: %d %v", e, ok)
	}
	for epoch, want := range map[int32]EpochEnd{3: {3, 0}, 4: {4, 2}, 5: {4, 2}, 6: {6, 2}} {
		if got, ok := l.EndOffsetForEpoch(epoch); !ok || got != want {
			t.Errorf("end of epoch %d: %v %v, want %v", epoch, got, ok, want)
		}
	}
	if _, ok := l.EndOffsetForEpoch(7); ok {
		t.Error("epoch 7 has an end")
	}
	_, err := l.AppendAsLeader(AppendParams{Now: epochTime, Records: produced(epochTime, "x"), LeaderEpoch: 3, RequestVersion: 12})
	if !errors.Is(err, kafkaerr.FencedLeaderEpoch) {
		t.Errorf("append in an old epoch: %v", err)
	}
}

// TestHighWatermarkCheckpoint: what was checkpointed is offered at the next start,
// within the log's bounds.
func TestHighWatermarkCheckpoint(t *testing.T) {
	fs := vfs.NewMem()
	d, _ := mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
	for i, name := range []string{"low", "above", "none"} {
		l := mustCreate(t, d, testID(name, 0), DefaultConfig())
		mustAppend(t, l, epochTime, 0, "a", "b", "c")
		if i == 0 {
			if err := l.AdvanceLogStart(2); err != nil {
				t.Fatal(err)
			}
		}
	}
	hw := map[string]offset.HighWatermark{"low": 1, "above": 9}
	err := d.checkpointHighWatermarks(func(l *Log) (offset.HighWatermark, bool) {
		v, ok := hw[l.ID().Topic]
		return v, ok
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(epochTime, 1); err != nil {
		t.Fatal(err)
	}
	d, report := mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
	defer d.Abandon()
	want := map[string]offset.HighWatermark{"low": 2, "above": 3, "none": 0}
	for _, l := range report.Opened {
		if got := l.CheckpointedHighWatermark(); got != want[l.ID().Topic] {
			t.Errorf("%s: %d, want %d", l.ID(), got, want[l.ID().Topic])
		}
	}
}

// TestDamageAfterAStart, before the first append, is found before anything is appended behind
// it, and told.
func TestDamageAfterAStart(t *testing.T) {
	fs := vfs.NewMem()
	d, _ := mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
	l := mustCreate(t, d, testID("t", 0), DefaultConfig())
	mustAppend(t, l, epochTime, 0, "a")
	size := l.SizeBytes()
	mustAppend(t, l, epochTime, 0, "b")
	if err := d.Close(epochTime, 1); err != nil {
		t.Fatal(err)
	}
	told := make(chan error, 1)
	o := testOptions(fs)
	o.OnLogFailed = func(_ *Log, err error) { told <- err }
	d, report := mustOpen(t, o, epochTime, DefaultConfig())
	defer d.Abandon()
	cutFile(t, fs, filepath.Join(l.Path(), "00000000000000000000.log"), size)
	_, err := report.Opened[0].AppendAsLeader(AppendParams{Now: epochTime, Records: produced(epochTime, "x"), RequestVersion: 12})
	var corrupt *CorruptionError
	if !errors.As(err, &corrupt) || !errors.Is(err, kafkaerr.KafkaStorageError) {
		t.Errorf("append: %v", err)
	}
	if err := <-told; !errors.As(err, &corrupt) {
		t.Errorf("told %v", err)
	}
	if err := d.Close(epochTime, 2); err != nil {
		t.Fatal(err)
	}
	if exists, _ := fs.Stat("/data/.kafka_cleanshutdown"); exists != nil {
		t.Error("a clean stop vouches for a damaged log")
	}
}

func cutFile(t *testing.T, fs vfs.FS, name string, size int64) {
	t.Helper()
	f, err := fs.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestNamesAfterADiskFailure: a process that was killed while it gave files their names
// anew, after the disk had failed in the run before, has left some on their way.
func TestNamesAfterADiskFailure(t *testing.T) {
	fs := vfs.NewMem()
	d, _ := mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
	l := mustCreate(t, d, testID("t", 0), DefaultConfig())
	mustAppend(t, l, epochTime, 0, "a")
	d.Flush()
	d.leaveMarker(errors.New("the disk"))
	d.Abandon()
	log := l.Path() + againSuffix + "/00000000000000000000.log"
	if err := errors.Join(fs.Rename(l.Path(), l.Path()+againSuffix), fs.Rename(log, log+againSuffix)); err != nil {
		t.Fatal(err)
	}
	d, report := mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
	defer d.Abandon()
	if len(report.Opened) != 1 || report.Opened[0].LogEnd() != 1 {
		t.Errorf("found %+v", report)
	}
	if left, _ := fs.Stat("/data/" + failedFile); left != nil {
		t.Error("the marker is still there")
	}
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	o := testOptions(vfs.NewMem())
	o.Registerer = registry
	d, _ := mustOpen(t, o, epochTime, DefaultConfig())
	defer d.Abandon()
	l := mustCreate(t, d, testID("t", 0), DefaultConfig())
	mustAppend(t, l, epochTime, 0, "a")
	d.Flush()
	d.noteNoSpace(errors.New("full"))
	mustFail(t, l, ErrDirFull)
	d.fail(errors.New("gone"))
	mustFail(t, l, ErrDirOffline)
	for name, want := range map[string]float64{
		"klamm_log_dir_full": 1, "klamm_log_dir_offline": 1, "klamm_flush_rounds_total": 1, "klamm_flush_round_logs_total": 1,
	} {
		if got := gathered(t, registry, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

func mustFail(t *testing.T, l *Log, want error) {
	t.Helper()
	_, err := l.AppendAsLeader(AppendParams{Now: epochTime.Add(time.Second), Records: produced(epochTime, "x"), RequestVersion: 12})
	if !errors.Is(err, want) || !errors.Is(err, kafkaerr.KafkaStorageError) {
		t.Errorf("append: %v, want %v", err, want)
	}
}

func gathered(t *testing.T, g prometheus.Gatherer, name string) float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return -1
}
