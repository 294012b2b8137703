package group

// maxPendingMembers bounds the members of one group that were sent an id and have not come
// back with it (KIP-394). Each is dropped when its session timeout is over; a flood of
// joins reaches this number first, and then the oldest is dropped. It is told
// UNKNOWN_MEMBER_ID when it does come back, and begins anew.
const maxPendingMembers = 10_000

// pendingMembers are those members, in the order in which they got their ids.
type pendingMembers struct {
	byID  map[string]*timer // the session timer of each
	order []string          // ids; those that left are skipped
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
}

// remove forgets a member. Its timer is the caller's to stop.
func (p *pendingMembers) remove(id string) {
	delete(p.byID, id)
	for len(p.order) > 0 && !p.has(p.order[0]) {
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
