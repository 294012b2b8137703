package check

import "slices"

// Served compares a whole partition, as a client reads it between start and end, with
// what was promised. What retention has taken off the front is beyond doubt.
func (h *History) Served(p Partition, start, lastStable, end int64, records []Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.offsets(p, start, lastStable, end)
	next, compacted := start, h.of(p).keyed != nil
	for _, r := range records {
		if r.Offset < next || r.Offset > next && !compacted {
			h.broken("PollsContiguous", "%s: record %d is served where %d is due", p, r.Offset, next)
		}
		next = r.Offset + 1
	}
	if next < lastStable && !compacted {
		h.broken("AckedRecordsReadable", "%s: served up to %d, the end is %d", p, next, lastStable)
	}
	h.newest(p, records)
	h.promises(p, start, records)
	h.sequences(p, start, records)
}

// promises finds those that are not kept.
func (h *History) promises(p Partition, start int64, records []Record) {
	served := make(map[int64]string, len(records))
	for _, r := range records {
		served[r.Offset] = r.Value
	}
	promised, keyed := h.of(p).promised, h.of(p).keyed
	for _, offset := range sortedKeys(promised) {
		is, ok := served[offset]
		switch before := promised[offset]; {
		case offset < start:
		case !ok && keyed.isReplaced(before.value):
		case !ok:
			h.broken("AckedRecordsReadable", "%s: %s was %s at %d, where nothing is", p, short(before.value), before.by, offset)
			return // the first tells enough
		case is != before.value:
			h.broken("AckedRecordsReadable", "%s: %s was %s at %d, where %s is", p, short(before.value), before.by, offset, short(is))
			return
		}
	}
	// Who reads on from here may rely on it.
	for _, r := range records {
		promised[r.Offset] = promise{r.Value, "served"}
	}
}

// sequences checks the order of each idempotent producer's records.
func (h *History) sequences(p Partition, start int64, records []Record) {
	next := map[string]int{}
	for _, r := range records {
		name, n, ok := parseValue(r.Value)
		if !ok || h.producers[name] == nil {
			h.broken("AckedRecordsReadable", "%s: at %d is %s, which nobody sent", p, r.Offset, short(r.Value))
			return
		}
		producer := h.producers[name]
		if !producer.idempotent {
			continue
		}
		due, seen := next[name]
		if !seen && start > 0 || h.of(p).keyed != nil && n > due {
			due = n // retention took those before, or compaction some between
		}
		for producer.refused[p][due] && due < n {
			due++
		}
		if n != due {
			h.broken("SequencesContiguous", "%s: record %d of %s stands at %d, where %d is due", p, n, name, r.Offset, due)
			return
		}
		next[name] = n + 1
	}
}

func sortedKeys[V any](m map[int64]V) []int64 {
	keys := make([]int64, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
