package metalog

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/klamm-mq/klamm/logstore/vfs"
)

// spaceWatch keeps room for metadata on a disk that others fill (§6, "Metadata on a full
// disk"): it reads the free space before each write, because Badger dies by SIGBUS when a
// page of a file it has mapped finds no room, and again at each restart.
//
// The ballast is a file of our own, really written. Below the reserve it is removed, which
// makes room at once; it is written again, on a goroutine of its own, when there is plenty.
type spaceWatch struct {
	read    func() (vfs.Space, error)
	reserve Reserve
	fsys    vfs.FS
	name    string // of the ballast file
	logger  *slog.Logger
	metrics *metrics

	// busy is held by whoever removes or writes the ballast. A channel, since holders
	// wait for the disk.
	busy     chan struct{}
	ballast  atomic.Bool // the file is there
	full     atomic.Bool // proposals are refused
	rewrites chan struct{}
}

func newSpaceWatch(o *Options, m *metrics) *spaceWatch {
	w := &spaceWatch{
		read:     o.Space,
		reserve:  o.Reserve,
		fsys:     o.FS,
		name:     filepath.Join(o.Dir, "ballast"),
		logger:   o.Logger,
		metrics:  m,
		busy:     make(chan struct{}, 1),
		rewrites: make(chan struct{}, 1),
	}
	if w.read == nil {
		w.read = func() (vfs.Space, error) { return o.FS.Space(o.Dir) }
	}
	return w
}

// open looks at the disk before anything else is opened on it.
func (w *spaceWatch) open() error {
	if _, err := w.fsys.Stat(w.name); err == nil {
		w.setBallast(true)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for ballast: %w", err)
	}
	return w.forVotes()
}

// forProposals tells whether a leader may accept a proposal, with so many bytes of
// proposals on their way. Once it had to refuse one there must be clearly more room before
// it accepts again.
func (w *spaceWatch) forProposals(size int) error {
	wanted := w.reserve.KeepFree + twice(size)
	if w.full.Load() {
		wanted += w.reserve.KeepFree / 8
	}
	free, err := w.free(wanted)
	if err != nil {
		return err
	}
	w.setFull(free < wanted, free)
	return w.compare(free, wanted)
}

// forEntries tells whether so many bytes of entries, or a snapshot, may be stored. What a
// leader has accepted finds room, unless much has vanished in between.
func (w *spaceWatch) forEntries(size int) error {
	wanted := (w.reserve.KeepFree+w.reserve.Floor)/2 + twice(size)
	free, err := w.free(wanted)
	if err != nil {
		return err
	}
	return w.compare(free, wanted)
}

// twice the size of what is to be stored is needed: Badger writes it to its log and, at
// times, to a table.
func twice(size int) uint64 { return 2 * uint64(size) }

func (w *spaceWatch) compare(free, wanted uint64) error {
	if free >= wanted {
		return nil
	}
	w.metrics.refused.Inc()
	return fmt.Errorf("%d bytes free, %d wanted: %w", free, wanted, ErrFull)
}

// spare is what may be used for a moment beyond the reserve.
func (w *spaceWatch) spare() uint64 {
	free, err := w.free(w.reserve.KeepFree)
	if err != nil || free < w.reserve.KeepFree {
		return 0
	}
	return free - w.reserve.KeepFree
}

// look gives up the ballast in time, and notes that the disk is full, or no longer.
func (w *spaceWatch) look() {
	wanted := w.reserve.KeepFree
	if free, err := w.free(wanted); err == nil && free < wanted {
		w.setFull(true, free)
	}
}

// forVotes tells whether there is room for terms and votes. An error is the end of this node.
func (w *spaceWatch) forVotes() error {
	free, err := w.free(w.reserve.Floor)
	if err != nil {
		return err
	}
	if free < w.reserve.Floor {
		return fmt.Errorf("no room for metadata in %s: %d bytes free, %d needed", filepath.Dir(w.name), free, w.reserve.Floor)
	}
	return nil
}

// free reads the free space, and gives up the ballast where that is less than wanted.
func (w *spaceWatch) free(wanted uint64) (uint64, error) {
	space, err := w.read()
	if err != nil {
		return 0, fmt.Errorf("read free space for metadata: %w", err)
	}
	if space.AvailBytes < wanted && w.ballast.Load() {
		if err := w.dropBallast(space.AvailBytes); err != nil {
			return 0, err
		}
		if space, err = w.read(); err != nil {
			return 0, fmt.Errorf("read free space for metadata: %w", err)
		}
	}
	if !w.ballast.Load() && w.isPlenty(space.AvailBytes) {
		w.askForBallast()
	}
	return space.AvailBytes, nil
}

func (w *spaceWatch) isPlenty(free uint64) bool {
	return free >= 2*w.reserve.KeepFree+w.reserve.Ballast
}

func (w *spaceWatch) setFull(full bool, free uint64) {
	if w.full.Swap(full) == full {
		return
	}
	if full {
		w.logger.Error("disk of the metadata log is full, changes of metadata are refused",
			"free_bytes", free, "reserve_bytes", w.reserve.KeepFree)
	} else {
		w.logger.Info("disk of the metadata log has room again", "free_bytes", free)
	}
}

func (w *spaceWatch) setBallast(present bool) {
	w.ballast.Store(present)
	size := 0.0
	if present {
		size = float64(w.reserve.Ballast)
	}
	w.metrics.ballast.Set(size)
}

func (w *spaceWatch) dropBallast(free uint64) error {
	w.busy <- struct{}{}
	defer func() { <-w.busy }()
	if !w.ballast.Load() {
		return nil
	}
	if err := w.fsys.Remove(w.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove ballast: %w", err)
	}
	if err := w.fsys.SyncDir(filepath.Dir(w.name)); err != nil {
		return fmt.Errorf("remove ballast: %w", err)
	}
	w.setBallast(false)
	w.logger.Warn("disk of the metadata log is nearly full, ballast given up",
		"free_bytes", free, "ballast_bytes", w.reserve.Ballast)
	return nil
}

func (w *spaceWatch) askForBallast() {
	select {
	case w.rewrites <- struct{}{}:
	default:
	}
}

// wantsBallast looks again before the file is written.
func (w *spaceWatch) wantsBallast() bool {
	space, err := w.read()
	return err == nil && w.reserve.Ballast > 0 && !w.ballast.Load() && w.isPlenty(space.AvailBytes)
}

// writeBallast writes the file. It is no failure if that does not succeed.
func (w *spaceWatch) writeBallast() {
	w.busy <- struct{}{}
	defer func() { <-w.busy }()
	if err := w.fillBallast(); err != nil {
		w.logger.Warn("ballast for the metadata log cannot be written", "error", err)
		_ = w.fsys.Remove(w.name)
		return
	}
	w.setBallast(true)
}

const ballastBlock = 64 << 10

func (w *spaceWatch) fillBallast() error {
	file, err := w.fsys.OpenFile(w.name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	block := incompressible(ballastBlock)
	for pos := uint64(0); err == nil && pos < w.reserve.Ballast; pos += ballastBlock {
		_, err = file.WriteAt(block[:min(ballastBlock, w.reserve.Ballast-pos)], int64(pos))
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// incompressible gives bytes that a compressing file system cannot make small (xorshift).
func incompressible(n int) []byte {
	b := make([]byte, n)
	x := uint32(2463534242)
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x)
	}
	return b
}
