package logstore

import (
	"errors"
	"math"
	"sync/atomic"
	"syscall"

	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/logstore/vfs"
)

// A full disk is not a failed one. While the file system has less room than the
// reserve, the directory is full: appends are refused before they touch a file, reads
// and deletes go on, and what the broker itself must write (checkpoints, epochs,
// metadata) finds the reserve. It stops being full when there is clearExtra more than
// the reserve, so that it does not flap around one value.
type space struct {
	reserve uint64
	extra   uint64
	full    atomic.Bool
	// room is what there was when it was last looked at. unseen counts bytes appended, and
	// asked for ahead, since then; every checkEvery bytes an append looks for itself, between
	// two ticks of the keeper.
	room       atomic.Int64
	unseen     atomic.Int64
	checkEvery int64
}

// The default reserve is a hundredth of the file system within two bounds, and a tenth of
// one so small that the lower bound would be more. What is left of it when a check comes
// late must still be above the room that the metadata log asks for (18 MiB,
// metalog.DefaultReserve): records must not take metadata's last room, without which a
// broker cannot start.
const (
	minReserveBytes   = 64 << 20
	maxReserveBytes   = 1 << 30
	smallReserveBytes = 32 << 20 // of a small file system
	maxCheckEvery     = 16 << 20
	minCheckEvery     = 1 << 20
)

// newSpace sets the reserve: what the options say, else the default.
func newSpace(reserve uint64, s vfs.Space) *space {
	if reserve == 0 {
		reserve = min(max(s.TotalBytes/100, minReserveBytes), maxReserveBytes, max(s.TotalBytes/10, smallReserveBytes))
	}
	made := &space{reserve: reserve, extra: reserve / 4, checkEvery: max(minCheckEvery, min(maxCheckEvery, int64(reserve/4)))}
	made.room.Store(saturated(s.AvailBytes))
	return made
}

func saturated(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// reservable is how much an append may ask the disk for at once, beyond what it needs: nothing
// where that alone could make the directory full. What many logs have asked for is gone for
// metadata and for all others until they are quiet.
func (s *space) reservable() int64 {
	if s.room.Load()-s.unseen.Load()-segment.ReserveBytes < saturated(s.reserve+s.extra) {
		return 0
	}
	return segment.ReserveBytes
}

// observe updates the state from what the file system has now, and reports a change.
func (s *space) observe(now vfs.Space) (full, changed bool) {
	was := s.full.Load()
	full = now.AvailBytes < s.reserve || was && now.AvailBytes < s.reserve+s.extra
	s.full.Store(full)
	s.room.Store(saturated(now.AvailBytes))
	s.unseen.Store(0)
	return full, full != was
}

// checkSpace looks at the file system's room. A file system that does not answer is
// left to fail on its own.
func (d *Dir) checkSpace() {
	now, err := d.o.FS.Space(d.o.Path)
	if err != nil {
		d.o.Logger.Warn("free space is unknown", "dir", d.o.Path, "err", err)
		return
	}
	full, changed := d.space.observe(now)
	if !changed {
		return
	}
	d.metrics.full(full)
	if full {
		d.o.Logger.Error("log directory is full: appends are refused", "dir", d.o.Path,
			"availableBytes", now.AvailBytes, "reserveBytes", d.space.reserve)
	} else {
		d.o.Logger.Info("log directory has room again", "dir", d.o.Path, "availableBytes", now.AvailBytes)
	}
}

// hasRoom tells whether the reserve, and what a full directory must have more, stays when that
// many bytes are written. What producers do not need to have refused is given up before they are.
func (d *Dir) hasRoom(bytes int) bool {
	s := d.space
	return !s.full.Load() && s.room.Load()-s.unseen.Load()-int64(bytes) >= saturated(s.reserve+s.extra)
}

// noteAppended looks at the room after many bytes, so that a fast producer does not
// eat the reserve between two ticks.
func (d *Dir) noteAppended(n int) {
	if d.space.unseen.Add(int64(n)) >= d.space.checkEvery {
		d.checkSpace()
	}
}

// noteNoSpace records that a write found no room, whatever the file system says.
func (d *Dir) noteNoSpace(err error) {
	if !d.space.full.Swap(true) {
		d.metrics.full(true)
		d.o.Logger.Error("log directory is full: appends are refused", "dir", d.o.Path, "err", err)
	}
}

// isNoSpace tells a full disk from a broken one: no room, or the quota used up.
func isNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// Space is the room on the directory's file system.
func (d *Dir) Space() (vfs.Space, error) { return d.o.FS.Space(d.o.Path) }

// Full reports whether appends are refused for lack of room.
func (d *Dir) Full() bool { return d.space.full.Load() }
