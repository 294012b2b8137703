package cluster

import (
	"encoding/binary"
	"hash/crc32"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/fetchsession"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/logstore/vfs"
)

// Break is a way in which a run's cluster is broken on purpose.
type Break int8

// The breaks. Each must be found by the judge within some hundred seeds.
const (
	Nothing Break = iota
	// AckBeforeISR acknowledges a batch when the leader has written it.
	AckBeforeISR
	// UnflushedHighWatermark counts log ends where flushed ends count.
	UnflushedHighWatermark
	// TruncationByHighWatermark has a new follower cut its log at its high watermark, and
	// not where it diverges.
	TruncationByHighWatermark
	// NoEpochCheck has followers fetch without leader epochs.
	NoEpochCheck
	// ProducerStateLost has a new leader know nothing of producers.
	ProducerStateLost
	// UncleanElections lets any replica lead.
	UncleanElections
	// NoNewEpoch lets a restarted leader go on in its leader epoch.
	NoNewEpoch
	// RecoveredTailUnsynced takes what recovery kept as flushed without syncing it.
	RecoveredTailUnsynced
	// NoBrokerEpochCheck takes every fetch as one of the follower's process that is
	// registered.
	NoBrokerEpochCheck
	// NoRoleCheck appends what a leader has answered also to a replica that leads by now, or
	// follows in a later leader epoch.
	NoRoleCheck
	// ForgottenSignals does not tell the sessions of followers of one news in three. That must
	// not be found: it costs time, until a session is walked in full.
	ForgottenSignals
	// NoWalks has sessions told of nothing, and never walked.
	NoWalks
	// WritesDuringMove has a replica that moves go on with its old log after the end of it was
	// copied, for a moment.
	WritesDuringMove
	// MoveUnsynced takes what a move has copied last as flushed without syncing it.
	MoveUnsynced
	// NoComparing has followers fetch without the epoch of what they have, after an unclean
	// election.
	NoComparing
	// FullDirsUntold does not tell the controller which directories are full.
	FullDirsUntold
	// CleanedUncommitted cleans up to the log end.
	CleanedUncommitted
	// CleanedUnsynced puts cleaned segments in place without syncing them.
	CleanedUnsynced
	// EarlyTombstones lets tombstones go with their first cleaning.
	EarlyTombstones
	// FlushAloneUnsynced takes what was fetched of a throttled replica as flushed without syncing
	// it.
	FlushAloneUnsynced
	// FlushAloneLeftOut never flushes it.
	FlushAloneLeftOut
	// NeverLetThrough holds throttled replicas back for ever, once they are.
	NeverLetThrough
	// ForgottenForGood has a session take in no replica again that it was told to forget.
	ForgottenForGood
	// WithheldInSync has a leader send nothing to throttled replicas, in the ISR or not.
	WithheldInSync
	// ForgottenInSync has a follower leave throttled replicas out, in the ISR or not.
	ForgottenInSync
)

// walkEvery is how often sessions are walked in full.
func (how Break) walkEvery() time.Duration {
	if how == NoWalks {
		return 24 * time.Hour
	}
	return walkEvery
}

// watch is how the session of a follower hears of news of a partition; nil: it does not.
func (w *world) watch(want *fetchsession.Partition) replica.Watch {
	switch {
	case want.Watch == nil:
		return nil
	case w.opts.Break == ForgottenSignals, w.opts.Break == NoWalks:
		return forgetful{want.Watch, w}
	}
	return want.Watch
}

// forgetful is a Watch that loses signals.
type forgetful struct {
	replica.Watch
	w *world
}

// Signal is heard sometimes.
func (f forgetful) Signal() {
	if f.w.opts.Break == ForgottenSignals && f.w.rand.IntN(3) > 0 {
		f.Watch.Signal()
	}
}

// fetchersEpoch is the broker epoch of a follower's fetch.
func (b *broker) fetchersEpoch(req *kmsg.FetchRequest) int64 {
	if b.w.opts.Break != NoBrokerEpochCheck {
		return req.ReplicaState.Epoch
	}
	epoch, _ := b.BrokerEpoch(req.ReplicaState.ID)
	return epoch
}

// appendAnyway appends to replicas that should refuse it.
func (b *broker) appendAnyway(reply kmsg.Response) {
	resp, ok := reply.(*kmsg.FetchResponse)
	if !ok || b.w.opts.Break != NoRoleCheck {
		return
	}
	for _, t := range resp.Topics {
		for _, answer := range t.Partitions {
			p := b.parts[replica.TopicIDPartition{TopicID: t.TopicID, Partition: answer.Partition}]
			if p == nil || p.Failure() != nil || len(answer.RecordBatches) == 0 {
				continue
			}
			if leader, leads := p.Leader(); leads {
				_, _ = p.log.AppendAsFollower(b.w.now, answer.RecordBatches, leader.Epoch)
			}
		}
	}
}

// fsync is the durability with which a break may be seen.
func (how Break) fsync(drawn bool) bool {
	switch how {
	case Nothing, ForgottenSignals:
		return drawn
	case NoBrokerEpochCheck: // what is flushed is not lost with a process
		return false
	default:
		return true
	}
}

// brokenConfig is the topic configuration of replicas.
func (w *world) brokenConfig() logstore.Config {
	c := w.plan.config
	if w.opts.Break == UnflushedHighWatermark {
		c.Durability = logstore.DurabilityReplicated
	}
	return c
}

// truncateByHighWatermark is what followers did before KIP-101.
func (w *world) truncateByHighWatermark(p *partition) {
	if w.opts.Break != TruncationByHighWatermark || p.Failure() != nil {
		return
	}
	if hw := int64(p.HighWatermark()); hw < int64(p.log.LogEnd()) && !p.judged.cut {
		p.judged.cut = true
		_ = p.log.TruncateTo(hw)
	}
}

// breakRequest takes the leader epochs out of a follower's fetch.
func (w *world) breakRequest(req kmsg.Request) {
	fetch, ok := req.(*kmsg.FetchRequest)
	if !ok {
		return
	}
	for i := range fetch.Topics {
		for j := range fetch.Topics[i].Partitions {
			p := &fetch.Topics[i].Partitions[j]
			if w.opts.Break == NoEpochCheck {
				p.CurrentLeaderEpoch = -1
			}
			v := w.judge.parts[replica.TopicIDPartition{TopicID: fetch.Topics[i].TopicID, Partition: p.Partition}]
			if w.opts.Break == NoEpochCheck || w.opts.Break == TruncationByHighWatermark || w.opts.Break == NoComparing && v != nil && v.branch > 0 {
				p.LastFetchedEpoch = -1
			}
		}
	}
}

// broken leaves out records that a broken controller does not make.
func (w *world) broken(records []metadata.Record) []metadata.Record {
	if w.opts.Break != NoNewEpoch {
		return records
	}
	return slices.DeleteFunc(slices.Clone(records), func(r metadata.Record) bool {
		_, bump := r.(metadata.BumpLeaderEpochsRecord)
		return bump
	})
}

// brokenLog is the log that a replica uses.
func (w *world) brokenLog(l *logstore.Log) replica.Log {
	if w.opts.Break == ProducerStateLost {
		return &forgetfulLog{Log: l}
	}
	return l
}

// forgetfulLog knows only the producers of the batches that it has appended as leader.
type forgetfulLog struct {
	*logstore.Log
	own map[int64]bool // producer ids
}

// AppendAsLeader takes a batch of a producer that it has not seen as one of nobody's.
func (l *forgetfulLog) AppendAsLeader(p logstore.AppendParams) (logstore.AppendInfo, error) {
	const crcAt, from, idAt, epochAt, sequenceAt = 17, 21, 43, 51, 53
	id := int64(binary.BigEndian.Uint64(p.Records[idAt:]))
	if l.own == nil {
		l.own = map[int64]bool{}
	}
	if info, err := l.Log.AppendAsLeader(logstore.AppendParams{
		Now: p.Now, Records: slices.Clone(p.Records), LeaderEpoch: p.LeaderEpoch, Origin: p.Origin, RequestVersion: p.RequestVersion,
	}); err != nil || !info.Duplicate || l.own[id] {
		l.own[id] = true
		return info, err
	}
	binary.BigEndian.PutUint64(p.Records[idAt:], ^uint64(0))
	binary.BigEndian.PutUint16(p.Records[epochAt:], ^uint16(0))
	binary.BigEndian.PutUint32(p.Records[sequenceAt:], ^uint32(0))
	binary.BigEndian.PutUint32(p.Records[crcAt:], crc32.Checksum(p.Records[from:], crc32.MakeTable(crc32.Castagnoli)))
	return l.Log.AppendAsLeader(p)
}

// brokenFS is the file system of a process, with the lies of a broken one.
func (w *world) brokenFS(n *node, fs vfs.FS) vfs.FS {
	switch w.opts.Break {
	case RecoveredTailUnsynced, MoveUnsynced, CleanedUnsynced, FlushAloneUnsynced:
	default:
		return fs
	}
	return &liar{FS: fs, n: n}
}

// lies tells whether syncs of logs are left out now.
func (n *node) lies() bool {
	return n.recovering && n.w.opts.Break == RecoveredTailUnsynced || n.moving && n.w.opts.Break == MoveUnsynced ||
		n.cleaning && n.w.opts.Break == CleanedUnsynced || n.alone && n.w.opts.Break == FlushAloneUnsynced
}

// finishLate ends a move for WritesDuringMove.
func (b *broker) finishLate(x *moving) {
	log, err := b.finish(x)
	if err != nil || b.n.crashed {
		b.moveOver(x)
		return
	}
	b.after(b.w.plan.maxDelay, "move ends late", func() {
		if !x.over {
			b.takeOver(x, log)
		}
	})
}

// liar leaves out the syncs of logs while they are recovered, or moved.
type liar struct {
	vfs.FS
	n *node
}

// OpenFile gives a file whose syncs may be left out.
func (l *liar) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := l.FS.OpenFile(name, flag, perm)
	if err != nil || !strings.HasSuffix(name, ".log") && !strings.HasSuffix(name, ".cleaned") {
		return f, err
	}
	return &lyingFile{f, l.n}, nil
}

// OpenSyncer gives a syncer that may do nothing.
func (l *liar) OpenSyncer(dir string) (vfs.Syncer, error) {
	s, err := l.FS.OpenSyncer(dir)
	if err != nil {
		return nil, err
	}
	return &lyingSyncer{s, l.n}, nil
}

type lyingFile struct {
	vfs.File
	n *node
}

// Sync does nothing while its node lies.
func (f *lyingFile) Sync() error {
	if f.n.lies() {
		return nil
	}
	return f.File.Sync()
}

type lyingSyncer struct {
	vfs.Syncer
	n *node
}

// SyncAll does nothing while its node lies, and lays the liar's files bare otherwise.
func (s *lyingSyncer) SyncAll(files []vfs.File) error {
	if s.n.lies() {
		return nil
	}
	bare := make([]vfs.File, len(files))
	for i, f := range files {
		if l, ok := f.(*lyingFile); ok {
			f = l.File
		}
		bare[i] = f
	}
	return s.Syncer.SyncAll(bare)
}
