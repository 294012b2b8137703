package logstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/klamm-mq/klamm/logstore/checkpoint"
	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/logstore/vfs"
)

// After a failed sync the kernel marks the pages clean that it could not write. A
// process that is started again on the same machine reads them well, syncs them with
// success, and loses them with the next power cut. So the failure, of a start as well,
// leaves a marker, which needs no sync: whoever still sees those pages sees it, too. The
// next start writes everything again that no successful sync has covered, so that its own
// syncs have something to write.
const failedFile = ".klamm_disk_failed"

// leaveMarker is best effort: the disk has just failed. Where no descriptor is left for a
// file, a directory of that name says the same.
func (d *Dir) leaveMarker(cause error) {
	f, err := d.o.FS.OpenFile(d.file(failedFile), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o644)
	if err != nil {
		_ = d.o.FS.MkdirAll(d.file(failedFile), 0o755)
		return
	}
	_, _ = f.WriteAt([]byte(cause.Error()+"\n"), 0)
	_ = f.Close()
}

// beginDistrust looks for the marker of an earlier process.
func (d *Dir) beginDistrust() error {
	marker, err := d.o.FS.Stat(d.file(failedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	cause := []byte("not known: there was no descriptor to write it down")
	if !marker.IsDir() {
		if cause, err = vfs.ReadFile(d.o.FS, d.file(failedFile)); err != nil {
			return err
		}
	}
	d.distrust = true
	d.o.Logger.Warn("the disk has failed in an earlier run: what may not have reached it is written again",
		"dir", d.o.Path, "cause", strings.TrimSpace(string(cause)))
	if d.cleanStop {
		return nil
	}
	// An earlier start may have removed the marker of a clean stop, and then lost that.
	return checkpoint.VoidCleanShutdown(d.o.FS, d.file(checkpoint.CleanShutdownFile))
}

// noteFailedStart leaves a marker unless the error passes, or is none of the disk's.
func (d *Dir) noteFailedStart(err error) {
	if MayPass(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return
	}
	d.leaveMarker(err)
}

// endDistrust follows when everything in doubt was written again and synced.
func (d *Dir) endDistrust() error {
	if !d.distrust {
		return nil
	}
	if err := d.meta.write(d.o.FS, d.file(metaFile)); err != nil {
		return err
	}
	d.marks.stale = [numMarkFiles]bool{true, true, true, true, true, true}
	if err := d.marks.raise(highWatermarkMarks, segmentMarks, cleanedMarks); err != nil {
		return err
	}
	d.distrust = false
	return d.o.FS.Remove(d.file(failedFile))
}

// rewrite writes again what no successful sync is known to have covered: the bytes
// above the persisted offset, and the names of files that may be younger than the last
// sync of their directory.
func (o *opening) rewrite() error {
	fsys := o.d.o.FS
	for _, s := range o.segs {
		from, err := o.doubtfulPos(s)
		if err != nil {
			return unreadable(s.Path(), err)
		}
		if err := rewriteBytes(fsys, s.Path(), from); err != nil {
			return err
		}
		s.MarkUnflushed()
	}
	meta := o.l.file(checkpoint.PartitionMetadataFile)
	if err := rewriteBytes(fsys, meta, 0); err != nil {
		return err
	}
	o.metaInDoubt, o.dirInDoubt, o.beyond = true, true, true
	entries, err := fsys.ReadDir(o.l.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := rewriteName(fsys, o.l.file(e.Name())); err != nil {
			return err
		}
	}
	return rewriteName(fsys, o.l.path)
}

// doubtfulPos is where a segment's bytes above the persisted offset begin.
func (o *opening) doubtfulPos(s *segment.Segment) (int64, error) {
	if o.persisted <= s.BaseOffset() {
		return 0, nil
	}
	at, found, err := s.Lookup(o.persisted)
	if err != nil || !found {
		return s.Size(), err
	}
	return at.Pos, nil
}

// rewriteBytes writes a file's bytes from a position on over themselves.
func rewriteBytes(fsys vfs.FS, name string, from int64) error {
	f, err := fsys.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("write again %s: %w", name, err)
	}
	if err := errors.Join(rewriteFrom(f, from), f.Close()); err != nil {
		return fmt.Errorf("write again %s: %w", name, err)
	}
	return nil
}

func rewriteFrom(f vfs.File, from int64) error {
	buf := make([]byte, 256<<10)
	for {
		n, err := f.ReadAt(buf, from)
		if n > 0 {
			if _, err := f.WriteAt(buf[:n], from); err != nil {
				return err
			}
			from += int64(n)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// againSuffix is that of a file on its way to the name that it had. A crash on that way
// is mended by readDir, also when it took the marker.
const againSuffix = ".again"

// rewriteName gives a file or directory its name anew.
func rewriteName(fsys vfs.FS, name string) error {
	if err := fsys.Rename(name, name+againSuffix); err != nil {
		return fmt.Errorf("name again %s: %w", name, err)
	}
	return nameBack(fsys, name+againSuffix)
}

// nameBack takes the suffix away again.
func nameBack(fsys vfs.FS, name string) error {
	if err := fsys.Rename(name, strings.TrimSuffix(name, againSuffix)); err != nil {
		return fmt.Errorf("name again %s: %w", name, err)
	}
	return nil
}

// readDir lists a directory, after giving everything in it its own name.
func readDir(fsys vfs.FS, dir string) ([]fs.DirEntry, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	renamed := false
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), againSuffix) {
			continue
		}
		if err := nameBack(fsys, filepath.Join(dir, e.Name())); err != nil {
			return nil, err
		}
		renamed = true
	}
	if !renamed {
		return entries, nil
	}
	return fsys.ReadDir(dir)
}
