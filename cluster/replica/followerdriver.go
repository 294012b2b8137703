package replica

import (
	"github.com/klamm-mq/klamm/logstore"
)

// tookIn does what followers want done after an answer of their leader: one group commit
// for all of them.
func (m *Manager) tookIn(d *directory, all []FollowerEffects) {
	wanted := false
	for i := range all {
		e := &all[i]
		wanted = wanted || e.FlushWanted
		m.traffic.replicationBytesIn.Add(int64(e.AppendedBytes))
		if h := m.get(e.Partition.ID()); h != nil && h.Partition == e.Partition {
			m.carryOut(h, e.Effects)
		}
	}
	if wanted {
		d.committer.Wake()
	}
}

// prepareTruncations lowers the checkpoints of a directory with one write for all. What it
// cannot do is done, or found out, by each truncation.
func (m *Manager) prepareTruncations(all []*Truncation) {
	cuts := make([]logstore.Truncation, 0, len(all))
	var dir *directory
	for _, t := range all {
		h := m.get(t.p.ID())
		if h == nil || h.Partition != t.p || h.log == nil || t.To >= int64(h.log.LogEnd()) {
			continue
		}
		dir = h.dir
		cuts = append(cuts, logstore.Truncation{Log: h.log, To: t.To})
	}
	if len(cuts) == 0 {
		return
	}
	if err := dir.PrepareTruncations(cuts...); err != nil {
		m.opts.Logger.Warn("checkpoints were not lowered together", "dir", dir.Path(), "err", err)
	}
}
