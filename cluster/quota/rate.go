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

// moment counts milliseconds from a beginning that whoever keeps the meters chose: finer
// than Kafka measures, pauses would differ from its own.
type moment int64

// clock makes moments.
type clock struct{ epoch time.Time }

// at is never 0, which stands for never.
func (c clock) at(now time.Time) moment { return moment(now.Sub(c.epoch).Milliseconds()) + 1 }

func (m moment) since(other moment) time.Duration {
	return time.Duration(m-other) * time.Millisecond
}

// rate is a sum over the last windows (Kafka's Rate over a SampledStat).
type rate struct {
	samples []sample // a ring of one more than the window has: the oldest may overlap
	current int
}

type sample struct {
	start, last moment // of its first moment and of its last use
	sum         float64
}

// record adds to the current sample, or begins the next if that one is over.
func (r *rate) record(w window, value float64, now moment) {
	if len(r.samples) == 0 {
		r.samples = append(r.samples, sample{start: now, last: now})
	}
	if now.since(r.samples[r.current].start) >= w.length {
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
func (r *rate) measure(w window, now moment) (perSecond float64, over time.Duration) {
	sum, over := r.total(w, now)
	if missing := w.samples - 1 - int(over/w.length); missing > 0 {
		over += time.Duration(missing) * w.length
	}
	over = max(over, time.Millisecond)
	return sum / over.Seconds(), over
}

// total gives the sum of the samples, those that are too old emptied, and the time since the
// oldest of them began.
func (r *rate) total(w window, now moment) (sum float64, over time.Duration) {
	oldest := now
	for i := range r.samples {
		s := &r.samples[i]
		if now.since(s.last) >= time.Duration(w.samples)*w.length {
			*s = sample{start: now, last: now}
		}
		oldest = min(oldest, s.start)
		sum += s.sum
	}
	return sum, now.since(oldest)
}

// pause is how long nothing may happen until the rate is down at the limit.
func (r *rate) pause(w window, limit float64, now moment) time.Duration {
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

// average is that of the values of the last minute, at least the last half of it (Kafka's
// Avg with the samples of metrics that are no quotas).
type average struct {
	halves [2]struct {
		start moment
		sum   float64
		count int
	}
	current int
}

const halfMinute = 30 * time.Second

func (a *average) record(value float64, now moment) {
	if now.since(a.halves[a.current].start) >= halfMinute {
		a.current = 1 - a.current
		a.halves[a.current].start, a.halves[a.current].sum, a.halves[a.current].count = now, 0, 0
	}
	h := &a.halves[a.current]
	h.sum += value
	h.count++
}

// measure is 0 if there were none.
func (a *average) measure(now moment) float64 {
	sum, count := 0.0, 0
	for _, h := range a.halves {
		if now.since(h.start) < 2*halfMinute {
			sum, count = sum+h.sum, count+h.count
		}
	}
	return sum / float64(max(count, 1))
}
