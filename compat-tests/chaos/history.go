package chaos

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// place is where a record stands.
type place struct {
	partition int32
	offset    int64
}

// history is what the producer of one topic was told, and what the group that reads it has
// seen.
type history struct {
	producer   string
	idempotent bool

	mu     sync.Mutex
	acked  map[int]place // by number
	failed int
	seen   map[place]int // number
	read   map[int]bool
	again  int // records that the group has read more than once
	faults []string
}

func newHistory(producer string, idempotent bool) *history {
	return &history{producer: producer, idempotent: idempotent, acked: map[int]place{}, seen: map[place]int{}, read: map[int]bool{}}
}

// told takes a line of the producer.
func (h *history) told(line string) (known, progress bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var n int
	var at place
	if got, _ := fmt.Sscanf(line, "acked %d %d %d", &n, &at.partition, &at.offset); got == 3 {
		h.acked[n] = at
		return true, true
	}
	if strings.HasPrefix(line, "failed ") {
		h.failed++
	}
	return false, false
}

// saw takes a record that a member of the group has read.
func (h *history) saw(at place, value string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, ok := h.number(value)
	if !ok {
		h.faults = append(h.faults, fmt.Sprintf("strange: the group read %q at %v", value, at))
		return
	}
	if before, seen := h.seen[at]; seen {
		h.again++
		if before != n {
			h.faults = append(h.faults, fmt.Sprintf("changed: the group read number %d and later %d at %v", before, n, at))
		}
	}
	h.seen[at], h.read[n] = n, true
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

// served is what the broker serves in the end: values by partition and offset.
type served map[place]string

// check compares all of it.
func (h *history) check(s served, ends map[int32]int64) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	faults := h.faults
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	first := map[int]place{}
	for partition, end := range ends {
		newest := -1
		for offset := range end {
			at := place{partition, offset}
			n, ok := h.number(s[at])
			if !ok {
				fault("strange: %q at %v", s[at], at)
				continue
			}
			if before, twice := first[n]; twice {
				if h.idempotent {
					fault("duplicate: number %d at %v and %v", n, before, at)
				}
				continue
			}
			first[n] = at
			if n < newest {
				fault("out of order: number %d at %v stands behind %d", n, at, newest)
			}
			newest = max(newest, n)
		}
	}
	for n, at := range h.acked {
		if got, ok := h.number(s[at]); !ok || got != n {
			fault("lost: number %d was acknowledged at %v, where %q is", n, at, s[at])
		}
		if !h.read[n] {
			fault("unread: the group has not read number %d, acknowledged at %v", n, at)
		}
	}
	for at, n := range h.seen {
		if got, ok := h.number(s[at]); !ok || got != n {
			fault("gone: the group has read number %d at %v, where %q is", n, at, s[at])
		}
	}
	return faults
}
