package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// What a process finds in its directories, and what becomes of it, as in replica.Manager.

// finds is what a start has found so far.
type finds struct {
	image  *metadata.Image
	found  []*partition // that can be used
	failed []failedFind
}

type failedFind struct {
	d    *directory
	what logstore.FailedLog
}

func (f failedFind) id() replica.TopicIDPartition {
	return replica.TopicIDPartition{TopicID: f.what.ID.TopicID, Partition: f.what.ID.Partition}
}

// placed is a copy of a log, and where it is.
type placed struct {
	d   *directory
	log *logstore.Log
}

func idOf(l *logstore.Log) replica.TopicIDPartition {
	return replica.TopicIDPartition{TopicID: l.ID().TopicID, Partition: l.ID().Partition}
}

// openLogs opens what the directories hold, and sets aside what metadata does not place
// here.
func (b *broker) openLogs(image *metadata.Image) error {
	f := &finds{image: image}
	for _, d := range b.dirs {
		report, err := d.OpenLogs(context.Background(), logstore.OpenLogsParams{
			Now: b.w.now, Threads: 1, Config: func(logstore.ID) logstore.Config { return b.w.plan.config },
		})
		if err != nil {
			return err
		}
		for _, l := range report.Futures {
			b.futures = append(b.futures, placed{d, l})
		}
		if err := errors.Join(b.sortOutFailed(f, d, report.Failed), b.sortOut(f, d, report.Opened)); err != nil {
			return err
		}
	}
	if err := b.hostFailed(f); err != nil {
		return err
	}
	for _, p := range f.found {
		b.host(p, nil)
	}
	for _, d := range b.dirs {
		d.tick()
	}
	b.n.recovering = false
	return nil
}

// sortOutFailed notes what could not be opened, and sets aside what does not belong here.
func (b *broker) sortOutFailed(f *finds, d *directory, failed []logstore.FailedLog) error {
	var strays []logstore.ID
	var ids []replica.TopicIDPartition
	for _, what := range failed {
		found := failedFind{d, what}
		if here, _ := b.placement(f.image, found.id()); !here {
			strays, ids = append(strays, what.ID), append(ids, found.id())
			b.w.mended(b.n, found.id())
			continue
		}
		f.failed = append(f.failed, found)
	}
	return b.retire(func() error { return d.SetAsideFailed(b.w.now, strays...) }, ids...)
}

// sortOut keeps what belongs here, the better one of two of one partition.
func (b *broker) sortOut(f *finds, d *directory, opened []*logstore.Log) error {
	var strays, empty []*logstore.Log
	var ids []replica.TopicIDPartition
	for _, l := range opened {
		here, dir := b.placement(f.image, idOf(l))
		p := &partition{id: idOf(l), topic: l.ID().Topic, d: d, log: l}
		switch i := slices.IndexFunc(f.found, func(other *partition) bool { return other.id == p.id }); {
		case here && i < 0:
			f.found = append(f.found, p)
		case here:
			better, err := b.takeBetter(f.found[i], p, dir)
			if err != nil {
				return err
			}
			f.found[i] = better
		case l.SizeBytes() == 0:
			empty, ids = append(empty, l), append(ids, p.id)
		default:
			strays, ids = append(strays, l), append(ids, p.id)
		}
	}
	return b.retire(func() error {
		return errors.Join(d.DeleteLogs(b.w.now, empty...), d.SetAside(b.w.now, strays...))
	}, ids...)
}

// takeBetter decides between two logs of one partition, which a move that was cut off has left.
func (b *broker) takeBetter(x, y *partition, assigned uuid.UUID) (*partition, error) {
	b.w.tracef("%s-%d is in two directories", x.topic, x.id.Partition)
	order := cmp.Or(x.log.Outdoes(y.log), cmp.Compare(x.log.LogStart(), y.log.LogStart()))
	if order < 0 || order == 0 && y.d.DirectoryID() == assigned {
		x, y = y, x
	}
	if x.log.Contains(y.log) {
		return x, y.d.DeleteLogs(b.w.now, y.log)
	}
	return x, y.d.SetAside(b.w.now, y.log)
}

// placement tells whether a process of this node has a replica, and in which directory.
func (b *broker) placement(image *metadata.Image, id replica.TopicIDPartition) (here bool, dir uuid.UUID) {
	p := image.Partition(id.TopicID, id.Partition)
	if p == nil {
		return false, uuid.Zero
	}
	i := slices.Index(p.Replicas, b.n.id)
	if i < 0 || i >= len(p.Directories) {
		return i >= 0, uuid.DirUnassigned
	}
	return true, p.Directories[i]
}

// hostFailed makes replicas, offline, of what could not be opened, unless it is elsewhere.
func (b *broker) hostFailed(f *finds) error {
	for _, what := range f.failed {
		id := what.id()
		if i := slices.IndexFunc(f.found, func(p *partition) bool { return p.id == id }); i >= 0 {
			f.found[i].left = append(f.found[i].left, what.d)
			b.w.forgetDamage(b.n, id, what.d.Path())
			continue
		}
		if !b.w.damaged(b.n, id) && !b.n.marksStay[id] {
			return what.what.Err
		}
		if b.parts[id] != nil {
			continue // from another directory, in a worse state
		}
		topic := f.image.TopicByID(id.TopicID).Name // of a directory that is gone nobody else knows it
		b.w.tracef("%s-%d cannot be opened: %v", topic, id.Partition, what.what.Err)
		b.host(&partition{id: id, topic: topic, d: what.d, remains: true}, fmt.Errorf("%w: %w", kafkaerr.KafkaStorageError, what.what.Err))
	}
	return nil
}

// retire takes logs away. First their directories go, then their marks: where the process dies in
// between, or the disk is full, a start may find these alone.
func (b *broker) retire(do func() error, ids ...replica.TopicIDPartition) error {
	for _, id := range ids {
		b.n.marksStay[id] = true
	}
	err := do()
	for _, id := range ids {
		if err == nil && !b.n.crashed && !b.n.disturbed() {
			delete(b.n.marksStay, id)
		}
	}
	return err
}

// startFailed ends a process that could not open its logs.
func (b *broker) startFailed(err error) {
	if b.n.crashed {
		return
	}
	if !b.excused(err) {
		b.w.fail("CleanRecovery", "broker %d: %v", b.n.id, err)
	}
	b.w.tracef("start fails: %v", err)
	for _, d := range b.dirs {
		_ = d.Close(b.w.now, -1)
	}
	b.n.crashed = true // nothing of it is of use
}

// cleanStop tells the broker epoch of the clean stop that has ended the process before, -1 if
// there was none.
func (b *broker) cleanStop() int64 {
	previous := int64(-1)
	for i, d := range b.dirs {
		epoch, clean := d.PreviousBrokerEpoch()
		if !clean || i > 0 && epoch != previous {
			return -1
		}
		previous = epoch
	}
	return previous
}
