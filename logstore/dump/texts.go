package dump

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klamm-mq/klamm/logstore/checkpoint"
	"github.com/klamm-mq/klamm/logstore/producerstate"
	"github.com/klamm-mq/klamm/logstore/vfs"
)

// unreadable makes a problem of what a reader says about a file's content; other errors,
// the file system's, stay errors.
func (d *dumper) unreadable(err error) error {
	p, ok := problemOf(err)
	if !ok {
		return err
	}
	return d.damaged(p)
}

func problemOf(err error) (Problem, bool) {
	var format *checkpoint.FormatError
	var snapshot *producerstate.CorruptSnapshotError
	switch {
	case errors.As(err, &format):
		return Problem{File: format.File, Line: max(1, format.Line), Reason: format.Reason}, true
	case errors.As(err, &snapshot):
		return Problem{File: snapshot.File, Pos: snapshot.Pos, Reason: snapshot.Reason}, true
	}
	return Problem{}, false
}

// exists makes a missing file an error; the readers of checkpoints take it for an empty
// one.
func (d *dumper) exists() error {
	if _, err := d.FS.Stat(d.name); err != nil {
		return fmt.Errorf("read %s: %w", d.name, err)
	}
	return nil
}

func (d *dumper) epochs() error {
	if err := d.exists(); err != nil {
		return err
	}
	entries, err := checkpoint.ReadEpochs(d.FS, d.name)
	if err != nil {
		return d.unreadable(err)
	}
	for _, e := range entries {
		if err := d.emit("epoch", Field{"leader_epoch", e.Epoch}, Field{"start_offset", e.StartOffset}); err != nil {
			return err
		}
	}
	return nil
}

func (d *dumper) offsets() error {
	if err := d.exists(); err != nil {
		return err
	}
	offsets, err := checkpoint.ReadOffsets(d.FS, d.name)
	if err != nil {
		return d.unreadable(err)
	}
	for _, p := range sortedKeys(offsets, func(a, b checkpoint.TopicPartition) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	}) {
		if err := d.emit("offset", Field{"topic", p.Topic}, Field{"partition", p.Partition}, Field{"offset", offsets[p]}); err != nil {
			return err
		}
	}
	return nil
}

func (d *dumper) flushed() error {
	if err := d.exists(); err != nil {
		return err
	}
	offsets, err := checkpoint.ReadFlushed(d.FS, d.name)
	if err != nil {
		return d.unreadable(err)
	}
	for _, p := range sortedKeys(offsets, compareIDs) {
		if err := d.emit("offset", Field{"topic_id", p.TopicID}, Field{"partition", p.Partition}, Field{"offset", offsets[p]}); err != nil {
			return err
		}
	}
	return nil
}

func (d *dumper) segments() error {
	if err := d.exists(); err != nil {
		return err
	}
	segments, err := checkpoint.ReadSegments(d.FS, d.name)
	if err != nil {
		return d.unreadable(err)
	}
	for _, p := range sortedKeys(segments, compareIDs) {
		for _, s := range segments[p] {
			err := d.emit("segment", Field{"topic_id", p.TopicID}, Field{"partition", p.Partition},
				Field{"base_offset", s.Base}, Field{"size", s.Size}, Field{"end_offset", s.End})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func compareIDs(a, b checkpoint.TopicIDPartition) int {
	return cmp.Or(bytes.Compare(a.TopicID[:], b.TopicID[:]), cmp.Compare(a.Partition, b.Partition))
}

func sortedKeys[K comparable, V any](of map[K]V, compare func(a, b K) int) []K {
	keys := make([]K, 0, len(of))
	for key := range of {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, compare)
	return keys
}

// properties shows meta.properties ("key=value") and partition.metadata ("key: value").
func (d *dumper) properties() error {
	data, err := vfs.ReadFile(d.FS, d.name)
	if err != nil {
		return fmt.Errorf("read %s: %w", d.name, err)
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		at := strings.IndexAny(line, "=:")
		if at < 0 {
			at = len(line)
			line += ":"
		}
		if err := d.emit("property", Field{strings.TrimSpace(line[:at]), strings.TrimSpace(line[at+1:])}); err != nil {
			return err
		}
	}
	if plainName(filepath.Base(d.name)) != checkpoint.PartitionMetadataFile {
		return nil
	}
	if _, err := checkpoint.ReadPartitionMetadata(d.FS, d.name); err != nil {
		return d.unreadable(err)
	}
	return nil
}

func (d *dumper) cleanShutdown() error {
	if err := d.exists(); err != nil {
		return err
	}
	epoch, clean, err := checkpoint.ReadCleanShutdown(d.FS, d.name)
	if err != nil {
		return err
	}
	return d.emit("clean-shutdown", Field{"clean", clean}, Field{"broker_epoch", epoch})
}
