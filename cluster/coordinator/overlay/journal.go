package overlay

import "github.com/klamm-mq/klamm/internal/invariant"

// Journal is the order of the pending changes of one shard, over all its maps.
// The zero value is empty and ready to use.
type Journal struct {
	end     int64 // changes below are committed
	pending deque[entry]
	spares  []any // *pending[K, V] of whatever map
}

// entry is one pending change; its content is at the same place of its map's own history.
type entry struct {
	offset int64
	of     history
}

// history is the part of a map that the journal drives.
type history interface {
	commitOldest()
	dropNewest()
}

// Advance commits the changes below end. It never goes back.
func (j *Journal) Advance(end int64) {
	j.end = max(j.end, end)
	for j.pending.len() > 0 && j.pending.front().offset < j.end {
		j.pending.popFront().of.commitOldest()
	}
	j.release()
}

// Rollback drops the changes at and above from, newest first. None of them may be
// committed.
func (j *Journal) Rollback(from int64) {
	invariant.Check(from >= j.end, "rollback to %d of what is committed up to %d", from, j.end)
	for j.pending.len() > 0 && j.pending.back().offset >= from {
		j.pending.popBack().of.dropNewest()
	}
	j.release()
}

// maxJournalRoom is for how many changes an empty journal keeps room.
const maxJournalRoom = 4096

func (j *Journal) release() {
	if j.pending.len() == 0 && len(j.pending.ring) > maxJournalRoom {
		j.pending = deque[entry]{}
	}
}

// Committed is the end of what is committed.
func (j *Journal) Committed() int64 { return j.end }

// Pending counts the changes that are not committed.
func (j *Journal) Pending() int { return j.pending.len() }

// add files a change; false says that it is committed already.
func (j *Journal) add(offset int64, of history) bool {
	if offset < j.end {
		invariant.Check(j.pending.len() == 0, "change at %d, which is committed, after pending ones from %d", offset, j.end)
		return false
	}
	invariant.Check(j.pending.len() == 0 || j.pending.back().offset <= offset, "change at %d after one at a higher offset", offset)
	j.pending.pushBack(entry{offset, of})
	return true
}
