package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// directory is one log directory with what drives it.
type directory struct {
	*logstore.Dir
	committer *logstore.Committer
	keeper    *logstore.Keeper
	logger    *slog.Logger
	unopened  atomic.Pointer[error] // why its logs could not be opened at start
}

// offline is why the directory is of no use, nil if it is.
func (d *directory) offline() error {
	if err := d.unopened.Load(); err != nil {
		return *err
	}
	return d.Err()
}

// errNoDirectory is the fate of a replica whose directory this broker does not have: to
// begin it anew, empty, could cost the partition its data (D19). See mayBeginAnew.
var errNoDirectory = kafkaerr.New(kafkaerr.KafkaStorageError, "the log directory that holds this replica is not online")

// openDirectories opens the logs that the directories hold, sets aside those that
// metadata does not place here, and returns the others. It runs once, before the first
// metadata is applied.
func (m *Manager) openDirectories(now time.Time, image *metadata.Image) map[TopicIDPartition]*hosted {
	found := make(map[TopicIDPartition]*hosted)
	m.starting, m.failed = true, make(map[TopicIDPartition]*hosted)
	for _, d := range m.dirs {
		if err := m.openDirectory(now, d, image, found); err != nil {
			d.unopened.Store(&err)
			if d.Err() == nil { // else DirectoryFailed is called, or will be
				TellOffline(m.opts.Logger, d.Path(), err)
			}
			m.endIfLast(err)
		}
		d.committer = logstore.StartCommitter(d.Dir, logstore.CommitterOptions{OnFlushed: m.onFlushed})
		d.keeper = logstore.NewKeeper(d.Dir, m.keeperOptions(d))
		d.keeper.Start()
	}
	m.tellFailed(image, found)
	return found
}

// tellFailed logs which replicas are offline, now that all directories have been looked at: one
// that the process had just moved when it ended, before metadata named the new place, is missing
// in the old one and whole in the new one.
func (m *Manager) tellFailed(image *metadata.Image, found map[TopicIDPartition]*hosted) {
	for id, f := range m.failed {
		// Of one whose directory is gone the disk does not know the name.
		log := m.opts.Logger.With("topic", image.TopicByID(id.TopicID).Name, "partition", id.Partition)
		switch h := found[id]; {
		case h == nil:
			log.Error("replica is offline", "err", f.failed)
		case f.missing:
			log.Info("replica is where it was moved to before the process ended", "from", f.remains.Path(), "dir", h.at().dir.Path())
		default:
			log.Warn("replica is used, another copy of it is damaged", "dir", h.at().dir.Path(), "damaged", f.remains.Path(), "err", f.failed)
		}
	}
}

// forgetStart ends the first application of metadata.
func (m *Manager) forgetStart() { m.starting, m.failed = false, nil }

func (m *Manager) keeperOptions(d *directory) logstore.KeeperOptions {
	o := m.opts.Keeper
	o.HighWatermark = m.highWatermarkOf
	o.Wake = d.committer.Wake
	o.OnDeleted = m.onDeleted
	return o
}

func (m *Manager) openDirectory(now time.Time, d *directory, image *metadata.Image, found map[TopicIDPartition]*hosted) error {
	report, err := d.OpenLogs(context.Background(), logstore.OpenLogsParams{
		Now: now, Threads: m.opts.RecoveryThreads(), Progress: m.opts.Progress,
		Config: m.logConfigs(image),
	})
	if err != nil {
		return fmt.Errorf("open logs: %w", err)
	}
	for _, l := range report.Futures {
		m.futures = append(m.futures, place{d, l})
	}
	if err := m.sortOutFailed(now, d, report.Failed, image); err != nil {
		return err
	}
	return m.sortOut(now, d, report.Opened, image, found)
}

// sortOutFailed remembers the replicas that start found unusable, and sets aside what
// metadata does not place here: it would stand in the way of the next topic of its name.
func (m *Manager) sortOutFailed(now time.Time, d *directory, failed []logstore.FailedLog, image *metadata.Image) error {
	var strays []logstore.ID
	for _, f := range failed {
		id := TopicIDPartition{f.ID.TopicID, f.ID.Partition}
		if placed, _ := m.placement(image.Partition(id.TopicID, id.Partition)); !placed {
			strays = append(strays, f.ID)
			continue
		}
		m.failed[id] = &hosted{failed: storageError(f.Err), remains: d, missing: f.ID.Topic == ""}
	}
	return d.SetAsideFailed(now, strays...)
}

// logConfigs gives the configuration of each log to be opened, read once per topic. It is
// called by several threads.
func (m *Manager) logConfigs(image *metadata.Image) func(logstore.ID) logstore.Config {
	var mu sync.Mutex
	known := make(map[string]logstore.Config)
	return func(id logstore.ID) logstore.Config {
		mu.Lock()
		defer mu.Unlock()
		c, ok := known[id.Topic]
		if !ok {
			c = m.topicConfig(image, id.Topic).Log
			known[id.Topic] = c
		}
		return c
	}
}

// sortOut keeps the logs that belong here and sets the rest aside: of topics that are
// gone, or moved away while this broker was down. Of those without records nothing is worth
// keeping. Of two of one partition it takes the one that has more (see takeBetter).
func (m *Manager) sortOut(now time.Time, d *directory, logs []*logstore.Log, image *metadata.Image, found map[TopicIDPartition]*hosted) error {
	var strays, empty []*logstore.Log
	for _, l := range logs {
		key := TopicIDPartition{l.ID().TopicID, l.ID().Partition}
		placed, dir := m.placement(image.Partition(key.TopicID, key.Partition))
		h := hostedAt(d, l)
		switch other := found[key]; {
		case placed && other == nil:
			found[key] = h
		case placed:
			better, err := takeBetter(now, other, h, dir)
			if err != nil {
				return err
			}
			found[key] = better
		case l.SizeBytes() == 0:
			empty = append(empty, l)
		default:
			strays = append(strays, l)
		}
	}
	if err := d.DeleteLogs(now, empty...); err != nil || len(strays) == 0 {
		return err
	}
	m.opts.Logger.Warn("partitions that metadata does not place here are set aside", "dir", d.Path(), "count", len(strays))
	return d.SetAside(now, strays...)
}

// takeBetter decides between two logs of one partition in different directories, and removes
// the other, durably. A move that a crash has cut off leaves two of the same, or the older
// one comes back with a disk that had failed. Whichever has what the other lacks is the
// better; if neither has, it is the one from which more was deleted, which may have been
// acknowledged, else the one in the directory that metadata names. What is not in the other
// as well is set aside.
func takeBetter(now time.Time, a, b *hosted, assigned uuid.UUID) (*hosted, error) {
	x, y := a.at().log, b.at().log
	order := cmp.Or(x.Outdoes(y), cmp.Compare(x.LogStart(), y.LogStart()))
	if order < 0 || order == 0 && b.at().dir.DirectoryID() == assigned {
		a, b = b, a
	}
	worse := b.at()
	if a.at().log.Contains(worse.log) {
		return a, worse.dir.DeleteLogs(now, worse.log)
	}
	return a, worse.dir.SetAside(now, worse.log)
}

// placement tells whether this broker has a replica of p, and in which directory.
func (m *Manager) placement(p *metadata.Partition) (placed bool, dir uuid.UUID) {
	if p == nil {
		return false, uuid.Zero
	}
	for i, id := range p.Replicas {
		if id != m.opts.BrokerID {
			continue
		}
		if i < len(p.Directories) {
			return true, p.Directories[i]
		}
		return true, uuid.DirUnassigned
	}
	return false, uuid.Zero
}

// chooseDirectory finds the place of a new log: where metadata puts it, or the directory
// with the fewest logs, one with room if there is any.
//
// While metadata from before this start is applied, a partition whose directory metadata
// does not know may be in one that is offline. Then it is not begun anew.
func (m *Manager) chooseDirectory(p *metadata.Partition) (*directory, error) {
	_, assigned := m.placement(p)
	if assigned != uuid.DirUnassigned && assigned != uuid.DirMigrating {
		for _, d := range m.dirs {
			if d.DirectoryID() == assigned && d.offline() == nil {
				return d, nil
			}
		}
		if !m.mayBeginAnew(p) {
			return nil, errNoDirectory
		}
	}
	var best *directory
	for _, d := range m.dirs {
		if d.offline() == nil && (best == nil || d.lighter(best)) {
			best = d
		}
	}
	if best == nil || m.starting && m.anyDirOffline() {
		return nil, errNoDirectory
	}
	return best, nil
}

// mayBeginAnew tells whether a replica may begin empty although it was in a directory that
// this broker does not have: all that are configured are online, so that its disk was
// replaced, and nobody counts on what was on it. Another broker leads, and metadata, which is
// not older than this broker's registration, has this one in neither ISR nor ELR.
func (m *Manager) mayBeginAnew(p *metadata.Partition) bool {
	self := m.opts.BrokerID
	return p.Leader != metadata.NoLeader && p.Leader != self && !slices.Contains(p.ISR, self) &&
		!slices.Contains(p.ELR, self) && !slices.Contains(p.LastKnownELR, self) && !m.anyDirOffline()
}

func (m *Manager) anyDirOffline() bool {
	return len(m.opts.DirsMissing) > 0 || slices.ContainsFunc(m.dirs, func(d *directory) bool { return d.offline() != nil })
}

func (d *directory) lighter(than *directory) bool {
	if d.Full() != than.Full() {
		return than.Full()
	}
	return len(d.Logs()) < len(than.Logs())
}

// DirectoryFailed ends every replica in a directory whose disk has failed: their
// requests get KAFKA_STORAGE_ERROR, those that wait included. Other directories go on.
// It is for the OnOffline of a directory's options.
func (m *Manager) DirectoryFailed(d *logstore.Dir, err error) {
	var lost []*hosted
	for _, h := range m.all() {
		if at := h.at(); at.dir != nil && at.dir.Dir == d {
			lost = append(lost, h)
		}
	}
	// First of all: what follows may wait for the disk.
	TellOffline(m.opts.Logger.With("replicas", len(lost)), d.Path(), err)
	for _, h := range lost {
		m.fail(h, err)
	}
	m.endIfLast(err)
}

// TellOffline logs that a log directory is offline. It is the one line that alarms, whatever
// else fails with the directory.
func TellOffline(logger *slog.Logger, dir string, err error) {
	logger.Error("log directory is offline: its replicas are out of service; bring the disk back, or replace it by an empty one, and restart this broker",
		"dir", dir, "err", logstore.OfflineCause(err))
}

// tellLost logs how many replicas start has found to be in no directory that is online.
func (m *Manager) tellLost() {
	count, first := 0, ""
	for _, h := range m.all() {
		if !errors.Is(h.Failure(), errNoDirectory) {
			continue
		}
		count++
		if name := fmt.Sprintf("%s-%d", h.Topic(), h.ID().Partition); first == "" || name < first {
			first = name
		}
	}
	if count > 0 {
		m.opts.Logger.Warn("replicas are out of service: no log directory that is online has them", "count", count, "first", first)
	}
}

// endIfLast ends the process when there is no directory left.
func (m *Manager) endIfLast(err error) {
	if !slices.ContainsFunc(m.dirs, func(d *directory) bool { return d.offline() == nil }) {
		m.opts.OnAllDirsOffline(err)
	}
}

// LogFailed ends the replica of a log that turned out to be damaged. It is for the
// OnLogFailed of a directory's options.
func (m *Manager) LogFailed(l *logstore.Log, err error) {
	m.opts.Logger.Error("replica is offline", "log", l.Path(), "err", err)
	if h := m.ofLog(l); h != nil {
		m.fail(h, err)
	}
}

func (m *Manager) fail(h *hosted, err error) {
	m.fetchers.leave(h.ID())
	m.carryOut(h, h.Retire(storageError(err)))
}

// storageError is err as clients see it.
func storageError(err error) error {
	if errors.Is(err, kafkaerr.KafkaStorageError) {
		return err
	}
	return fmt.Errorf("%w: %w", kafkaerr.KafkaStorageError, err)
}

// OfflineReplicas lists the replicas here that cannot serve, with the reasons.
func (m *Manager) OfflineReplicas() map[TopicIDPartition]error {
	offline := make(map[TopicIDPartition]error)
	for _, h := range m.all() {
		if err := h.Failure(); err != nil {
			offline[h.ID()] = err
		}
	}
	return offline
}

// OfflineDirs lists the directories that are of no use: whose disk has failed, or whose
// logs could not be opened at start.
func (m *Manager) OfflineDirs() (ids []uuid.UUID) {
	for _, d := range m.dirs {
		if d.offline() != nil {
			ids = append(ids, d.DirectoryID())
		}
	}
	return ids
}

// DamagedReplicas lists the replicas that cannot serve for a reason of their own: what
// BrokerHeartbeat reports (D24). Those of an offline directory are not among them, whose
// copies may be as good as ever when the directory is back.
func (m *Manager) DamagedReplicas() (ids []TopicIDPartition) {
	for _, h := range m.all() {
		if log := h.at().log; h.remains != nil || log != nil && log.Failure() != nil {
			ids = append(ids, h.ID())
		}
	}
	return ids
}
