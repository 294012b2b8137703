package logstore

import "github.com/klamm-mq/klamm/logstore/checkpoint"

// How marks are forgotten. They are what a start knows a damaged log by, one that lacks its
// first segment above all: so they outlive the name of the log.
//
//	        directory    marks    a start finds
//	1       t-0          yes      the log, whole or damaged
//	2       t-0.…-stray  yes      that a partition is missing; metadata tells whether one should be there
//	3       t-0.…-stray  no       nothing
//
// Each is durable before the next. The other way round a crash would leave t-0 without marks,
// and whatever is left in it would be a log. A log that starts afresh under its own name has
// no such order: its marks go first (see TruncateFullyAndStartAt).

// forgetRenamed ends what renames have begun: it makes the new names durable, and only then
// forgets the marks. Where that passes, the keeper goes on with it; without room, or a
// descriptor, the entries stay in the checkpoints for now, and leave with the next write.
func (d *Dir) forgetRenamed() error {
	d.marks.lock()
	defer d.marks.unlock()
	if err := d.forgetPending(); err != nil {
		_ = d.checkpointError(err) // Err says what does not pass
	}
	return d.Err()
}

// forgetPending is forgetRenamed for those who hold the turn.
func (d *Dir) forgetPending() error {
	d.mu.Lock()
	ids := d.renamed
	d.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	if err := d.o.FS.SyncDir(d.o.Path); err != nil {
		return err
	}
	d.mu.Lock()
	d.renamed = d.renamed[len(ids):]
	d.mu.Unlock()
	return d.marks.remove(ids, d.namesOfOthers(ids))
}

// forgetStale removes marks that an earlier log of this name may have left. There is no
// directory of that name, which has to be durable as well. What has nothing to do with that
// name, and waits for room, does not stand in the way.
func (d *Dir) forgetStale(id ID) error {
	d.marks.lock()
	defer d.marks.unlock()
	if err := d.forgetPending(); err != nil && !MayPass(err) {
		return err
	}
	if !d.marks.knows(id) {
		return nil
	}
	if err := d.o.FS.SyncDir(d.o.Path); err != nil {
		return err
	}
	return d.marks.remove([]ID{id}, d.namesOfOthers([]ID{id}))
}

// forget removes the log's promises, durably, and stops rounds from making new ones.
func (d *Dir) forget(l *Log) error {
	if err := d.Err(); err != nil {
		return err
	}
	d.marks.lock()
	defer d.marks.unlock()
	l.lowerTo(0)
	if err := d.marks.remove([]ID{l.id}, nil); err != nil {
		return d.checkpointError(err)
	}
	return nil
}

// namesOfOthers are the names of logs in use, beside those that are about to be forgotten: the
// topic may have been created again since.
func (d *Dir) namesOfOthers(ids []ID) map[checkpoint.TopicPartition]bool {
	forgotten := make(map[checkpoint.TopicIDPartition]bool, len(ids))
	names := make(map[checkpoint.TopicPartition]bool, len(ids))
	for _, id := range ids {
		forgotten[id.key()], names[id.name()] = true, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, shelf := range []map[checkpoint.TopicIDPartition]*Log{d.logs, d.futures} {
		for key, l := range shelf {
			if _, ours := names[l.id.name()]; ours && !forgotten[key] {
				names[l.id.name()] = true
			}
		}
	}
	return names
}

// forgetAbsent forgets what is known of names that no directory bears, as a start found. That
// they are gone is made durable before: a process that was killed may have renamed them.
// Without a descriptor for that, the next start does it.
func (d *Dir) forgetAbsent(names map[checkpoint.TopicPartition]bool, have map[checkpoint.TopicIDPartition]bool) error {
	d.marks.keepLost(names, have)
	if !d.marks.knowsOthers(names, have) {
		return nil
	}
	if err := d.o.FS.SyncDir(d.o.Path); err != nil {
		if isOutOfFiles(err) {
			return nil
		}
		return err
	}
	d.marks.prune(names)
	d.marks.pruneSegments(have)
	return nil
}
