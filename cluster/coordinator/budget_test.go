package coordinator

import (
	"log/slog"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
)

// budgetShard takes everything in without keeping it.
type budgetShard struct{ Shard }

func (budgetShard) Replay(int64, Record) error      { return nil }
func (budgetShard) Committed(int64)                 {}
func (budgetShard) NextDeadline() (time.Time, bool) { return time.Time{}, false }
func (budgetShard) Loaded(time.Time) Effects        { return Effects{} }
func (budgetShard) OnImage(time.Time, *metadata.Delta, *metadata.Image) Effects {
	return Effects{}
}

// What the runtime itself does for an operation that writes a record and waits for its
// commit, as OffsetCommit does, allocates nothing: neither queue, batch nor waiting.
func TestBudgetOfAWrite(t *testing.T) {
	end := int64(0)
	c := newCore(budgetShard{}, 0, 0, coreOptions{
		append: func([]byte) (int64, error) {
			base := end
			end += 8
			return base, nil
		},
		maxBatchBytes: func() int { return 1 << 20 },
		writeTimeout:  time.Second, linger: -1, maxBufferBytes: 1 << 20,
		logger:  slog.New(slog.DiscardHandler),
		metrics: newMetrics(nil, "test", func(state) int { return 0 }, func() int { return 0 }),
	})
	now := time.UnixMilli(1)
	c.begin(now, metadata.Empty())
	answered := 0
	e := Effects{
		Records: []Record{{Key: make([]byte, 40), Value: make([]byte, 30)}},
		Answers: []func(error){func(error) { answered++ }},
	}
	round := func() {
		for range 8 {
			c.carryOut(now, e)
		}
		if err := c.flush(now); err != nil {
			t.Fatal(err)
		}
		c.advance(now, end-8) // one batch always waits
		c.nextDeadline()
		c.tick(now)
	}
	if n := testing.AllocsPerRun(1000, round); n > 0 {
		t.Errorf("%v allocations for a batch of 8 writes", n)
	}
	if answered < 8000 {
		t.Errorf("%d answers", answered)
	}
}
