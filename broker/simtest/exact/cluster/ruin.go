package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/klamm-mq/klamm/logstore/checkpoint"
	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/logstore/vfs"
)

// victim is a log of a process that has ended.
type victim struct {
	n              *node
	p              *partition
	dir            string
	start, flushed int64 // as they are persisted
	bases          []int64
	files          map[string][]byte // by path, all of the log's
	noted          []checkpoint.Segment
}

// damageLog does something to the files of a log that a start has to find, or a reader.
func (w *world) damageLog(n *node, p *partition) {
	n.quietly(func() {
		v, err := lookAt(n, p)
		if err == nil && len(v.bases) > 0 {
			err = w.ruin(v)
		}
		if err != nil {
			w.fail("Harness", "damage %s: %v", p.log.Path(), err)
		}
	})
}

func lookAt(n *node, p *partition) (*victim, error) {
	v := &victim{n: n, p: p, dir: p.log.Path(), files: make(map[string][]byte)}
	key := checkpoint.TopicIDPartition{TopicID: p.id.TopicID, Partition: p.id.Partition}
	parent := path.Dir(v.dir)
	flushed, err := checkpoint.ReadFlushed(n.fs, path.Join(parent, checkpoint.FlushedFile))
	if err != nil {
		return nil, err
	}
	starts, err := checkpoint.ReadOffsets(n.fs, path.Join(parent, checkpoint.LogStartFile))
	if err != nil {
		return nil, err
	}
	noted, err := checkpoint.ReadSegments(n.fs, path.Join(parent, checkpoint.SegmentsFile))
	if err != nil {
		return nil, err
	}
	v.flushed, v.noted = flushed[key], noted[key]
	v.start = starts[checkpoint.TopicPartition{Topic: p.topic, Partition: p.id.Partition}]
	entries, err := n.fs.ReadDir(v.dir)
	if errors.Is(err, fs.ErrNotExist) && v.flushed == 0 {
		return v, nil // a log that nothing has happened to has no files
	}
	for _, e := range entries {
		name := path.Join(v.dir, e.Name())
		content, readErr := vfs.ReadFile(n.fs, name)
		err = errors.Join(err, readErr)
		v.files[name] = content
		if base, suffix, ok := segment.ParseFileName(e.Name()); ok && suffix == segment.LogSuffix {
			v.bases = append(v.bases, base)
		}
	}
	slices.Sort(v.bases)
	return v, err
}

func (v *victim) log(i int) string {
	return path.Join(v.dir, segment.FileName(v.bases[i], segment.LogSuffix))
}

// ruin draws a segment, and what happens to it.
func (w *world) ruin(v *victim) error {
	i := w.rand.IntN(len(v.bases))
	name := v.log(i)
	from, to, ok := w.somewhere(v.files[name], v.start, v.flushed)
	if !ok {
		return nil
	}
	how := w.rand.IntN(10)
	if how == 1 && !v.missed(i) {
		how = 9
	}
	if w.cleanings.on && how >= 1 && how < 5 && !v.wasNoted(i) {
		how = 9 // it may be one of Kafka's, which end early
	}
	d := damage{node: v.n, id: v.p.id, name: name, undo: v.bringBack}
	size := int64(len(v.files[name]))
	var err error
	switch {
	case how == 0:
		d.name = v.dir
		w.tracef("%s of broker %d is gone", v.dir, v.n.id)
		err = errors.Join(v.n.fs.RemoveAll(v.dir), v.n.fs.SyncDir(path.Dir(v.dir)))
	case how == 1:
		w.tracef("%s of broker %d is gone", name, v.n.id)
		err = errors.Join(v.n.fs.Remove(name), v.n.fs.SyncDir(v.dir))
	case how < 5:
		at := from
		if how == 2 {
			at = from + 1 + w.rand.Int64N(to-from-1)
		}
		w.tracef("%s of broker %d ends at %d of %d bytes", name, v.n.id, at, size)
		err = change(v.n.fs, name, func(f vfs.File) error { return f.Truncate(at) })
	default:
		const crcAt = 17 // what lies before it, no checksum covers
		at, before := from+crcAt+w.rand.Int64N(to-from-crcAt), [1]byte{}
		before[0] = v.files[name][at]
		w.tracef("a bit of %s of broker %d flips at %d of %d bytes", name, v.n.id, at, size)
		bit := byte(1) << w.rand.IntN(8)
		err = change(v.n.fs, name, func(f vfs.File) error { _, err := f.WriteAt([]byte{before[0] ^ bit}, at); return err })
		d.undo = func() error { // the log may have gone on before that was found
			return change(v.n.fs, name, func(f vfs.File) error { _, err := f.WriteAt(before[:], at); return err })
		}
	}
	w.report.Damaged++
	w.damages = append(w.damages, d)
	return err
}

// missed tells whether a start can know that a segment is missing: the first one is only
// when it was noted.
func (v *victim) missed(i int) bool {
	return i > 0 || len(v.bases) == 1 || slices.ContainsFunc(v.noted, func(s checkpoint.Segment) bool {
		return s.Base == v.bases[0] && s.End > v.start && s.End <= v.flushed
	})
}

// wasNoted tells whether it is known where a segment ended, and the one before it.
func (v *victim) wasNoted(i int) bool {
	return !slices.ContainsFunc(v.bases[max(i-1, 0):i+1], func(base int64) bool {
		return !slices.ContainsFunc(v.noted, func(s checkpoint.Segment) bool { return s.Base == base })
	})
}

func change(fsys vfs.FS, name string, how func(vfs.File) error) error {
	f, err := fsys.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(how(f), f.Sync(), f.Close())
}

// bringBack is for a log that a start could not open: nothing has come to it since.
func (v *victim) bringBack() error {
	err := v.n.fs.MkdirAll(v.dir, 0o755)
	for name, content := range v.files {
		if err == nil {
			err = vfs.WriteFileAtomic(v.n.fs, name, content)
		}
	}
	if err != nil {
		return fmt.Errorf("write the files of %s: %w", v.dir, err)
	}
	return v.n.fs.SyncDir(path.Dir(v.dir))
}

// somewhere draws a batch of a segment that ends below an offset, and reaches above another.
func (w *world) somewhere(content []byte, above, below int64) (from, to int64, ok bool) {
	const head, magicAt, lastDeltaAt = 61, 16, 23
	var starts, ends []int64
	for at := 0; at+head <= len(content) && content[at+magicAt] == 2; { // zeros may follow
		end := at + 12 + int(binary.BigEndian.Uint32(content[at+8:]))
		last := int64(binary.BigEndian.Uint64(content[at:])) + int64(binary.BigEndian.Uint32(content[at+lastDeltaAt:]))
		if end > len(content) || last >= below {
			break
		}
		if last >= above {
			starts, ends = append(starts, int64(at)), append(ends, int64(end))
		}
		at = end
	}
	if len(starts) == 0 {
		return 0, 0, false
	}
	i := w.rand.IntN(len(starts))
	return starts[i], ends[i], true
}
