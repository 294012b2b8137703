package group

// maxPendingMembers bounds the members of one group that were sent an id and have not come
// back with it (KIP-394). Each is dropped when its session timeout is over; a flood of
// joins reaches this number first, and then the oldest is dropped. It is told
// UNKNOWN_MEMBER_ID when it does come back, and begins anew.
//
// Their ids begin with what the client calls itself, up to 32 KiB, so together they are
// bounded too.
const (
	maxPendingMembers = 10_000
	maxPendingBytes   = 4 << 20
)

// pendingMembers are those members, in the order in which they got their ids.
type pendingMembers struct {
	byID  map[string]*timer // the session timer of each
	order []string          // ids; those that left are skipped
	bytes int               // of the ids in byID
}

// isFull tells that the oldest is to be forgotten before another comes.
func (p *pendingMembers) isFull() bool {
	return p.len() >= maxPendingMembers || p.bytes >= maxPendingBytes
}

func (p *pendingMembers) len() int { return len(p.byID) }

func (p *pendingMembers) has(id string) bool {
	_, ok := p.byID[id]
	return ok
}

func (p *pendingMembers) add(id string, session *timer) {
	if p.byID == nil {
		p.byID = make(map[string]*timer)
	}
	p.byID[id] = session
	p.order = append(p.order, id)
	p.bytes += len(id)
}

// remove forgets a member. Its timer is the caller's to stop.
func (p *pendingMembers) remove(id string) {
	if p.has(id) {
		delete(p.byID, id)
		p.bytes -= len(id)
	}
	for len(p.order) > 0 && !p.has(p.order[0]) {
		p.order[0] = "" // they may be long
		p.order = p.order[1:]
	}
	// Those that left in the middle are dropped when they are the larger part.
	if len(p.order) > 2*len(p.byID)+16 {
		p.compact()
	}
}

func (p *pendingMembers) compact() {
	kept := make([]string, 0, len(p.byID))
	for _, id := range p.order {
		if p.has(id) {
			kept = append(kept, id)
		}
	}
	p.order = kept
}

// oldest is the member that got its id first.
func (p *pendingMembers) oldest() string { return p.order[0] }
