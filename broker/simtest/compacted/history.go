package compacted

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/klamm-mq/klamm/protocol/batch"
)

// Record is what a judge knows of a record. Its ID is unique in the run: it is the value, or
// what a header says in a tombstone, which has none.
type Record struct {
	Key, ID   string
	Tombstone bool
}

// IDHeader is the header of a tombstone that bears its ID.
const IDHeader = "id"

// New is a record to be produced, with or without key.
func New(timestampMs int64, r Record) batch.NewRecord {
	n := batch.NewRecord{TimestampMs: timestampMs, Value: []byte(r.ID)}
	if r.Key != "" {
		n.Key = []byte(r.Key)
	}
	if r.Tombstone {
		n.Value, n.Headers = nil, []batch.Header{{Key: IDHeader, Value: []byte(r.ID)}}
	}
	return n
}

// Of is a record that was read.
func Of(r *batch.Record) Record {
	if r.HasValue {
		return Record{Key: string(r.Key), ID: string(r.Value)}
	}
	for key, value := range r.Headers.All() {
		if string(key) == IDHeader {
			return Record{Key: string(r.Key), ID: string(value), Tombstone: true}
		}
	}
	return Record{Key: string(r.Key), Tombstone: true}
}

// History is what cleanings have met in one partition, on any of its replicas. The zero value
// has met nothing.
type History struct {
	records map[int64]Record
	missing map[int64]bool      // may be missing
	met     map[int64]time.Time // tombstones, when a cleaning met them first
	// before are those that might be missing on a branch that has lost: the log of a replica that
	// was cleaned there may win again.
	before map[int64]bool
	// excused are records of which only a log knows that was on its way to something else.
	excused map[int64]bool
	// forsaken: a replica may have missed a tombstone for longer than the retention.
	forsaken bool
	// Retention is how long a tombstone stays after it was met (delete.retention.ms).
	Retention time.Duration
}

// Begin notes that a log with these records is about to be cleaned up to upTo at most.
func (h *History) Begin(log map[int64]Record, upTo int64, now time.Time) error {
	if h.records == nil {
		h.records, h.missing, h.met = map[int64]Record{}, map[int64]bool{}, map[int64]time.Time{}
		h.before, h.excused = map[int64]bool{}, map[int64]bool{}
	}
	h.correct(log)
	for o, r := range log {
		if o >= upTo {
			continue
		}
		if before, ok := h.records[o]; ok && before != r {
			return fmt.Errorf("%v is at %d, where %v was", r, o, before)
		}
		h.records[o] = r
	}
	for _, o := range h.newest(upTo) {
		if r := h.records[o]; !r.Tombstone {
			continue
		}
		if first, ok := h.met[o]; !ok || now.Before(first) { // clocks step back
			h.met[o] = now
		}
		if now.Sub(h.met[o]) >= h.Retention {
			h.missing[o] = true
		}
	}
	return nil
}

// Excuse is Begin for a replica that is on its way to something else: what it may lose is noted,
// and nothing is compared.
func (h *History) Excuse(log map[int64]Record, upTo int64) {
	own := History{}
	_ = own.Begin(log, upTo, time.Time{})
	_ = h.Begin(nil, 0, time.Time{})
	for o, r := range own.records {
		if _, known := h.records[o]; !known && own.missing[o] {
			h.records[o], h.excused[o] = r, true
		}
		h.missing[o] = h.missing[o] || own.missing[o]
	}
}

// correct forgets what was excused where the log that goes on has another record.
func (h *History) correct(log map[int64]Record) {
	for o := range h.excused {
		if now, there := log[o]; there && now != h.records[o] {
			delete(h.records, o)
			delete(h.missing, o)
			delete(h.met, o)
		}
		if _, there := log[o]; there {
			delete(h.excused, o)
		}
	}
}

// Forsake ends the search for deleted keys that come back.
func (h *History) Forsake() { h.forsaken = true }

// Rebase makes a log from start to end what there is now, at and above start: it was elected
// uncleanly.
func (h *History) Rebase(log map[int64]Record, start, end int64) {
	h.forsaken = true
	for o, was := range h.records {
		now, there := log[o]
		if o >= end || o >= start && (there && now != was || !there && !h.missing[o]) {
			if h.missing[o] {
				h.before[o] = true
			}
			delete(h.records, o)
			delete(h.missing, o)
			delete(h.met, o)
		}
	}
	for o := range h.before {
		if _, there := log[o]; !there && o >= start && o < end {
			h.missing[o] = true
		}
	}
}

// newest lists the newest record of each key below upTo; the others may be missing from now on.
func (h *History) newest(upTo int64) []int64 {
	byKey := make(map[string]int64)
	for o, r := range h.records {
		if last, ok := byKey[r.Key]; o < upTo && (!ok || o > last) {
			byKey[r.Key] = o
		}
	}
	for o, r := range h.records {
		if o < byKey[r.Key] {
			h.missing[o] = true
		}
	}
	return slices.Sorted(maps.Values(byKey))
}

// End looks at what is left when a cleaning has succeeded: end is the first offset that was
// not cleaned.
func (h *History) End(log map[int64]Record, start, end int64) error {
	byKey := make(map[string]int64)
	for o, r := range log {
		if o < end {
			byKey[r.Key] = max(byKey[r.Key], o)
		}
	}
	for o, r := range log {
		if o < byKey[r.Key] && o >= start {
			return fmt.Errorf("cleaned up to %d, %v is still at %d, beside a newer one at %d", end, r, o, byKey[r.Key])
		}
	}
	return nil
}

// MayMiss tells whether all offsets of [from, to) may be without a record.
func (h *History) MayMiss(from, to int64) bool {
	for o := from; o < to; o++ {
		if !h.missing[o] {
			return false
		}
	}
	return true
}

// Of is what stood at an offset that may be missing.
func (h *History) Of(o int64) (Record, bool) {
	r, ok := h.records[o]
	return r, ok && h.missing[o]
}

// Cut forgets what was at and above end: it was lost, lawfully.
func (h *History) Cut(end int64) {
	for o := range h.records {
		if o >= end {
			delete(h.records, o)
			delete(h.missing, o)
			delete(h.met, o)
		}
	}
}

var errCameBack = errors.New("a deleted key came back")

// Check holds a log from start to end against everything that cleanings have met: no offset
// has another record than it had, nothing is missing that has to be there, and no key whose
// tombstone has gone is there again.
func (h *History) Check(log map[int64]Record, start, end int64) error {
	h.correct(log)
	gone := make(map[string]int64) // keys whose newest record is a tombstone that has gone
	for o, was := range h.records {
		now, there := log[o]
		switch {
		case o < start || o >= end:
		case there && now != was:
			return fmt.Errorf("%v is at %d, where %v was", now, o, was)
		case !there && !h.missing[o]:
			return fmt.Errorf("%v is missing at %d", was, o)
		case !there && was.Tombstone && !h.forsaken:
			gone[was.Key] = max(gone[was.Key], o)
		}
	}
	for o, r := range log {
		if at, ok := gone[r.Key]; ok && o < at && h.isNewest(at) {
			return fmt.Errorf("%w: %v is at %d, and the tombstone that was at %d has gone", errCameBack, r, o, at)
		}
	}
	return nil
}

// isNewest tells that no later record of the key is known.
func (h *History) isNewest(at int64) bool {
	for o, r := range h.records {
		if o > at && r.Key == h.records[at].Key {
			return false
		}
	}
	return true
}
