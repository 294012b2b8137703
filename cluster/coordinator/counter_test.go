package coordinator

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/klamm-mq/klamm/cluster/coordinator/overlay"
	"github.com/klamm-mq/klamm/cluster/metadata"
)

// counters is a shard for tests: named counters. A record is key = name, value = 8 bytes;
// a tombstone removes.
type counters struct {
	partition int32
	values    *overlay.Map[string, int64]

	loaded   bool
	images   []*metadata.Image
	deltas   int
	unloaded error
	deadline time.Time
	onTick   func(now time.Time) Effects
	onLoaded func() Effects // nil: nothing
	parked   []func(error)
	asked    int // for its deadline, in each round of the driver
}

func newCounters(partition int32) *counters {
	return &counters{partition: partition, values: overlay.NewMap[string, int64]()}
}

var errNoCounter = errors.New("not a counter")

func (s *counters) Replay(offset int64, r Record) error {
	switch {
	case r.Value == nil:
		s.values.Delete(offset, string(r.Key))
	case len(r.Value) != 8:
		return fmt.Errorf("%w: %x", errNoCounter, r.Value)
	default:
		s.values.Set(offset, string(r.Key), int64(binary.BigEndian.Uint64(r.Value)))
	}
	return nil
}

func (s *counters) Committed(end int64) { s.values.Advance(end) }
func (s *counters) Rollback(from int64) { s.values.Rollback(from) }

func (s *counters) OnImage(_ time.Time, delta *metadata.Delta, image *metadata.Image) Effects {
	s.images = append(s.images, image)
	if delta != nil {
		s.deltas++
	}
	return Effects{}
}

func (s *counters) Loaded(time.Time) Effects {
	s.loaded = true
	if s.onLoaded == nil {
		return Effects{}
	}
	return s.onLoaded()
}

func (s *counters) NextDeadline() (time.Time, bool) {
	s.asked++
	return s.deadline, !s.deadline.IsZero()
}

func (s *counters) Tick(now time.Time) Effects {
	s.deadline = time.Time{}
	return s.onTick(now)
}

func (s *counters) Unload(err error) {
	s.unloaded = err
	for _, answer := range s.parked {
		answer(err)
	}
}

func counterRecord(name string, to int64) Record {
	return Record{Key: []byte(name), Value: binary.BigEndian.AppendUint64(nil, uint64(to))}
}

// add is an operation: the counter grows by one, and the answer tells the new value.
func (s *counters) add(name string, answer func(n int64, err error)) Effects {
	n, _ := s.values.Get(name)
	n++
	return Effects{
		Records: []Record{counterRecord(name, n)},
		Answers: []func(error){func(err error) { answer(n, err) }},
	}
}
