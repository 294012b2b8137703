package dump

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klamm-mq/klamm/logstore/checkpoint"
	"github.com/klamm-mq/klamm/logstore/producerstate"
	"github.com/klamm-mq/klamm/logstore/segment"
)

// Report is what a check has seen.
type Report struct {
	Partitions, Segments, Batches, Records, Bytes int64

	Problems []Problem // damage
	Notes    []Problem // what a crash or a compaction explains
}

// ErrNothingToCheck is for a directory that is neither a log directory nor a partition's.
var ErrNothingToCheck = errors.New("neither a log directory nor the directory of a partition")

// Check reads everything below a log directory, or in the directory of one partition. A
// file that cannot be read is a problem like any other; the error says that there was
// nothing to begin with.
func Check(o Options, dir string) (Report, error) {
	names, err := o.FS.ReadDir(dir)
	if err != nil {
		return Report{}, fmt.Errorf("read %s: %w", dir, err)
	}
	c := &checker{Options: o, seen: map[checkpoint.TopicIDPartition]bool{}}
	if hasSegments(names) {
		c.promises = loadPromises(o.FS, filepath.Dir(dir))
		c.partition(dir)
		return c.report, nil
	}
	c.promises = loadPromises(o.FS, dir)
	known := false
	for _, entry := range names {
		name := filepath.Join(dir, entry.Name())
		switch {
		case !entry.IsDir():
			known = c.file(name) || known
		case topicOf(name) != "" && !strings.HasSuffix(name, "-delete"): // those are half gone
			known = true
			c.partition(name)
		}
	}
	if !known {
		return Report{}, fmt.Errorf("%s: %w", dir, ErrNothingToCheck)
	}
	c.missingPartitions(dir)
	return c.report, nil
}

func hasSegments(names []fs.DirEntry) bool {
	return slices.ContainsFunc(names, func(e fs.DirEntry) bool {
		_, suffix, ok := segment.ParseFileName(e.Name())
		return ok && suffix == segment.LogSuffix
	})
}

type checker struct {
	Options
	report   Report
	promises promises
	seen     map[checkpoint.TopicIDPartition]bool
}

func (c *checker) damage(p Problem) { c.report.Problems = append(c.report.Problems, p) }
func (c *checker) note(p Problem)   { c.report.Notes = append(c.report.Notes, p) }

// file checks what a file says by itself; false if its name is none that is known.
func (c *checker) file(name string) bool {
	found, err := File(c.Options, name, func(Entry) error { return nil })
	if errors.Is(err, ErrUnknownFile) {
		return false
	}
	c.report.Problems = append(c.report.Problems, found...)
	if err != nil {
		c.unreadable(name, err)
	}
	return true
}

func (c *checker) unreadable(name string, err error) {
	c.damage(Problem{File: name, Reason: err.Error()})
}

// partition checks the directory of one partition.
func (c *checker) partition(dir string) {
	c.report.Partitions++
	names, err := c.FS.ReadDir(dir)
	if err != nil {
		c.unreadable(dir, err)
		return
	}
	var bases, swaps []int64
	for _, entry := range names {
		name := filepath.Join(dir, entry.Name())
		base, suffix, ok := segment.ParseFileName(entry.Name())
		if b, kind, stage, staged := segment.ParseStagedName(entry.Name()); staged && stage == segment.Swap && kind == segment.LogSuffix {
			swaps = append(swaps, b)
			c.note(Problem{File: name, Reason: "a compaction was cut off while it put this segment in place; the next start of a broker finishes it"})
		}
		switch {
		case ok && suffix == segment.LogSuffix:
			bases = append(bases, base)
		case ok || entry.IsDir(): // an index: with its segment
		case filepath.Ext(name) == producerstate.SnapshotSuffix:
			c.snapshot(name)
		case entry.Name() == checkpoint.LeaderEpochFile:
			c.epochs(name)
		case plainName(entry.Name()) == entry.Name(): // else it is on its way in or out
			c.file(name)
		}
	}
	slices.Sort(bases)
	c.segments(dir, bases, swaps)
}

// segments checks that each begins where the one before it ends, and the promises. Of those that a
// segment named .swap is about to replace some may be gone already.
func (c *checker) segments(dir string, bases, swaps []int64) {
	if len(bases) == 0 {
		return
	}
	id := c.identity(dir)
	c.begin(dir, bases[0], id)
	var s *segmentCheck
	end := bases[0]
	for i, base := range bases {
		s = newSegmentCheck(c, dir, base)
		s.last = i == len(bases)-1
		s.mayBeTorn = s.last && c.promises.mayEndBefore(id)
		s.promised = c.promises.reached(id)
		switch {
		case base < end:
			c.damage(Problem{File: s.name, Reason: fmt.Sprintf("it begins at offset %d, but the segment before it ends at %d", base, end)})
		case base > end && slices.ContainsFunc(swaps, func(b int64) bool { return b < base }):
		case base > end:
			c.gap(s.name, 0, fmt.Sprintf("offsets %d to %d are missing between segments", end, base-1))
		}
		end = s.run()
	}
	if promised := c.promises.reached(id); c.promises.binding && end < promised {
		c.damage(Problem{File: s.name, Pos: s.tail.pos, Reason: fmt.Sprintf("the log ends at offset %d, but everything below %d had reached the disk", end, promised)})
	}
}

// begin checks where the first segment begins. Kafka leaves no trace of segments that
// retention has removed; this broker notes the log's start before it removes them.
func (c *checker) begin(dir string, base int64, id identity) {
	start := c.promises.starts[id.name]
	if !c.promises.binding || id.name.Topic == "" || base <= start {
		return
	}
	p := Problem{
		File:   filepath.Join(dir, segment.FileName(base, segment.LogSuffix)),
		Reason: fmt.Sprintf("the first segment begins at offset %d, but the log starts at %d", base, start),
	}
	if c.promises.clean {
		c.damage(p)
		return
	}
	c.note(p) // a follower that began afresh, and crashed
}

func (c *checker) gap(name string, pos int64, reason string) {
	p := Problem{File: name, Pos: pos, Reason: reason}
	if c.GapsAreDamage {
		c.damage(p)
		return
	}
	c.note(p)
}

// epochs checks that epochs and their offsets rise.
func (c *checker) epochs(name string) {
	entries, err := checkpoint.ReadEpochs(c.FS, name)
	if err != nil {
		c.unreadableText(name, err)
		return
	}
	for i := 1; i < len(entries); i++ {
		before, e := entries[i-1], entries[i]
		if e.Epoch <= before.Epoch || e.StartOffset < before.StartOffset {
			c.damage(Problem{File: name, Line: i + 3, Reason: fmt.Sprintf("epoch %d from offset %d on follows epoch %d from %d on",
				e.Epoch, e.StartOffset, before.Epoch, before.StartOffset)})
		}
	}
}

func (c *checker) unreadableText(name string, err error) {
	if p, ok := problemOf(err); ok {
		c.damage(p)
		return
	}
	c.unreadable(name, err)
}

// snapshot checks that a snapshot knows nothing from behind its offset.
func (c *checker) snapshot(name string) {
	producers, err := producerstate.ReadSnapshot(c.FS, name)
	if err != nil {
		c.unreadableText(name, err)
		return
	}
	at, ok := producerstate.ParseSnapshotName(filepath.Base(name))
	for _, p := range producers {
		if last, has := p.Last(); ok && has && last.LastOffset >= at {
			c.damage(Problem{File: name, Reason: fmt.Sprintf("producer %d has written offset %d, behind the snapshot's %d", p.ID, last.LastOffset, at)})
		}
	}
}

// identity is by what a log directory's checkpoints know a partition.
type identity struct {
	name checkpoint.TopicPartition
	id   checkpoint.TopicIDPartition
}

func (c *checker) identity(dir string) identity {
	i := identity{}
	topic := topicOf(dir)
	if topic == "" || retired(filepath.Base(dir)) {
		return i // checkpoints know nothing of it
	}
	var partition int32
	base := filepath.Base(dir)
	if _, err := fmt.Sscanf(base[len(topic):], "-%d", &partition); err != nil {
		return i
	}
	i.name = checkpoint.TopicPartition{Topic: topic, Partition: partition}
	if id, err := checkpoint.ReadPartitionMetadata(c.FS, filepath.Join(dir, checkpoint.PartitionMetadataFile)); err == nil {
		i.id = checkpoint.TopicIDPartition{TopicID: id, Partition: partition}
		c.seen[i.id] = true
	}
	return i
}

// missingPartitions: what has reached the disk once must still be there.
func (c *checker) missingPartitions(dir string) {
	for _, id := range sortedKeys(c.promises.flushed, compareIDs) {
		if end := c.promises.flushed[id]; end > 0 && !c.seen[id] {
			c.damage(Problem{
				File: filepath.Join(dir, checkpoint.FlushedFile), Line: 1,
				Reason: fmt.Sprintf("partition %d of topic id %s reaches offset %d, but has no directory", id.Partition, id.TopicID, end),
			})
		}
	}
}
