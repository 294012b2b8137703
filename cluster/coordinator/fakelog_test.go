package coordinator

import (
	"fmt"
	"sync"

	"github.com/klamm-mq/klamm/protocol/batch"
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
	batches []batch.View
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
	part.batches = append(part.batches, v)
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
