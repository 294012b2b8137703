package logstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// epochTime is when tests begin.
var epochTime = time.UnixMilli(1_700_000_000_000).UTC()

// stream is an endless deterministic io.Reader.
type stream struct {
	seed uint64
	n    uint64
	buf  []byte
}

func (s *stream) Read(p []byte) (int, error) {
	for i := range p {
		if len(s.buf) == 0 {
			sum := sha256.Sum256(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, s.seed), s.n))
			s.n++
			s.buf = sum[:]
		}
		p[i], s.buf = s.buf[0], s.buf[1:]
	}
	return len(p), nil
}

func topicID(name string) uuid.UUID {
	sum := sha256.Sum256([]byte(name))
	return uuid.UUID(sum[:16])
}

func testID(topic string, partition int32) ID {
	return ID{Topic: topic, TopicID: topicID(topic), Partition: partition}
}

func testOptions(fs vfs.FS) DirOptions {
	return DirOptions{
		FS: fs, Path: "/data", NodeID: 1, ClusterID: "cluster-a", Rand: &stream{},
		Logger: slog.New(slog.DiscardHandler), ReserveBytes: 1,
	}
}

func mustOpen(t testing.TB, o DirOptions, now time.Time, c Config) (*Dir, OpenReport) {
	t.Helper()
	d, err := OpenDir(o)
	if err != nil {
		t.Fatalf("open directory: %v", err)
	}
	report, err := d.OpenLogs(context.Background(), OpenLogsParams{Now: now, Threads: 2, Config: func(ID) Config { return c }})
	if err != nil {
		t.Fatalf("open logs: %v", err)
	}
	return d, report
}

func mustCreate(t testing.TB, d *Dir, id ID, c Config) *Log {
	t.Helper()
	l, err := d.CreateLog(epochTime, id, c)
	if err != nil {
		t.Fatalf("create %s: %v", id, err)
	}
	return l
}

// mustBear is mustCreate of a log that has its files.
func mustBear(t testing.TB, d *Dir, id ID, c Config) *Log {
	t.Helper()
	l := mustCreate(t, d, id, c)
	if err := l.bearNow(); err != nil {
		t.Fatalf("make files of %s: %v", id, err)
	}
	return l
}

// produced is a batch as a client sends it.
func produced(now time.Time, values ...string) []byte {
	return producedBy(nil, now, values...)
}

func producedBy(p *batch.Producer, now time.Time, values ...string) []byte {
	b := batch.NewBuilder(batch.BuilderOptions{Producer: p, LeaderEpoch: -1})
	for _, v := range values {
		b.Append(batch.NewRecord{TimestampMs: now.UnixMilli(), Value: []byte(v)})
	}
	v, err := b.Build(nil)
	if err != nil {
		panic(err)
	}
	return v
}

func mustAppend(t testing.TB, l *Log, now time.Time, epoch int32, values ...string) AppendInfo {
	t.Helper()
	info, err := l.AppendAsLeader(AppendParams{Now: now, Records: produced(now, values...), LeaderEpoch: epoch, RequestVersion: 12})
	if err != nil {
		t.Fatalf("append to %s: %v", l.ID(), err)
	}
	return info
}

// readAll reads the batches of [from, upTo) in reads of at most maxBytes.
func readAll(l *Log, from, upTo int64, maxBytes int) ([]batch.View, error) {
	var all []batch.View
	for from < upTo {
		info, err := l.Read(ReadParams{Offset: from, MaxBytes: maxBytes, UpTo: upTo, MinOne: true})
		if err != nil {
			return all, err
		}
		if info.Region == nil {
			return all, nil
		}
		buf := make([]byte, info.Region.Len())
		_, err = info.Region.ReadAt(buf, 0)
		info.Region.Release()
		if err != nil && !errors.Is(err, io.EOF) {
			return all, err
		}
		n := len(all)
		for {
			v, rest, err := batch.Next(buf)
			if err != nil {
				break
			}
			if err := v.Check(); err != nil {
				return all, err
			}
			all = append(all, bytes.Clone(v))
			buf = rest
		}
		if len(all) == n {
			return all, fmt.Errorf("read at %d found no whole batch", from)
		}
		from = all[len(all)-1].NextOffset()
	}
	return all, nil
}

// values are the record values of batches, by offset.
func valuesOf(t testing.TB, views []batch.View) map[int64]string {
	t.Helper()
	m := map[int64]string{}
	for _, v := range views {
		it := batch.NewIterator(v, nil)
		for it.Next() {
			m[v.BaseOffset()+int64(it.Record.OffsetDelta)] = string(it.Record.Value)
		}
		if err := it.Err(); err != nil {
			t.Fatalf("batch at %d: %v", v.BaseOffset(), err)
		}
		it.Close()
	}
	return m
}
