package quota

import "time"

// bucket fills with its limit in a second (Kafka's TokenBucket).
type bucket struct {
	tokens float64
	filled moment // up to then; 0: never, it is full at first
}

func (b *bucket) fill(w window, limit float64, now moment) (most float64) {
	most = float64(w.samples) * w.length.Seconds() * limit
	if b.filled == 0 {
		b.tokens = most
	} else {
		b.tokens = min(most, b.tokens+limit*now.since(b.filled).Seconds())
	}
	b.filled = now
	return most
}

// take takes tokens, unless the bucket is below zero: then it gives the time until it is not.
func (b *bucket) take(w window, limit, n float64, now moment) time.Duration {
	most := b.fill(w, limit, now)
	if b.tokens < 0 {
		return b.empty(limit)
	}
	b.tokens = min(most, b.tokens-n)
	return 0
}

// force takes tokens whatever there is, and gives the time until the bucket is not below
// zero any more.
func (b *bucket) force(w window, limit, n float64, now moment) time.Duration {
	b.tokens = min(b.fill(w, limit, now), b.tokens-n)
	if b.tokens < 0 {
		return b.empty(limit)
	}
	return 0
}

// empty is at least a millisecond: what rounds to nothing would be no refusal.
func (b *bucket) empty(limit float64) time.Duration {
	return max(milliseconds(-b.tokens/limit*1000), time.Millisecond)
}
