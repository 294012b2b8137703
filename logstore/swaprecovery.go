package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"

	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// leftovers are the files of cleanings that were cut off (see cleanswap.go).
type leftovers struct {
	swaps map[int64]bool                           // base offsets with a log named .swap
	files map[int64]map[segment.Stage][]string     // suffixes, by base offset and stage
	logs  map[int64]bool                           // base offsets with a log that is in place
	info  func(base int64) (size int64, err error) // of a log named .swap
}

// findLeftovers sorts the entries of a partition directory.
func (o *opening) findLeftovers(entries []fs.DirEntry) *leftovers {
	left := &leftovers{swaps: map[int64]bool{}, files: map[int64]map[segment.Stage][]string{}, logs: map[int64]bool{}}
	infos := map[int64]fs.DirEntry{}
	for _, e := range entries {
		base, suffix, stage, ok := segment.ParseStagedName(e.Name())
		if !ok {
			continue
		}
		if suffix == segment.LogSuffix && stage == segment.Swap {
			left.swaps[base], infos[base] = true, e
		}
		if suffix == segment.LogSuffix && stage == segment.InPlace {
			left.logs[base] = true
		}
		if left.files[base] == nil {
			left.files[base] = map[segment.Stage][]string{}
		}
		left.files[base][stage] = append(left.files[base][stage], suffix)
	}
	left.info = func(base int64) (int64, error) {
		i, err := infos[base].Info()
		if err != nil {
			return 0, err
		}
		return i.Size(), nil
	}
	return left
}

func (left *leftovers) has(base int64, suffix string, stage segment.Stage) bool {
	return slices.Contains(left.files[base][stage], suffix)
}

// none: most directories have nothing of a cleaning.
func (left *leftovers) none() bool {
	for _, stages := range left.files {
		if len(stages[segment.Swap])+len(stages[segment.Cleaned]) > 0 {
			return false
		}
	}
	return true
}

// mendSwaps finishes the cleanings that had come far enough, and removes what is left of others.
// It reports whether there was anything.
func (o *opening) mendSwaps(entries []fs.DirEntry) (mended bool, err error) {
	left := o.findLeftovers(entries)
	if left.none() {
		return false, nil
	}
	for _, base := range slices.Sorted(maps.Keys(left.swaps)) {
		if err := o.mendSwap(left, base); err != nil {
			return false, err
		}
	}
	for _, base := range slices.Sorted(maps.Keys(left.files)) {
		if err := o.dropLeftovers(left, base); err != nil {
			return false, err
		}
	}
	return true, nil
}

// mendSwap finishes one. It may be cut off itself, and is begun again by the next start.
func (o *opening) mendSwap(left *leftovers, base int64) error {
	if err := o.nameAgain(left, base); err != nil {
		return err
	}
	end, damage := o.checkSwap(left, base)
	var bad *segment.CorruptionError
	switch {
	case errors.As(damage, &bad):
		return o.dropBadSwap(left, base, bad)
	case damage != nil:
		return damage
	}
	o.d.o.Logger.Info("interrupted cleaning is finished", "log", o.l.path, "base", base, "end", end)
	for _, b := range slices.Sorted(maps.Keys(left.logs)) {
		if base < b && b < end {
			if err := o.removeAll(left, b, segment.InPlace); err != nil {
				return err
			}
			delete(left.logs, b)
		}
	}
	for _, suffix := range []string{segment.IndexSuffix, segment.TimeIndexSuffix, segment.TxnIndexSuffix} {
		if err := o.placeIndex(left, base, suffix); err != nil {
			return err
		}
	}
	if err := o.d.o.FS.SyncDir(o.l.path); err != nil {
		return err
	}
	if err := o.place(base, segment.LogSuffix, segment.Swap); err != nil {
		return err
	}
	left.logs[base] = true
	return o.d.o.FS.SyncDir(o.l.path)
}

// nameAgain: where the disk has failed, nobody knows that the names are durable by which the rest
// can go.
func (o *opening) nameAgain(left *leftovers, base int64) error {
	if !o.d.distrust {
		return nil
	}
	for stage, suffixes := range left.files[base] {
		for _, suffix := range suffixes {
			if err := rewriteName(o.d.o.FS, o.l.file(segment.StagedName(base, suffix, stage))); err != nil {
				return err
			}
		}
	}
	return o.d.o.FS.SyncDir(o.l.path)
}

// checkSwap reads a segment that is about to replace others, and returns where it ends.
func (o *opening) checkSwap(left *leftovers, base int64) (end int64, err error) {
	size, err := left.info(base)
	if err != nil {
		return 0, err
	}
	readOnly := *o.l.segOptions
	readOnly.ReadOnly = true
	s := segment.OpenSwap(o.l.path, base, size, o.now, &readOnly)
	defer s.Abandon()
	end = base
	err = s.ForEachBatch(base, math.MaxInt64, func(v batch.View, _ int64) error {
		end = v.NextOffset()
		return nil
	})
	if err == nil && end == base {
		err = &segment.CorruptionError{File: s.Path(), Reason: "it holds no batch"}
	}
	return end, unreadable(s.Path(), err)
}

// dropBadSwap: one that cannot be read is given up where whatever it was made of is still there.
// Each segment then ends where the next one begins, as none of those that are replaced is the last
// one.
func (o *opening) dropBadSwap(left *leftovers, base int64, bad *segment.CorruptionError) error {
	lost := damaged(bad)
	if !left.logs[base] {
		return lost
	}
	bases := slices.Sorted(maps.Keys(left.logs))
	for i, b := range bases[:len(bases)-1] {
		if b < base {
			continue
		}
		s, err := segment.Open(o.l.path, b, o.now, o.l.segOptions)
		if err != nil {
			return err
		}
		next, err := s.NextOffset()
		s.Abandon()
		if err != nil {
			return unreadable(s.Path(), err)
		}
		if next != bases[i+1] {
			return lost
		}
	}
	o.d.o.Logger.Error("segment that was to replace others is given up, they are all there", "log", o.l.path, "base", base, "err", bad)
	return o.removeAll(left, base, segment.Swap)
}

// placeIndex gives an index its name, if it has not got it yet. Kafka renames the log first.
func (o *opening) placeIndex(left *leftovers, base int64, suffix string) error {
	for _, stage := range []segment.Stage{segment.Swap, segment.Cleaned} {
		if left.has(base, suffix, stage) {
			return o.place(base, suffix, stage)
		}
	}
	return nil
}

func (o *opening) place(base int64, suffix string, from segment.Stage) error {
	to := segment.FileName(base, suffix)
	if err := o.d.o.FS.Rename(o.l.file(segment.StagedName(base, suffix, from)), o.l.file(to)); err != nil {
		return fmt.Errorf("put in place %s: %w", o.l.file(to), err)
	}
	return nil
}

// dropLeftovers removes what is left of cleanings that had not come far. An index without a log
// beside it is one of Kafka's that had, if the name is free for it: Kafka puts the log in place
// before.
func (o *opening) dropLeftovers(left *leftovers, base int64) error {
	cutOff := left.has(base, segment.LogSuffix, segment.Cleaned)
	for _, suffix := range left.files[base][segment.Swap] {
		if left.swaps[base] || suffix == segment.LogSuffix {
			continue // finished, or given up
		}
		if !cutOff && left.logs[base] && !left.has(base, suffix, segment.InPlace) {
			if err := o.place(base, suffix, segment.Swap); err != nil {
				return err
			}
			continue
		}
		if err := o.remove(segment.StagedName(base, suffix, segment.Swap)); err != nil {
			return err
		}
	}
	return o.removeAll(left, base, segment.Cleaned)
}

// removeAll removes a segment's files of a stage, the log first.
func (o *opening) removeAll(left *leftovers, base int64, stage segment.Stage) error {
	suffixes := slices.Clone(left.files[base][stage])
	slices.SortStableFunc(suffixes, func(a, b string) int {
		switch {
		case a == segment.LogSuffix:
			return -1
		case b == segment.LogSuffix:
			return 1
		}
		return 0
	})
	for _, suffix := range suffixes {
		if err := o.remove(segment.StagedName(base, suffix, stage)); err != nil {
			return err
		}
	}
	return nil
}
