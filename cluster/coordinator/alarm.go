package coordinator

import "time"

// alarm is a timer for a deadline that changes often. It is set anew only for an earlier
// one: a deadline that moved on, as most do, costs one wake-up too many at the most.
type alarm struct {
	timer *time.Timer
	at    time.Time // zero: not set
}

// set makes the alarm go off at a time, if there is one.
func (a *alarm) set(at time.Time, ok bool) {
	if !ok || !a.at.IsZero() && !at.Before(a.at) {
		return
	}
	a.at = at
	if a.timer == nil {
		a.timer = time.NewTimer(time.Until(at))
		return
	}
	a.timer.Reset(time.Until(at))
}

func (a *alarm) c() <-chan time.Time {
	if a.timer == nil {
		return nil
	}
	return a.timer.C
}

// fired notes that it has gone off.
func (a *alarm) fired() { a.at = time.Time{} }

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}
