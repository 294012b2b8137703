package metamorphic

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/logstore/segment"
)

// Stop is how a life ends before the next begins.
type Stop string

// The ways to stop. What a client was promised must outlive each, so a power cut comes
// after a flush, and a kill when the log start has been checkpointed: it may be lost
// otherwise, as in Kafka.
const (
	Clean Stop = "clean"
	Kill  Stop = "kill"
	Power Stop = "power cut"
)

// Config is what must not matter.
type Config struct {
	Log     logstore.Config
	Pool    segment.PoolOptions
	Stops   []Stop // drawn from at each stop; none = one life only
	StopPer int    // about every so many operations
	Rolls   int    // a forced roll about every so many operations, 0 = none
	Page    int    // size in which bytes reach the disk
	Seed    uint64 // of the stops, the rolls and the power cuts
}

// Plain is one segment, one life.
func Plain() Config { return Config{Log: logstore.DefaultConfig(), Page: 4096} }

// RandomConfig draws one.
func RandomConfig(r *rand.Rand) Config {
	c := Plain()
	c.Seed = r.Uint64()
	c.Log.SegmentBytes = pick(r, int32(800), 2000, 10_000, 1<<30)
	c.Log.IndexIntervalBytes = pick(r, int32(0), 100, 4096)
	c.Log.SegmentIndexBytes = pick(r, int32(24), 100, 10<<20)
	c.Log.SegmentMs = pick(r, int64(1), 5_000, math.MaxInt64)
	c.Log.SegmentJitterMs = pick(r, int64(0), 3_000)
	c.Log.FlushMessages = pick(r, int64(1), math.MaxInt64)
	c.Log.Durability = pick(r, logstore.DurabilityFsync, logstore.DurabilityReplicated)
	c.Log.WriteAheadBytes = pick(r, int32(0), 50, 300, 4096)
	c.Pool = segment.PoolOptions{MaxOpenFiles: pick(r, 1, 3, 0), MaxIndexBytes: pick(r, int64(1), 0)}
	c.StopPer = pick(r, 3, 10, 40)
	c.Stops = pick(r, nil, []Stop{Clean}, []Stop{Kill}, []Stop{Power}, []Stop{Clean, Kill, Power})
	c.Rolls = pick(r, 0, 0, 7)
	c.Page = pick(r, 64, 4096)
	return c
}

func pick[T any](r *rand.Rand, choices ...T) T { return choices[r.IntN(len(choices))] }

func (c Config) String() string {
	return fmt.Sprintf("segment %d bytes %d ms jitter %d, index every %d max %d, %v, %d ahead, pool %d files %d bytes, stops %v per %d, rolls per %d, page %d, seed %d",
		c.Log.SegmentBytes, c.Log.SegmentMs, c.Log.SegmentJitterMs, c.Log.IndexIntervalBytes, c.Log.SegmentIndexBytes,
		c.Log.Durability, c.Log.WriteAheadBytes, c.Pool.MaxOpenFiles, c.Pool.MaxIndexBytes, c.Stops, c.StopPer, c.Rolls, c.Page, c.Seed)
}
