package coordinator

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/internal/invariant"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// core is a loaded shard in one leadership: it carries out effects, keeps the batch that
// is being filled and what waits for the high watermark. It has no goroutine, clock or
// timer; its only I/O is the append.
type core struct {
	coreOptions
	shard Shard

	end int64 // after the last record that was replayed, hence of the open batch
	hw  int64 // what the shard knows as committed

	builder *batch.Builder
	open    openBatch
	waiting waiters // in the order of end and of deadline

	// lost is why the shard is of no use any more, nil while it is.
	lost error

	refusalLogged time.Time // when a refused append was last logged
}

// coreOptions are the same for all shards, but for the log.
type coreOptions struct {
	append        func(records []byte) (baseOffset int64, err error)
	maxBatchBytes func() int
	codec         batch.Codec
	codecs        *batch.Codecs
	writeTimeout  time.Duration
	linger        time.Duration // < 0: until the queue is empty
	// maxBufferBytes bounds the buffer that is kept from batch to batch.
	maxBufferBytes int
	logger         *slog.Logger
	metrics        *metrics
}

// openBatch is the batch that is being filled.
type openBatch struct {
	base  int64
	began time.Time
	max   int // bytes
	ops   []waiter
}

// waiter is an operation whose answers wait.
type waiter struct {
	end       int64 // committed when the high watermark is here
	deadline  time.Time
	since     time.Time
	answers   []func(error)
	committed func(time.Time) Effects
	refused   func(time.Time, error) Effects
}

// newCore takes over a shard that has been replayed up to end.
func newCore(shard Shard, end, hw int64, o coreOptions) *core {
	return &core{coreOptions: o, shard: shard, end: end, hw: hw, builder: batch.NewBuilder(batch.BuilderOptions{})}
}

// begin starts the life of the shard.
func (c *core) begin(now time.Time, image *metadata.Image) {
	c.carryOut(now, c.shard.OnImage(now, nil, image))
	if c.lost == nil {
		c.carryOut(now, c.shard.Loaded(now))
	}
}

// carryOut takes what an operation wants: its records are replayed and put into the batch,
// its answers wait with them. It may append, if the batch is full, and hence lose the shard.
func (c *core) carryOut(now time.Time, e Effects) {
	w := waiter{
		deadline: now.Add(c.writeTimeout), since: now,
		answers: e.Answers, committed: e.Committed, refused: e.Refused,
	}
	if c.lost != nil {
		w.answer(c.lost)
		return
	}
	if len(e.Records) > 0 {
		if err := c.write(now, &e); err != nil {
			c.refuse(now, &w, err)
			return
		}
	}
	switch {
	case len(w.answers) == 0 && w.committed == nil && w.refused == nil:
	case c.builder.Len() > 0:
		// Without records of its own the operation has still seen those of the batch.
		c.open.ops = append(c.open.ops, w)
	default:
		c.await(now, w)
	}
	if c.builder.Len() > 0 && (c.linger == 0 || c.builder.Size() >= c.open.max) {
		_ = c.flush(now) // it is answered with the batch
	}
}

// await parks w until everything written is committed.
func (c *core) await(now time.Time, w waiter) {
	if w.end = c.end; w.end <= c.hw {
		c.settle(now, &w)
		return
	}
	c.waiting.push(w)
}

// settle tells an operation that it is committed.
func (c *core) settle(now time.Time, w *waiter) {
	if w.committed != nil {
		c.carryOut(now, w.committed(now))
	}
	w.answer(nil)
	c.metrics.settled(now.Sub(w.since))
}

// refuse tells an operation that its records were not written, or not committed in time.
func (c *core) refuse(now time.Time, w *waiter, err error) {
	if c.lost != nil {
		w.answer(c.lost)
		return
	}
	if w.refused != nil {
		c.carryOut(now, w.refused(now, err))
	}
	w.answer(err)
}

func (w *waiter) answer(err error) {
	for _, answer := range w.answers {
		answer(err)
	}
}

// write puts records into the batch and replays them. An error says that they are refused,
// those of a divisible operation in part.
func (c *core) write(now time.Time, e *Effects) error {
	if !e.Divisible {
		if err := c.makeRoom(now, e.Records); err != nil {
			return err
		}
	}
	for i := range e.Records {
		r := &e.Records[i]
		if e.Divisible {
			if err := c.makeRoom(now, e.Records[i:i+1]); err != nil {
				return err
			}
		}
		if err := c.put(now, r); err != nil {
			return err
		}
	}
	return nil
}

// put replays a record and adds it to the batch. A shard that does not understand what it
// wrote is defective; the batch is then taken back as a whole (as in Kafka).
func (c *core) put(now time.Time, r *Record) error {
	if err := c.shard.Replay(c.end, *r); err != nil {
		c.logger.Error("a record was not replayed by the shard that wrote it", "offset", c.end, "err", err)
		c.takeBack(now, kafkaerr.UnknownServerError)
		return kafkaerr.UnknownServerError
	}
	c.builder.Append(batch.NewRecord{TimestampMs: c.open.began.UnixMilli(), Key: r.Key, Value: r.Value})
	c.end++
	return nil
}

// makeRoom opens a batch, or flushes the one that has no room for records. Records that
// are too large for a batch are tried in one of their own: compressed they may fit.
func (c *core) makeRoom(now time.Time, records []Record) error {
	if c.builder.Len() > 0 {
		if c.builder.Size()+sizeUpperBound(records) <= c.open.max {
			return nil
		}
		if err := c.flush(now); err != nil {
			return err
		}
	}
	if c.builder.Len() == 0 {
		c.builder.Reset(batch.BuilderOptions{Codec: c.codec})
		c.open.base, c.open.began, c.open.max = c.end, now, c.maxBatchBytes()
	}
	return nil
}

// recordOverhead is the most that a record takes beside key and value: attributes, and
// varints of length, timestamp delta, offset delta, both lengths and header count.
const recordOverhead = 1 + 5 + 10 + 5 + 5 + 5 + 1

func sizeUpperBound(records []Record) (n int) {
	for i := range records {
		n += recordOverhead + len(records[i].Key) + len(records[i].Value)
	}
	return n
}

// flush appends the batch. An error says that the operation which asked for room cannot
// go on: it has seen state that is taken back.
func (c *core) flush(now time.Time) error {
	if c.builder.Len() == 0 {
		return nil
	}
	records, err := c.builder.Build(c.codecs)
	invariant.Check(err == nil, "a batch of a coordinator was not built: %v", err)
	count := c.builder.Len()
	c.metrics.flushing(now.Sub(c.open.began))
	base, err := c.append(records)
	switch {
	case err == nil && base == c.open.base:
		c.appended(now)
		return nil
	case err == nil:
		err = fmt.Errorf("batch was written at offset %d where %d was expected", base, c.open.base)
		c.logger.Error("shard and log differ, the shard is loaded again", "err", err)
	case isRefused(err):
		c.noteRefused(now, count, len(records), err)
		err = Answerable(err)
		c.takeBack(now, err)
		return err
	case errors.Is(err, kafkaerr.NotLeaderOrFollower):
		c.logger.Debug("leadership was lost before a batch was written", "err", err)
	case errors.Is(err, kafkaerr.KafkaStorageError): // the log or its directory is offline, which has been told
		c.logger.Debug("append failed, the shard is loaded again", "err", err)
	default:
		c.logger.Error("append failed, the shard is loaded again", "err", err)
	}
	c.lose()
	return c.lost
}

// refusalInterval is how often a refused append is logged; the metric counts all.
const refusalInterval = 10 * time.Second

func (c *core) noteRefused(now time.Time, records, size int, err error) {
	c.metrics.refused.Add(float64(records))
	if now.Sub(c.refusalLogged) >= refusalInterval {
		c.refusalLogged = now
		c.logger.Warn("records were refused by their log", "records", records, "bytes", size, "err", err)
	}
}

// appended makes the operations of the batch wait for the high watermark.
func (c *core) appended(now time.Time) {
	ops := c.closeBatch()
	for i := range ops {
		c.await(now, ops[i])
	}
	c.reuse(ops)
}

// takeBack undoes the batch.
func (c *core) takeBack(now time.Time, err error) {
	c.shard.Rollback(c.open.base)
	c.end = c.open.base
	ops := c.closeBatch()
	for i := range ops {
		c.refuse(now, &ops[i], err)
	}
	c.reuse(ops)
}

// closeBatch ends the batch and hands over its operations.
func (c *core) closeBatch() []waiter {
	ops := c.open.ops
	c.open = openBatch{}
	if c.builder.Size() > c.maxBufferBytes {
		c.builder = batch.NewBuilder(batch.BuilderOptions{})
	}
	c.builder.Reset(batch.BuilderOptions{})
	return ops
}

// reuse gives the room of ops back, unless operations came since.
func (c *core) reuse(ops []waiter) {
	clear(ops)
	if c.open.ops == nil {
		c.open.ops = ops[:0]
	}
}

// written is the end of what was appended.
func (c *core) written() int64 {
	if c.builder.Len() > 0 {
		return c.open.base
	}
	return c.end
}

// advance is told the high watermark of the partition.
func (c *core) advance(now time.Time, hw int64) {
	// Above what this shard has written somebody else's records lie: the next append will
	// notice.
	hw = min(hw, c.written())
	if c.lost != nil || hw <= c.hw {
		return
	}
	c.hw = hw
	c.shard.Committed(hw)
	for c.lost == nil && c.waiting.len() > 0 && c.waiting.front().end <= hw {
		w := c.waiting.pop()
		c.settle(now, &w)
	}
}

// nextDeadline is when tick wants to be called.
func (c *core) nextDeadline() (time.Time, bool) {
	at, ok := c.shard.NextDeadline()
	if c.waiting.len() > 0 {
		at, ok = earlier(at, ok, c.waiting.front().deadline), true
	}
	if c.builder.Len() > 0 && c.linger > 0 {
		at, ok = earlier(at, ok, c.open.began.Add(c.linger)), true
	}
	return at, ok
}

func earlier(at time.Time, ok bool, other time.Time) time.Time {
	if !ok || other.Before(at) {
		return other
	}
	return at
}

// tick does what is due.
func (c *core) tick(now time.Time) {
	if c.lost != nil {
		return
	}
	for c.lost == nil && c.waiting.len() > 0 && !now.Before(c.waiting.front().deadline) {
		w := c.waiting.pop()
		c.metrics.timeouts.Inc()
		c.refuse(now, &w, Answerable(kafkaerr.RequestTimedOut))
	}
	if at, ok := c.shard.NextDeadline(); ok && c.lost == nil && !now.Before(at) {
		c.carryOut(now, c.shard.Tick(now))
	}
	if c.lost == nil && c.builder.Len() > 0 && c.linger > 0 && now.Sub(c.open.began) >= c.linger {
		_ = c.flush(now) // who is in the batch is answered
	}
}

// onImage tells the shard of changed metadata.
func (c *core) onImage(now time.Time, delta *metadata.Delta, image *metadata.Image) {
	if c.lost == nil {
		c.carryOut(now, c.shard.OnImage(now, delta, image))
	}
}

// lose ends the shard: whoever waits for it is sent to look for the coordinator again.
func (c *core) lose() {
	if c.lost != nil {
		return
	}
	c.lost = kafkaerr.NotCoordinator
	for c.waiting.len() > 0 {
		w := c.waiting.pop()
		w.answer(c.lost)
	}
	for _, w := range c.open.ops {
		w.answer(c.lost)
	}
	c.open = openBatch{}
	c.shard.Unload(c.lost)
}

// backlog counts what is written or about to be, and not committed.
func (c *core) backlog() int { return int(c.end-c.hw) + c.waiting.len() + len(c.open.ops) }
