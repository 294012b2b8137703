package producerstate

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ParseSnapshotName is the offset in the name of a snapshot file.
func ParseSnapshotName(name string) (offset int64, ok bool) {
	digits, isSnapshot := strings.CutSuffix(name, SnapshotSuffix)
	if !isSnapshot || len(digits) != 20 {
		return 0, false
	}
	offset, err := strconv.ParseInt(digits, 10, 64)
	return offset, err == nil && offset >= 0
}

// ListSnapshots reads the partition directory for snapshot files.
func (m *Manager) ListSnapshots() error {
	entries, err := m.opts.FS.ReadDir(m.opts.Dir)
	if err != nil {
		return fmt.Errorf("list producer snapshots: %w", err)
	}
	var offsets []int64
	for _, e := range entries {
		if o, ok := ParseSnapshotName(e.Name()); ok {
			offsets = append(offsets, o)
		}
	}
	m.SetSnapshots(offsets)
	return nil
}

// SetSnapshots makes the snapshot files known to a caller who has read the directory.
func (m *Manager) SetSnapshots(offsets []int64) {
	m.snapshots = slices.Clone(offsets)
	slices.Sort(m.snapshots)
}

// Snapshots are the offsets of the snapshot files, rising. Not to be changed.
func (m *Manager) Snapshots() []int64 { return m.snapshots }

// LatestSnapshot is the offset of the newest snapshot file.
func (m *Manager) LatestSnapshot() (int64, bool) {
	if len(m.snapshots) == 0 {
		return None, false
	}
	return m.snapshots[len(m.snapshots)-1], true
}

// Load starts from the newest valid snapshot that lies in [logStart, logEnd], or from
// nothing at logStart; EndOffset then tells from where batches must be taken in by
// Update. Snapshots outside of that range and corrupt ones are deleted. Producers that
// have expired are left out. If the state ends at logEnd already, it is kept (Kafka's
// truncateAndReload).
func (m *Manager) Load(logStart, logEnd int64, now time.Time) error {
	outside := func(o int64) bool { return o > logEnd || o < logStart }
	if err := m.deleteSnapshots(outside); err != nil {
		return err
	}
	if logEnd == m.endOffset {
		m.AdvanceLogStart(logStart)
		return nil
	}
	m.reset()
	m.endOffset = logStart
	for {
		latest, ok := m.LatestSnapshot()
		if !ok {
			m.endOffset, m.snapshotOffset = logStart, logStart
			return nil
		}
		loaded, err := m.loadSnapshot(latest, now)
		if loaded || err != nil {
			return err
		}
	}
}

// loadSnapshot takes the state from a snapshot file; false if it was corrupt or gone,
// and is gone now.
func (m *Manager) loadSnapshot(offset int64, now time.Time) (bool, error) {
	producers, err := ReadSnapshot(m.opts.FS, m.snapshotFile(offset))
	var corrupt *CorruptSnapshotError
	if errors.As(err, &corrupt) || errors.Is(err, fs.ErrNotExist) {
		return false, m.deleteSnapshots(func(o int64) bool { return o == offset })
	}
	if err != nil {
		return false, err
	}
	m.takeIn(producers, now)
	m.endOffset, m.snapshotOffset = offset, offset
	return true, nil
}

func (m *Manager) takeIn(producers []*Producer, now time.Time) {
	for _, p := range producers {
		if p.expired(now.UnixMilli(), m.expirationMs()) {
			continue
		}
		*m.ensure(p.ID) = *p
		if p.TxnFirstOffset != None {
			m.ongoing = insertTxn(m.ongoing, txn{producerID: p.ID, firstOffset: p.TxnFirstOffset, markerOffset: None})
		}
	}
}

func (m *Manager) reset() { m.producers, m.ongoing, m.decided = nil, nil, nil }

// TruncateFully forgets everything, deletes all snapshots, and begins again at an
// offset. What is known of batches below it is not kept: some are missing, and a producer
// whose newest batch is among them would be out of order with its next one.
func (m *Manager) TruncateFully(startAt int64) error {
	m.reset()
	m.endOffset, m.snapshotOffset = startAt, 0
	return m.deleteSnapshots(func(int64) bool { return true })
}

// AdvanceLogStart follows the log start: ended transactions below it no longer matter.
// Producers are kept until they expire.
func (m *Manager) AdvanceLogStart(logStart int64) {
	m.forgetDecided(logStart)
	m.endOffset = max(m.endOffset, logStart)
	m.snapshotOffset, _ = m.LatestSnapshot() // None: those who produced what is deleted are in no snapshot
}

// DeleteSnapshotsBefore deletes the snapshot files below an offset.
func (m *Manager) DeleteSnapshotsBefore(offset int64) error {
	return m.deleteSnapshots(func(o int64) bool { return o < offset })
}

// DeleteSnapshotsAbove deletes the snapshot files above an offset.
func (m *Manager) DeleteSnapshotsAbove(offset int64) error {
	return m.deleteSnapshots(func(o int64) bool { return o > offset })
}

// DeleteSnapshot deletes the snapshot file at an offset, if there is one: its segment
// is deleted.
func (m *Manager) DeleteSnapshot(offset int64) error {
	return m.deleteSnapshots(func(o int64) bool { return o == offset })
}

// DeleteStraySnapshots deletes the snapshot files that do not lie at the base offset
// of a segment, except the newest of them if it lies above the newest segment: a clean
// stop wrote that one (Kafka's removeStraySnapshots).
func (m *Manager) DeleteStraySnapshots(segmentBases []int64) error {
	if len(segmentBases) == 0 {
		return nil
	}
	newest := slices.Max(segmentBases)
	latest, _ := m.LatestSnapshot()
	return m.deleteSnapshots(func(o int64) bool {
		return !slices.Contains(segmentBases, o) && (o < newest || o != latest)
	})
}

func (m *Manager) snapshotFile(offset int64) string {
	return filepath.Join(m.opts.Dir, SnapshotName(offset))
}

func (m *Manager) deleteSnapshots(which func(int64) bool) error {
	var failed error
	m.snapshots = slices.DeleteFunc(m.snapshots, func(o int64) bool {
		if failed != nil || !which(o) {
			return false
		}
		err := m.opts.FS.Remove(m.snapshotFile(o))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = fmt.Errorf("delete producer snapshot: %w", err)
			return false
		}
		return true
	})
	return failed
}
