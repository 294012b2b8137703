package quota

import "time"

// bucket fills with its limit in a second (Kafka's TokenBucket).
type bucket struct {
	tokens float64
	filled time.Time // up to then; zero: never, it is full at first
}

func (b *bucket) fill(w window, limit float64, now time.Time) (most float64) {
	most = float64(w.samples) * w.length.Seconds() * limit
	if b.filled.IsZero() {
		b.tokens = most
	} else {
		b.tokens = min(most, b.tokens+limit*now.Sub(b.filled).Seconds())
	}
	b.filled = now
	return most
}

// take takes tokens if the bucket is not below zero, else it gives the time until then.
func (b *bucket) take(w window, limit, n float64, now time.Time) time.Duration {
	most := b.fill(w, limit, now)
	if b.tokens < 0 {
		return milliseconds(-b.tokens / limit * 1000)
	}
	b.tokens = min(most, b.tokens-n)
	return 0
}
