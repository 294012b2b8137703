package segment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/wire"
)

// tester is what helpers need of a *testing.T, *testing.B or *rapid.T.
type tester interface {
	Helper()
	Fatal(args ...any)
}

const testDir = "/d/t-0"

var testNow = time.UnixMilli(1_700_000_000_000)

// testOptions are small, so that a few batches make index entries.
func testOptions(fs vfs.FS) *Options {
	return &Options{
		FS:                 fs,
		Pool:               NewFilePool(PoolOptions{}),
		Codecs:             batch.NewCodecs(batch.CodecsOptions{}),
		IndexIntervalBytes: 200,
		MaxIndexBytes:      1 << 20,
	}
}

func mustCreate(t tester, o *Options, base int64) *Segment {
	t.Helper()
	if err := o.FS.MkdirAll(testDir, 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := Create(testDir, base, testNow, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustOpen(t tester, o *Options, base int64) *Segment {
	t.Helper()
	s, err := Open(testDir, base, testNow, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// testBatch has n records at offsets from base, with timestamps from ts on, whose values
// together have about size bytes.
func testBatch(base int64, n, size int, ts int64) batch.View {
	records := make([]batch.NewRecord, n)
	for i := range records {
		records[i] = batch.NewRecord{
			TimestampMs: ts + int64(i),
			Value:       bytes.Repeat([]byte{'a' + byte((base+int64(i))%26)}, size/n),
		}
	}
	return batch.New(batch.BuilderOptions{BaseOffset: base, LeaderEpoch: 3}, records...)
}

func mustAppend(t tester, s *Segment, batches ...batch.View) {
	t.Helper()
	if err := s.Append(testNow, bytes.Join(views(batches), nil)); err != nil {
		t.Fatal(err)
	}
}

func views(batches []batch.View) [][]byte {
	raw := make([][]byte, len(batches))
	for i, v := range batches {
		raw[i] = v
	}
	return raw
}

// mustRead returns what a read of everything from offset on gives.
func mustRead(t tester, s *Segment, offset int64) []byte {
	t.Helper()
	r, err := s.Read(ReadParams{Offset: offset, MaxPos: s.Size(), MaxBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	return drain(t, r.Region)
}

func drain(t tester, r wire.Region) []byte {
	t.Helper()
	if r == nil {
		return nil
	}
	defer r.Release()
	buf := make([]byte, r.Len())
	if _, err := r.ReadAt(buf, 0); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return buf
}

// describe lists the batches in buf.
func describe(buf []byte) string {
	var out bytes.Buffer
	for len(buf) > 0 {
		v, rest, err := batch.Next(buf)
		if err != nil {
			fmt.Fprintf(&out, "[cut after %d bytes]", len(buf))
			break
		}
		fmt.Fprintf(&out, "[%d..%d]", v.BaseOffset(), v.LastOffset())
		buf = rest
	}
	return out.String()
}
