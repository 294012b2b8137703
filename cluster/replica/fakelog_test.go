package replica

import (
	"fmt"
	"os"
	"time"

	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/offset"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// fakeLog is a Log of batches without bytes: every record is 10 bytes long and has its
// offset as timestamp. The flushed end moves when a test says so.
type fakeLog struct {
	config   logstore.Config
	batches  []fakeBatch
	epochs   []fakeEpoch
	logStart int64
	end      int64
	flushed  int64
	hw       int64
	lso      int64 // first offset of an open transaction, -1: none
	next     error // of the next append
}

type fakeBatch struct {
	first, last int64
	epoch       int32
}

type fakeEpoch struct {
	epoch int32
	start int64
}

const fakeRecordBytes = 10

// AppendAsLeader takes the number of records from the length of p.Records.
func (l *fakeLog) AppendAsLeader(p logstore.AppendParams) (logstore.AppendInfo, error) {
	if err := l.next; err != nil {
		l.next = nil
		return logstore.AppendInfo{}, err
	}
	b := fakeBatch{first: l.end, last: l.end + int64(len(p.Records)) - 1, epoch: p.LeaderEpoch}
	l.batches = append(l.batches, b)
	l.end = b.last + 1
	return logstore.AppendInfo{
		FirstOffset: b.first, LastOffset: b.last, LogAppendTimeMs: -1,
		FlushWanted: l.config.Durability == logstore.DurabilityFsync,
	}, nil
}

// AppendAsFollower is for tests of roles; what is fetched has bytes.
func (l *fakeLog) AppendAsFollower(time.Time, []byte, int32) (logstore.AppendInfo, error) {
	return logstore.AppendInfo{}, logstore.ErrUnexpectedOffset
}

func (l *fakeLog) AppendBehind(now time.Time, records []byte, epoch int32) (logstore.AppendInfo, error) {
	return l.AppendAsFollower(now, records, epoch)
}

func (l *fakeLog) TruncateTo(o int64) error {
	l.end = min(l.end, o)
	l.flushed = min(l.flushed, l.end)
	for n := len(l.epochs); n > 0 && l.epochs[n-1].start >= l.end; n-- {
		l.epochs = l.epochs[:n-1]
	}
	return nil
}

func (l *fakeLog) TruncateFullyAndStartAt(o int64) error {
	l.batches, l.epochs = nil, nil
	l.logStart, l.end, l.flushed = o, o, o
	return nil
}

func (l *fakeLog) LatestEpoch() (int32, bool) {
	if len(l.epochs) == 0 {
		return 0, false
	}
	return l.epochs[len(l.epochs)-1].epoch, true
}

func (l *fakeLog) AssignEpoch(epoch int32, start int64) error {
	l.epochs = append(l.epochs, fakeEpoch{epoch, start})
	return nil
}

func (l *fakeLog) Read(p logstore.ReadParams) (logstore.ReadInfo, error) {
	var r *fakeRegion
	for _, b := range l.batches {
		if b.last < p.Offset || b.last >= p.UpTo {
			continue
		}
		if r == nil {
			r = &fakeRegion{first: b.first}
		}
		size := int(b.last-b.first+1) * fakeRecordBytes
		if r.bytes+size > p.MaxBytes && (!p.MinOne || r.bytes > 0) {
			return logstore.ReadInfo{Region: r, FirstIncomplete: r.bytes == 0}, nil
		}
		r.bytes += size
		r.last = b.last
	}
	if r == nil {
		return logstore.ReadInfo{}, nil
	}
	info := logstore.ReadInfo{Region: r}
	if p.Aborted && l.lso >= 0 {
		info.Aborted = []logstore.AbortedTxn{{ProducerID: 7, FirstOffset: p.Offset}}
	}
	return info, nil
}

func (l *fakeLog) AdvanceLogStart(o int64) error {
	l.logStart = max(l.logStart, o)
	return nil
}

func (l *fakeLog) Producers(time.Time) ([]logstore.ProducerInfo, error) { return nil, nil }

func (l *fakeLog) UpdateConfig(c logstore.Config) { l.config = c }
func (l *fakeLog) LogStart() offset.LogStart      { return offset.LogStart(l.logStart) }
func (l *fakeLog) LogEnd() offset.LogEnd          { return offset.LogEnd(l.end) }
func (l *fakeLog) Flushed() offset.Flushed        { return offset.Flushed(l.flushed) }

func (l *fakeLog) CheckpointedHighWatermark() offset.HighWatermark { return offset.HighWatermark(l.hw) }

func (l *fakeLog) ProducerCount() int { return 0 }

func (l *fakeLog) LastStable(hw offset.HighWatermark) offset.LastStable {
	if l.lso >= 0 && l.lso < int64(hw) {
		return offset.LastStable(l.lso)
	}
	return offset.LastStable(hw)
}

func (l *fakeLog) OffsetForTimestamp(ms int64) (logstore.TimestampOffset, bool, error) {
	o := max(ms, l.logStart)
	return l.at(o), o < l.end, nil
}

func (l *fakeLog) OffsetOfMaxTimestamp() (logstore.TimestampOffset, bool, error) {
	return l.at(l.end - 1), l.end > l.logStart, nil
}

func (l *fakeLog) at(o int64) logstore.TimestampOffset {
	epoch, _ := l.EpochForOffset(o)
	return logstore.TimestampOffset{TimestampMs: o, Offset: o, LeaderEpoch: epoch}
}

func (l *fakeLog) EpochForOffset(o int64) (epoch int32, ok bool) {
	for _, e := range l.epochs {
		if e.start <= o {
			epoch, ok = e.epoch, true
		}
	}
	return epoch, ok
}

// EndOffsetForEpoch is LeaderEpochFileCache.endOffsetFor.
func (l *fakeLog) EndOffsetForEpoch(epoch int32) (logstore.EpochEnd, bool) {
	end := logstore.EpochEnd{Epoch: -1, EndOffset: -1}
	for i, e := range l.epochs {
		if e.epoch > epoch {
			if i == 0 {
				return logstore.EpochEnd{Epoch: epoch, EndOffset: e.start}, true
			}
			break
		}
		end = logstore.EpochEnd{Epoch: e.epoch, EndOffset: l.end}
		if i+1 < len(l.epochs) {
			end.EndOffset = l.epochs[i+1].start
		}
	}
	last := len(l.epochs) - 1
	return end, last >= 0 && l.epochs[last].epoch >= epoch
}

// PositionOf takes the log for one segment.
func (l *fakeLog) PositionOf(o int64) (logstore.Position, error) {
	return logstore.Position{Offset: o, Pos: o * fakeRecordBytes}, nil
}

// fakeRegion knows which batches it is.
type fakeRegion struct {
	first, last int64
	bytes       int
	released    int
}

func (r *fakeRegion) Len() int                          { return r.bytes }
func (r *fakeRegion) ReadAt([]byte, int64) (int, error) { return 0, kafkaerr.KafkaStorageError }
func (r *fakeRegion) File() (*os.File, int64)           { return nil, 0 }
func (r *fakeRegion) Release()                          { r.released++ }
func (r *fakeRegion) String() string                    { return fmt.Sprintf("%d-%d (%dB)", r.first, r.last, r.bytes) }

// fakeBrokers is the registered brokers: epoch by id, negative for fenced.
type fakeBrokers map[int32]int64

func (b fakeBrokers) BrokerEpoch(id int32) (int64, bool) {
	epoch, ok := b[id]
	if !ok || epoch < 0 {
		return -1, false
	}
	return epoch, true
}

// lostDirectory is one that no broker has any more.
var lostDirectory = uuid.UUID{0: 0xdd}

func (b fakeBrokers) HasOnlineDir(_ int32, dir uuid.UUID) bool { return dir != lostDirectory }
