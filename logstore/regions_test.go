package logstore

import (
	"errors"
	"syscall"
	"testing"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/errfs"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/wire"
)

// regionOf reads nothing yet: the bytes are copied when the answer is sent.
func regionOf(t *testing.T, l *Log) wire.Region {
	t.Helper()
	info, err := l.Read(ReadParams{MaxBytes: 1 << 20, UpTo: int64(l.LogEnd()), MinOne: true})
	if err != nil || info.Region == nil {
		t.Fatalf("%+v, %v", info, err)
	}
	return info.Region
}

// TestRegionReadErrorFailsItsLog: a sector that turns out to be unreadable only when the
// answer is sent means what it would have meant a moment earlier (decision D24): the log
// is offline, and its clients are told so instead of losing one connection after the other.
func TestRegionReadErrorFailsItsLog(t *testing.T) {
	faulty := errfs.Wrap(vfs.NewMem())
	told := make(chan error, 1)
	o := testOptions(faulty)
	o.OnLogFailed = func(_ *Log, err error) { told <- err }
	d, _ := mustOpen(t, o, epochTime, DefaultConfig())
	defer d.Abandon()
	l, other := mustCreate(t, d, testID("t", 0), DefaultConfig()), mustCreate(t, d, testID("t", 1), DefaultConfig())
	mustAppend(t, l, epochTime, 1, "a")
	mustAppend(t, other, epochTime, 1, "b")
	region := regionOf(t, l)
	defer region.Release()
	faulty.Add("read *.log err=EIO")
	if _, err := region.ReadAt(make([]byte, region.Len()), 0); !errors.Is(err, syscall.EIO) {
		t.Fatalf("%v", err)
	}
	faulty.Clear()
	if err := <-told; !errors.Is(err, syscall.EIO) || !errors.Is(err, kafkaerr.KafkaStorageError) {
		t.Errorf("told %v", err)
	}
	if _, err := l.Read(ReadParams{MaxBytes: 1, UpTo: 1, MinOne: true}); !errors.Is(err, kafkaerr.KafkaStorageError) {
		t.Errorf("the next read: %v", err)
	}
	mustAppend(t, other, epochTime, 1, "c")
	if d.Err() != nil || other.Failure() != nil {
		t.Errorf("others suffer: %v, %v", d.Err(), other.Failure())
	}
}

// TestRegionCutShortFailsNothing: a truncation may overtake an answer in flight.
func TestRegionCutShortFailsNothing(t *testing.T) {
	d, _ := mustOpen(t, testOptions(vfs.NewMem()), epochTime, DefaultConfig())
	defer d.Abandon()
	l := mustCreate(t, d, testID("t", 0), DefaultConfig())
	mustAppend(t, l, epochTime, 1, "a")
	mustAppend(t, l, epochTime, 1, "b")
	region := regionOf(t, l)
	defer region.Release()
	if err := l.TruncateTo(1); err != nil {
		t.Fatal(err)
	}
	if n, err := region.ReadAt(make([]byte, region.Len()), 0); err == nil {
		t.Errorf("%d bytes of a region of %d that was cut", n, region.Len())
	}
	if l.Failure() != nil {
		t.Errorf("the log failed: %v", l.Failure())
	}
}
