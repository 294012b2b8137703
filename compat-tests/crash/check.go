package crash

import "fmt"

// check compares what is served with what clients were told, and returns the faults.
func check(h *history, s served) (faults []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	places := map[name]place{}
	for partition, names := range s {
		last := map[name]int{} // of a writer's run (n is 0): its newest number so far
		for offset, n := range names {
			at := place{partition, int64(offset)}
			if before, twice := places[n]; twice {
				faults = append(faults, fmt.Sprintf("duplicate: %v is at %v and at %v", n, before, at))
			}
			places[n] = at
			run := name{writer: n.writer, run: n.run}
			if before, any := last[run]; any && n.n < before {
				faults = append(faults, fmt.Sprintf("out of order: %v at %v stands after number %d", n, at, before))
			}
			last[run] = n.n
		}
	}
	for n, at := range h.acked {
		where, there := places[n]
		if !there {
			faults = append(faults, fmt.Sprintf("lost: %v, acknowledged at %v", n, at))
		} else if at != unknownPlace && where != at {
			faults = append(faults, fmt.Sprintf("moved: %v, acknowledged at %v, is at %v", n, at, where))
		}
	}
	for at, n := range h.seen {
		if where, there := places[n]; !there || where != at {
			faults = append(faults, fmt.Sprintf("unread: a reader saw %v at %v, which is now at %v", n, at, where))
		}
	}
	return faults
}
