package chaos

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// place is where a record stands.
type place struct {
	partition int32
	offset    int64
}

// history is what the producer of one topic was told, and what its readers have seen: the
// members of a group, and followers.
type history struct {
	producer   string
	idempotent bool
	pulse      pulse             // beats with each acknowledgement
	pulses     [partitions]pulse // each with those of one partition

	mu     sync.Mutex
	acked  map[int]place // by number
	failed int
	seen   map[place]int // number, whoever has read it
	read   map[int]bool  // by the group
	places map[place]bool
	again  int // records that the group has read more than once
	faults []string
}

func newHistory(producer string, idempotent bool) *history {
	return &history{
		producer: producer, idempotent: idempotent, acked: map[int]place{},
		seen: map[place]int{}, read: map[int]bool{}, places: map[place]bool{},
	}
}

// told takes a line of the producer.
func (h *history) told(line string) (known, progress bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var n int
	var at place
	if got, _ := fmt.Sscanf(line, "acked %d %d %d", &n, &at.partition, &at.offset); got == 3 {
		h.acked[n] = at
		now := time.Now()
		h.pulse.beat(now)
		if int(at.partition) < len(h.pulses) {
			h.pulses[at.partition].beat(now)
		}
		return true, true
	}
	if strings.HasPrefix(line, "failed ") {
		h.failed++
	}
	return false, false
}

// lap tells the longest time without any acknowledgement since the lap before, and the longest
// without one of some partition.
func (h *history) lap(now time.Time) (any, ofOne time.Duration) {
	for i := range h.pulses {
		ofOne = max(ofOne, h.pulses[i].lap(now))
	}
	return h.pulse.lap(now), ofOne
}

// saw takes a record that a member of the group has read.
func (h *history) saw(at place, value string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, ok := h.witness("the group", at, value)
	if !ok {
		return
	}
	if h.places[at] {
		h.again++
	}
	h.places[at], h.read[n] = true, true
}

// witness compares what is read at a place with what anybody has read there before.
func (h *history) witness(who string, at place, value string) (n int, ok bool) {
	if n, ok = h.number(value); !ok {
		h.fault("strange: %s read %.60q at %v", who, value, at)
		return 0, false
	}
	if before, seen := h.seen[at]; seen && before != n {
		h.fault("changed: %s read number %d at %v, where number %d had been read", who, n, at, before)
	}
	h.seen[at] = n
	return n, true
}

func (h *history) fault(format string, args ...any) {
	h.faults = append(h.faults, fmt.Sprintf(format, args...))
}

// follower is a reader without a group, who reads every partition from its start and must
// see each offset once, in order. next is guarded by the history's lock.
type follower struct {
	name string
	h    *history
	next map[int32]int64
}

func (h *history) newFollower(name string) *follower {
	return &follower{name: name, h: h, next: map[int32]int64{}}
}

func (f *follower) saw(at place, value string) {
	f.h.mu.Lock()
	defer f.h.mu.Unlock()
	switch due := f.next[at.partition]; {
	case at.offset > due:
		f.h.fault("skipped: %s read offset %d of partition %d when %d was due", f.name, at.offset, at.partition, due)
	case at.offset < due:
		f.h.fault("stepped back: %s read offset %d of partition %d when %d was due", f.name, at.offset, at.partition, due)
	}
	f.next[at.partition] = at.offset + 1
	f.h.witness(f.name, at, value)
}

// failed takes an error from which a follower cannot go on as if nothing had happened.
func (f *follower) failed(err error) {
	f.h.mu.Lock()
	defer f.h.mu.Unlock()
	f.h.fault("refused: %s was told %v", f.name, err)
}

// position is the offset that it reads next.
func (f *follower) position(partition int32) int64 {
	f.h.mu.Lock()
	defer f.h.mu.Unlock()
	return f.next[partition]
}

// number is that of a record of the producer.
func (h *history) number(value string) (n int, ok bool) {
	text, found := strings.CutPrefix(value, h.producer+"-")
	n, err := strconv.Atoi(text)
	return n, found && err == nil
}

// unread is how many acknowledged records the group has not read yet.
func (h *history) unread() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.acked {
		if !h.read[i] {
			n++
		}
	}
	return n
}

// check compares all of it.
func (h *history) check(s served, ends map[int32]int64) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	faults := slices.Clone(h.faults)
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	h.checkOrder(s, ends, fault)
	for n, at := range h.acked {
		if got, ok := h.number(s[at]); !ok || got != n {
			fault("lost: number %d was acknowledged at %v, where %.60q is", n, at, s[at])
		}
		if !h.read[n] {
			fault("unread: the group has not read number %d, acknowledged at %v", n, at)
		}
	}
	for at, n := range h.seen {
		if got, ok := h.number(s[at]); !ok || got != n {
			fault("gone: number %d was read at %v, where %.60q is", n, at, s[at])
		}
	}
	return faults
}

// checkOrder looks for records that stand twice, or behind a later one.
func (h *history) checkOrder(s served, ends map[int32]int64, fault func(format string, args ...any)) {
	first := map[int]place{}
	for partition, end := range ends {
		newest := -1
		for offset := range end {
			at := place{partition, offset}
			n, ok := h.number(s[at])
			if !ok {
				fault("strange: %.60q at %v", s[at], at)
				continue
			}
			if before, twice := first[n]; twice {
				if h.idempotent {
					fault("duplicate: number %d at %v and %v", n, before, at)
				}
				continue
			}
			first[n] = at
			// What a producer that is not idempotent has given up may still arrive.
			if _, acked := h.acked[n]; n < newest && (h.idempotent || acked) {
				fault("out of order: number %d at %v stands behind %d", n, at, newest)
			}
			newest = max(newest, n)
		}
	}
}
