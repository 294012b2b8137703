package logstore

// FlushAlone makes what AppendBehind has appended durable, beside the group commits, and then
// lets the next one take the log in, which finds nothing left to write and reports the end as
// flushed. So nobody who waits for a group commit waits for what may be a megabyte.
//
// If forget, the system need not keep it in memory: what is far behind its leader is the work of a
// move, and would push out of the page cache what clients read.
//
// It blocks on the disk, and may run beside everything else. If the sync fails the directory does,
// as after a round.
func (l *Log) FlushAlone(forget bool) {
	if l.usable() == nil {
		if err := l.syncSegments(forget); err != nil && !isOutOfFiles(err) { // for lack of files the round tries again
			l.dir.fail(err)
		}
	}
	l.dir.wantFlush(l)
}

// syncSegments syncs the files of which a round would have to sync anything.
func (l *Log) syncSegments(forget bool) error {
	l.mu.RLock()
	from, segs := l.marks.flushed, l.segs
	l.mu.RUnlock()
	flushes, err := beginFlushes(nil, segs, from)
	for i := len(flushes) - 1; i >= 0; i-- { // the order in which they were written
		f := flushes[i]
		if err == nil {
			if err = f.File().Sync(); err == nil && forget {
				f.Forget()
			}
		}
		f.Finish(err)
	}
	return err
}
