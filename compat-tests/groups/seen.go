package groups

import (
	"fmt"
	"sync"
)

// place is where a record is.
type place struct {
	partition int32
	offset    int64
}

// records are values by place; the zero value is empty.
type records struct {
	mu     sync.Mutex
	values map[place]string
	wrong  []string // the same place with two values
	again  int      // places that came more than once
}

func (r *records) add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.values == nil {
		r.values = map[place]string{}
	}
	at := place{e.Partition[0], e.Offset}
	before, known := r.values[at]
	if known {
		r.again++
	}
	if known && before != e.Value {
		r.wrong = append(r.wrong, fmt.Sprintf("partition %d offset %d is %q and %q", at.partition, at.offset, before, e.Value))
	}
	r.values[at] = e.Value
}

func (r *records) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.values)
}

// repeats counts the records that came more than once.
func (r *records) repeats() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.again
}

// missing compares what was acknowledged with what was read.
func missing(acked, read *records) (faults []string) {
	acked.mu.Lock()
	defer acked.mu.Unlock()
	read.mu.Lock()
	defer read.mu.Unlock()
	for at, value := range acked.values {
		got, found := read.values[at]
		switch {
		case !found:
			faults = append(faults, fmt.Sprintf("partition %d offset %d was read by nobody", at.partition, at.offset))
		case got != value:
			faults = append(faults, fmt.Sprintf("partition %d offset %d is %q, %q was acknowledged", at.partition, at.offset, got, value))
		}
	}
	return append(faults, read.wrong...)
}
