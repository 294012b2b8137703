package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/logstore/checkpoint"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// Damage of one replica (D24): a bit of a batch that flips, or the end of the log that is gone,
// below what was persisted as flushed; above it nobody could tell it from what a power cut
// leaves. Whoever meets it reports the replica, which is fetched again once it is in neither ISR nor ELR.
// The last copy stays as it is, offline, until somebody brings the file back.

// damage is one that was done, and what was there before.
type damage struct {
	node   *node
	id     replica.TopicIDPartition
	name   string // of the file
	at     int64
	before []byte
}

// damageOne ends the process of a node and damages one of its logs.
func (w *world) damageOne(n *node) {
	if n.b == nil || len(n.b.order) == 0 {
		return
	}
	p := n.b.order[w.rand.IntN(len(n.b.order))]
	if p.log == nil || p.Failure() != nil || w.damaged(n, p.id) {
		return
	}
	dir := p.log.Path()
	w.tracef("broker %d is killed, to be damaged", n.id)
	w.report.Kills++
	n.fs.Kill()
	n.crashed = true
	n.quietly(func() {
		if err := w.damageLog(n, p, dir); err != nil {
			w.fail("Harness", "damage %s: %v", dir, err)
		}
	})
}

// quietly does something to a disk that no process does.
func (n *node) quietly(do func()) {
	sync, call := n.dieAtSync, n.dieAtCall
	n.dieAtSync, n.dieAtCall = 0, 0
	do()
	n.dieAtSync, n.dieAtCall = sync, call
}

func (w *world) damageLog(n *node, p *partition, dir string) error {
	flushed, err := checkpoint.ReadFlushed(n.fs, path.Join(path.Dir(dir), checkpoint.FlushedFile))
	if err != nil {
		return nil // there is none yet
	}
	persisted := flushed[checkpoint.TopicIDPartition{TopicID: p.id.TopicID, Partition: p.id.Partition}]
	entries, err := n.fs.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) && persisted == 0 {
		return nil // a log that nothing has happened to has no files
	}
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".log") {
			names = append(names, path.Join(dir, e.Name()))
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return nil
	}
	name := names[w.rand.IntN(len(names))]
	f, err := n.fs.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	size, err := f.Size()
	if err != nil || size == 0 {
		return err
	}
	content := make([]byte, size)
	if _, err := f.ReadAt(content, 0); err != nil {
		return err
	}
	from, to, ok := w.somewhere(content, persisted)
	if !ok {
		return nil
	}
	w.report.Damaged++
	d := damage{node: n, id: p.id, name: name}
	if name == names[len(names)-1] && w.rand.IntN(2) == 0 {
		d.at, d.before = from, content[from:]
		w.tracef("%s of broker %d ends at %d of %d bytes", name, n.id, from, size)
		err = f.Truncate(from)
	} else {
		const crcAt = 17 // what lies before it, no checksum covers
		d.at = from + crcAt + w.rand.Int64N(to-from-crcAt)
		d.before = content[d.at : d.at+1]
		w.tracef("a bit of %s of broker %d flips at %d of %d bytes", name, n.id, d.at, size)
		_, err = f.WriteAt([]byte{d.before[0] ^ 1<<w.rand.IntN(8)}, d.at)
	}
	w.damages = append(w.damages, d)
	if err != nil {
		return err
	}
	return f.Sync()
}

// somewhere draws a batch of a segment that ends below an offset.
func (w *world) somewhere(content []byte, below int64) (from, to int64, ok bool) {
	const head, magicAt, lastDeltaAt = 61, 16, 23
	var starts, ends []int64
	for at := 0; at+head <= len(content) && content[at+magicAt] == 2; { // zeros may follow
		end := at + 12 + int(binary.BigEndian.Uint32(content[at+8:]))
		last := int64(binary.BigEndian.Uint64(content[at:])) + int64(binary.BigEndian.Uint32(content[at+lastDeltaAt:]))
		if end > len(content) || last >= below {
			break
		}
		starts, ends = append(starts, int64(at)), append(ends, int64(end))
		at = end
	}
	if len(starts) == 0 {
		return 0, 0, false
	}
	i := w.rand.IntN(len(starts))
	return starts[i], ends[i], true
}

// damaged tells whether a replica was damaged, and not fetched again since.
func (w *world) damaged(n *node, id replica.TopicIDPartition) bool {
	return slices.ContainsFunc(w.damages, func(d damage) bool { return d.node == n && d.id == id })
}

// mended says that a replica has been begun anew, or is gone.
func (w *world) mended(n *node, id replica.TopicIDPartition) {
	w.damages = slices.DeleteFunc(w.damages, func(d damage) bool { return d.node == n && d.id == id })
}

// rescue brings back the files of replicas that are the last of their partition.
func (w *world) rescue() {
	for _, d := range slices.Clone(w.damages) {
		p := w.quorum.image().Partition(d.id.TopicID, d.id.Partition)
		if p == nil || d.node.b == nil || !d.node.b.failed(d.id) || slices.ContainsFunc(append(slices.Clone(p.ISR), p.ELR...), func(r int32) bool { return r != d.node.id }) {
			continue
		}
		w.tracef("%s of broker %d is brought back", d.name, d.node.id)
		w.mended(d.node, d.id)
		d.node.fs.Kill()
		d.node.crashed = true
		d.node.quietly(func() {
			f, err := d.node.fs.OpenFile(d.name, os.O_RDWR, 0)
			if err == nil {
				_, err = f.WriteAt(d.before, d.at)
				err = errors.Join(err, f.Sync(), f.Close())
			}
			if err != nil {
				w.fail("LastCopyStays", "bring back %s: %v", d.name, err)
			}
		})
	}
	w.bury()
}

// noticeFailures ends the replicas whose logs turned out to be damaged, as
// replica.Manager.LogFailed does.
func (b *broker) noticeFailures() {
	for _, p := range b.order {
		if p.log == nil || p.Failure() != nil || p.log.Failure() == nil {
			continue
		}
		b.w.tracef("%s-%d fails: %v", p.topic, p.id.Partition, p.log.Failure())
		if !b.w.damaged(b.n, p.id) {
			b.w.fail("CleanRecovery", "broker %d: %s-%d fails without a fault: %v", b.n.id, p.topic, p.id.Partition, p.log.Failure())
		}
		b.fail(p, p.log.Failure())
	}
}

// fail ends a replica.
func (b *broker) fail(p *partition, err error) {
	b.leave(p)
	b.carryOut(p, p.Retire(fmt.Errorf("%w: %w", kafkaerr.KafkaStorageError, err)))
}

// failed tells whether the process has a replica, and cannot use it.
func (b *broker) failed(id replica.TopicIDPartition) bool {
	p := b.parts[id]
	return p != nil && p.Failure() != nil
}

// failedReplicas are those that a heartbeat reports.
func (b *broker) failedReplicas() (ids []replica.TopicIDPartition) {
	for _, p := range b.order {
		if p.remains || p.log != nil && p.log.Failure() != nil {
			ids = append(ids, p.id)
		}
	}
	return ids
}

// repair begins a damaged replica anew where metadata allows it, as replica.Manager does.
func (b *broker) repair(p *partition, state *metadata.Partition) {
	if leader, _ := p.Leader(); leader.Epoch >= state.LeaderEpoch {
		return
	}
	if p.Failure() == nil || !p.remains && (p.log == nil || p.log.Failure() == nil) ||
		state.Leader == metadata.NoLeader || state.Leader == b.n.id ||
		slices.Contains(state.ISR, b.n.id) || slices.Contains(state.ELR, b.n.id) {
		return
	}
	var err error
	if p.remains {
		err = p.d.SetAsideFailed(b.w.now, logstore.ID{Topic: p.topic, TopicID: p.id.TopicID, Partition: p.id.Partition})
	} else {
		err = p.d.SetAside(b.w.now, p.log)
	}
	if b.n.crashed {
		return
	}
	if err != nil {
		if !b.excused(err) {
			b.w.fail("CleanRecovery", "broker %d sets %s-%d aside: %v", b.n.id, p.topic, p.id.Partition, err)
		}
		return
	}
	b.w.tracef("%s-%d is fetched again", p.topic, p.id.Partition)
	b.w.report.Repaired++
	b.w.mended(b.n, p.id)
	b.forget(p)
	b.begin(p.id, p.topic, state)
}
