package coordinator

import (
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/batch/batchtest"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// fakeLog is the partitions of one topic in memory. The high watermark moves when a test
// says so, or with each append.
type fakeLog struct {
	mu         sync.Mutex
	partitions map[int32]*fakePartition
}

type fakePartition struct {
	epoch   int32 // -1: not led
	start   int64
	end, hw int64
	batches []batch.View // what is left of them
	whole   []batch.View // as they were appended
	cleaned int64        // the end of what was cleaned before
	max     int

	autoCommit bool
	refuse     error // appends are refused with it
	fail       error // appends fail with it
	readFails  error
	appends    int
	watches    map[*func()]struct{}
}

func newFakeLog(partitions int32) *fakeLog {
	l := &fakeLog{partitions: map[int32]*fakePartition{}}
	for i := range partitions {
		l.partitions[i] = &fakePartition{epoch: -1, max: 1 << 20, autoCommit: true, watches: map[*func()]struct{}{}}
	}
	return l
}

// with changes a partition and tells who watches it.
func (l *fakeLog) with(i int32, change func(*fakePartition)) {
	l.mu.Lock()
	p := l.partitions[i]
	change(p)
	var tell []func()
	for w := range p.watches {
		tell = append(tell, *w)
	}
	l.mu.Unlock()
	for _, changed := range tell {
		changed()
	}
}

func (l *fakeLog) commit(i int32) { l.with(i, func(p *fakePartition) { p.hw = p.end }) }

// clean compacts a part of what is committed, as far as rng says: the newest record of each
// key stays. Tombstones go that a cleaning before this one has met. The last batch before
// an end of cleaning is kept: the log ends where it did.
func (p *fakePartition) clean(rng *rand.Rand, how flaw) (upTo int64) {
	bound := p.hw
	if how == cleanedPending {
		bound = p.end
	}
	for _, v := range p.batches {
		if v.NextOffset() <= bound && (upTo < p.cleaned || rng.IntN(4) > 0) {
			upTo = v.NextOffset()
		}
	}
	if how == earlyTombstones {
		for i, v := range p.batches {
			p.batches[i] = batchtest.Thin(v, testCodecs, func(r *batch.Record) bool { return r.HasValue })
		}
		return upTo
	}
	p.batches = batchtest.Clean(p.batches, batchtest.CleanParams{
		UpTo: upTo, TombstonesUpTo: rng.Int64N(p.cleaned + 1), Codecs: testCodecs,
		KeepEmpty: func(v batch.View) bool { return v.NextOffset() == upTo || rng.IntN(8) == 0 },
	})
	p.cleaned = max(p.cleaned, upTo)
	return upTo
}

// cut takes batches off the end.
func (p *fakePartition) cut() {
	last := p.batches[len(p.batches)-1]
	p.end = last.BaseOffset()
	p.batches, p.whole = p.batches[:len(p.batches)-1], p.whole[:len(p.whole)-1]
}

func (l *fakeLog) led(p Partition) (*fakePartition, error) {
	part := l.partitions[p.Index]
	if part == nil || part.epoch != p.LeaderEpoch {
		return nil, kafkaerr.NotLeaderOrFollower
	}
	return part, nil
}

func (l *fakeLog) Append(p Partition, records []byte) (base int64, err error) {
	l.mu.Lock()
	part, err := l.led(p)
	switch {
	case err != nil:
	case part.fail != nil:
		err = part.fail
	case part.refuse != nil:
		err = &RefusedError{part.refuse}
	case len(records) > part.max:
		err = &RefusedError{fmt.Errorf("%d bytes: %w", len(records), kafkaerr.MessageTooLarge)}
	}
	if err != nil {
		l.mu.Unlock()
		return -1, err
	}
	v := batch.View(append([]byte{}, records...))
	base = part.end
	v.SetBaseOffset(base)
	part.batches, part.whole = append(part.batches, v), append(part.whole, v)
	part.end = v.NextOffset()
	part.appends++
	auto := part.autoCommit
	l.mu.Unlock()
	if auto {
		l.commit(p.Index)
	}
	return base, nil
}

func (l *fakeLog) MaxBatchBytes(p Partition) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.partitions[p.Index].max
}

func (l *fakeLog) Read(p Partition, offset int64, buf []byte) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	part, err := l.led(p)
	if err == nil {
		err = part.readFails
	}
	if err != nil {
		return nil, err
	}
	out := buf[:0]
	for _, b := range part.batches {
		if b.NextOffset() <= offset {
			continue
		}
		if len(out) > 0 && len(out)+len(b) > len(buf) {
			return append(out, b[:len(buf)-len(out)]...), nil
		}
		out = append(out, b...)
	}
	return out, nil
}

func (l *fakeLog) Offsets(p Partition) (Offsets, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	part, err := l.led(p)
	if err != nil {
		return Offsets{}, err
	}
	return Offsets{part.start, part.hw, part.end}, nil
}

func (l *fakeLog) Watch(p Partition, changed func()) (func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	part, err := l.led(p)
	if err != nil {
		return nil, err
	}
	key := &changed
	part.watches[key] = struct{}{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(part.watches, key)
	}, nil
}
