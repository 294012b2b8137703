package replica

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// Leadership names a partition while this broker leads it in one epoch. It is how
// coordinators use their partitions: they decide in the name of an epoch, and must write
// in no other. With any other role or epoch everything fails with NOT_LEADER_OR_FOLLOWER.
type Leadership struct {
	TopicIDPartition
	Epoch int32
}

// internalRequestVersion stands for the newest Produce: no rule of an old one applies.
const internalRequestVersion = 1<<15 - 1

// AppendInEpoch appends one batch of a coordinator with acks=all, and returns its base
// offset; it does not wait for what acks=all awaits (see Watch). After an error nothing
// was written; refused says that the partition can still be led and written to: too few
// in-sync replicas, a batch that is not valid here, a full disk.
func (m *Manager) AppendInEpoch(l Leadership, records []byte) (baseOffset int64, refused bool, err error) {
	h, err := m.find(l.TopicIDPartition)
	if err != nil {
		return -1, false, notLed(err)
	}
	result, _, e := h.AppendInEpoch(time.Now(), l.Epoch, LeaderAppend{
		Records: records, Acks: AcksAll, RequestVersion: internalRequestVersion, Origin: logstore.OriginCoordinator,
	})
	if e.FlushWanted {
		h.at().dir.committer.Wake()
	}
	m.carryOut(h, e)
	switch {
	case result.Err == nil:
		return result.BaseOffset, false, nil
	case errors.Is(result.Err, kafkaerr.UnknownTopicOrPartition): // deleted meanwhile
		return -1, false, notLed(result.Err)
	}
	return -1, h.refusedOnly(result.Err), result.Err
}

// AppendInEpoch is AppendAsLeader for one who leads in a certain epoch only.
func (p *Partition) AppendInEpoch(now time.Time, epoch int32, a LeaderAppend) (AppendResult, Awaited, Effects) {
	return p.appendAndAdvance(now, epoch, a)
}

// refusedOnly tells an append that was refused from one that failed.
func (p *Partition) refusedOnly(err error) bool {
	switch kafkaerr.Code(err) {
	case kafkaerr.NotLeaderOrFollower.Code, kafkaerr.FencedLeaderEpoch.Code:
		return false
	case kafkaerr.KafkaStorageError.Code:
		return logstore.MayPass(err)
	}
	return p.Failure() == nil
}

// notLed makes one kind of the ways in which a partition is not here.
func notLed(err error) error {
	if errors.Is(err, kafkaerr.NotLeaderOrFollower) {
		return err
	}
	return fmt.Errorf("%w: %w", kafkaerr.NotLeaderOrFollower, err)
}

// LedOffsets are the positions of a partition that is led here.
type LedOffsets struct {
	LogStart, HighWatermark, LogEnd int64
}

// OffsetsInEpoch tells where the partition is.
func (m *Manager) OffsetsInEpoch(l Leadership) (LedOffsets, error) {
	h, err := m.find(l.TopicIDPartition)
	if err != nil {
		return LedOffsets{}, notLed(err)
	}
	return h.offsetsInEpoch(l.Epoch)
}

func (p *Partition) offsetsInEpoch(epoch int32) (LedOffsets, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if err := p.requireEpoch(epoch); err != nil {
		return LedOffsets{}, err
	}
	at := p.offsets()
	return LedOffsets{LogStart: at.logStart, HighWatermark: at.highWatermark, LogEnd: at.logEnd}, nil
}

// MaxBatchBytes is the largest batch that the partition takes.
func (m *Manager) MaxBatchBytes(l Leadership) int {
	h, err := m.find(l.TopicIDPartition)
	if err != nil {
		return 0
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	return int(min(h.config.Log.MaxMessageBytes, h.config.Log.SegmentBytes))
}

// ReadInEpoch reads batches from offset on, up to the log end: records that are not
// acknowledged yet included. They are read into buf, or into new memory if the first batch
// is larger; the last may be cut short. Nothing at the log end.
func (m *Manager) ReadInEpoch(l Leadership, offset int64, buf []byte) ([]byte, error) {
	h, err := m.find(l.TopicIDPartition)
	if err != nil {
		return nil, notLed(err)
	}
	at, err := h.offsetsInEpoch(l.Epoch)
	if err != nil || offset == at.LogEnd {
		return nil, err
	}
	info, err := h.readLog(logstore.ReadParams{Offset: offset, MaxBytes: len(buf), UpTo: at.LogEnd, MinOne: true})
	if err != nil || info.Region == nil {
		return nil, err
	}
	defer info.Region.Release()
	if info.Region.Len() > len(buf) {
		buf = make([]byte, info.Region.Len())
	}
	buf = buf[:info.Region.Len()]
	if _, err := info.Region.ReadAt(buf, 0); err != nil {
		return nil, fmt.Errorf("read %s-%d at %d: %w", h.Topic(), l.Partition, offset, err)
	}
	// What was read counts only if nobody else has led meanwhile and cut the log.
	_, err = h.offsetsInEpoch(l.Epoch)
	return buf, err
}

// Watch calls changed whenever OffsetsInEpoch may answer otherwise: the high watermark may
// have moved, or the leadership be over. It is called from any goroutine and without locks,
// and must not block. Calls end soon after stop was called.
func (m *Manager) Watch(l Leadership, changed func()) (stop func(), err error) {
	h, err := m.find(l.TopicIDPartition)
	if err != nil {
		return nil, notLed(err)
	}
	if _, err := h.offsetsInEpoch(l.Epoch); err != nil {
		return nil, err
	}
	return h.watchers.add(changed), nil
}

// requireEpoch checks that this replica leads in a certain epoch; NoEpoch is any. Caller
// holds mu.
func (p *Partition) requireEpoch(epoch int32) error {
	if err := p.requireLeader(); err != nil {
		return err
	}
	if epoch != NoEpoch && epoch != p.leader.Epoch {
		return fmt.Errorf("%s-%d is led in epoch %d, not %d: %w", p.opts.Topic, p.opts.ID.Partition, p.leader.Epoch, epoch, kafkaerr.NotLeaderOrFollower)
	}
	return nil
}

// watchers are who wants to know of changes of one partition. Almost all have none, which
// costs the hot path one load.
type watchers struct {
	mu   sync.Mutex
	list atomic.Pointer[[]*func()] // replaced, never changed
}

func (w *watchers) add(changed func()) (stop func()) {
	w.replace(func(list []*func()) []*func() { return append(slices.Clone(list), &changed) })
	return func() {
		w.replace(func(list []*func()) []*func() {
			return slices.DeleteFunc(slices.Clone(list), func(f *func()) bool { return f == &changed })
		})
	}
}

func (w *watchers) replace(by func([]*func()) []*func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var old []*func()
	if list := w.list.Load(); list != nil {
		old = *list
	}
	next := by(old)
	w.list.Store(&next)
}

func (w *watchers) notify() {
	list := w.list.Load()
	if list == nil {
		return
	}
	for _, changed := range *list {
		(*changed)()
	}
}
