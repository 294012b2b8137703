package replica

import (
	"errors"
	"slices"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/logstore"
)

// repairable tells whether a damaged replica may be moved aside and fetched again (D24), or
// one whose disk was replaced: metadata says that it belongs to neither ISR nor ELR any more,
// and another broker leads. Before that it could be the last copy of what was acknowledged,
// however bad. And it says so in a later leader epoch than those in which the replica has
// fetched: no leader counts such a fetch any more, however late it comes, and takes in a
// replica that has lost what it had.
func (m *Manager) repairable(h *hosted, p *metadata.Partition) bool {
	leader, _ := h.Leader()
	switch {
	case leader.Epoch >= p.LeaderEpoch:
		return false
	case p.Leader == metadata.NoLeader || p.Leader == m.opts.BrokerID,
		slices.Contains(p.ISR, m.opts.BrokerID), slices.Contains(p.ELR, m.opts.BrokerID):
		return false
	case h.remains != nil:
		return h.remains.offline() == nil
	case errors.Is(h.failed, errNoDirectory):
		return m.mayBeginAnew(p) && !m.hasFuture(h.ID())
	}
	at := h.at()
	return at.log != nil && at.log.Failure() != nil && at.dir.offline() == nil // else there is no directory for it
}

// repair begins a replica anew. Its files, if there are any, stay as -stray.
func (m *Manager) repair(now time.Time, h *hosted, p *metadata.Partition, c TopicConfig) {
	id, topic := h.ID(), h.Topic()
	m.fetchers.leave(id)
	m.moves.end(now, h)
	m.dropCopies(now, id)
	if err := m.setAside(now, h); err != nil {
		m.opts.Logger.Error("damaged replica was not set aside", "topic", topic, "partition", id.Partition, "err", err)
		return
	}
	delete(m.failed, id)
	m.remove(id)
	m.begin(now, id, topic, p, c, nil)
	if begun := m.get(id); begun.Failure() == nil {
		m.opts.Logger.Warn("replica is fetched again", "topic", topic, "partition", id.Partition, "leader", p.Leader)
		m.opts.OnReplicaRepaired(id)
	}
}

// setAside takes care of what there is of a replica, also of the memory of a directory where it
// was before: no empty log may be begun there as long as it lasts.
func (m *Manager) setAside(now time.Time, h *hosted) error {
	if at := h.at(); at.log != nil {
		if err := at.dir.SetAside(now, at.log); err != nil {
			return err
		}
	}
	for _, d := range m.dirs {
		if d.offline() != nil {
			continue
		}
		if err := d.SetAsideFailed(now, h.logID()); err != nil {
			return err
		}
	}
	return nil
}

func (h *hosted) logID() logstore.ID {
	return logstore.ID{Topic: h.Topic(), TopicID: h.ID().TopicID, Partition: h.ID().Partition}
}
