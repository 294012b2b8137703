package replica

import (
	"github.com/klamm-mq/klamm/logstore"
)

// tookIn does what followers want done after an answer of their leader: one group commit
// for all of them, after those that nobody waits for have been flushed alone.
func (m *Manager) tookIn(all []FollowerEffects) {
	for i := range all {
		e := &all[i]
		m.traffic.replicationBytesIn.Add(int64(e.AppendedBytes))
		if h := m.get(e.Partition.ID()); h != nil && h.Partition == e.Partition {
			m.carryOut(h, e.Effects)
			at := h.at()
			if e.FlushAlone {
				at.log.FlushAlone(e.Forget)
			}
			if e.FlushWanted {
				at.dir.committer.Wake() // wakes coalesce
			}
		}
	}
}

// prepareTruncations lowers the checkpoints of each directory with one write for all. What it
// cannot do is done, or found out, by each truncation.
func (m *Manager) prepareTruncations(all []*Truncation) {
	cuts := make(map[*directory][]logstore.Truncation, 1)
	for _, t := range all {
		h := m.get(t.p.ID())
		if h == nil || h.Partition != t.p {
			continue
		}
		if at := h.at(); at.log != nil && t.To < int64(at.log.LogEnd()) {
			cuts[at.dir] = append(cuts[at.dir], logstore.Truncation{Log: at.log, To: t.To})
		}
	}
	for dir, list := range cuts {
		if err := dir.PrepareTruncations(list...); err != nil {
			m.opts.Logger.Warn("checkpoints were not lowered together", "dir", dir.Path(), "err", err)
		}
	}
}
