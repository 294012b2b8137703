package quota

import (
	"math"
	"time"
)

// window says how a meter measures.
type window struct {
	samples int           // that a rate is made of, the current one included
	length  time.Duration // of each
}

// rate is a sum over the last windows (Kafka's Rate over a SampledStat).
type rate struct {
	samples []sample // a ring of one more than the window has: the oldest may overlap
	current int
}

type sample struct {
	start, last time.Time // of its first moment and of its last use
	sum         float64
}

// record adds to the current sample, or begins the next if that one is over.
func (r *rate) record(w window, value float64, now time.Time) {
	if len(r.samples) == 0 {
		r.samples = append(r.samples, sample{start: now, last: now})
	}
	if now.Sub(r.samples[r.current].start) >= w.length {
		r.current = (r.current + 1) % (w.samples + 1)
		if r.current == len(r.samples) {
			r.samples = append(r.samples, sample{})
		}
		r.samples[r.current] = sample{start: now, last: now}
	}
	s := &r.samples[r.current]
	s.sum += value
	s.last = now
}

// measure gives the rate in a second and the time that it is measured over.
func (r *rate) measure(w window, now time.Time) (perSecond float64, over time.Duration) {
	oldest, sum := now, 0.0
	for i := range r.samples {
		s := &r.samples[i]
		if now.Sub(s.last) >= time.Duration(w.samples)*w.length {
			*s = sample{start: now, last: now}
		}
		if s.start.Before(oldest) {
			oldest = s.start
		}
		sum += s.sum
	}
	over = now.Sub(oldest)
	if missing := w.samples - 1 - int(over/w.length); missing > 0 {
		over += time.Duration(missing) * w.length
	}
	over = max(over, time.Millisecond)
	return sum / over.Seconds(), over
}

// pause is how long nothing may happen until the rate is down at the limit.
func (r *rate) pause(w window, limit float64, now time.Time) time.Duration {
	perSecond, over := r.measure(w, now)
	if perSecond <= limit {
		return 0
	}
	return milliseconds((perSecond - limit) / limit * float64(over) / float64(time.Millisecond))
}

// milliseconds rounds as Kafka does, up to what fits an answer.
func milliseconds(ms float64) time.Duration {
	return time.Duration(math.Floor(min(ms, math.MaxInt32)+0.5)) * time.Millisecond
}
