package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// FollowerEffects are what a replica wants done after its leader has answered.
type FollowerEffects struct {
	Partition *Partition
	Effects
	AppendedBytes int
}

// Answered takes the response to the request of the last step, or the error that came in
// its place. It appends and truncates, so it blocks on the disk. Whatever concerns a
// replica that has changed its role or its log since it was asked is dropped.
func (f *Fetcher) Answered(now time.Time, resp kmsg.Response, err error) []FollowerEffects {
	asked, listed := f.asked, f.listed
	f.asked, f.listed = nil, 0
	if err != nil {
		f.requestFailed(now, err)
		return nil
	}
	a := answer{f: f, now: now}
	switch resp := resp.(type) {
	case *kmsg.FetchResponse:
		if asked == nil {
			return nil
		}
		a.fetched(asked, resp)
	case *kmsg.ListOffsetsResponse:
		a.listed(listed, resp)
	}
	return a.effects
}

// Interrupted says that the request of the last step was given up.
func (f *Fetcher) Interrupted() {
	f.asked, f.listed = nil, 0
	f.requestEnded()
}

func (f *Fetcher) requestFailed(now time.Time, err error) {
	f.o.Logger.Debug("request to a leader failed", "err", err)
	f.requestEnded()
	f.pause.failed(now, f.o.Backoff)
}

// requestEnded ends a request without an answer.
func (f *Fetcher) requestEnded() {
	f.session.renew = true // nobody knows whether the leader has seen it
	for _, r := range f.attention {
		r.listing = false
	}
}

// answer is a response on its way into the replicas.
type answer struct {
	f         *Fetcher
	now       time.Time
	effects   []FollowerEffects
	diverging []divergence
}

type divergence struct {
	r *followed
	EpochEndOffset
}

// fetched takes a Fetch response. Its session goes on as FetchSessionHandler's does.
func (a *answer) fetched(asked *kmsg.FetchRequest, resp *kmsg.FetchResponse) {
	f := a.f
	s := &f.session
	if resp.ErrorCode != 0 {
		a.sessionFailed(resp.ErrorCode)
		return
	}
	f.pause = backoff{}
	s.id, s.epoch = resp.SessionID, nextSessionEpoch(asked.SessionEpoch)
	if resp.SessionID == 0 {
		s.renew = true // the leader has no room for one, or has ended it
	}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			a.partition(TopicIDPartition{t.TopicID, t.Partitions[j].Partition}, &t.Partitions[j])
		}
	}
	a.truncate()
}

// sessionFailed: a new session costs one full request, so the first is tried at once.
func (a *answer) sessionFailed(code int16) {
	f := a.f
	f.session.renew = true
	if code == kafkaerr.FetchSessionIDNotFound.Code {
		f.session.id = 0
	}
	if f.pause.failures > 0 {
		f.requestFailed(a.now, kerr.ErrorForCode(code))
	}
	f.pause.failures++
}

// nextSessionEpoch skips 0, which begins a session.
func nextSessionEpoch(epoch int32) int32 { return max(epoch+1, 1) }

// partition takes what is answered about one replica. By error:
//
//	none                       diverging: truncate; else append
//	OFFSET_OUT_OF_RANGE        ask where the leader's log begins and ends
//	FENCED_LEADER_EPOCH        the leader knows a later epoch: wait for metadata
//	UNKNOWN_LEADER_EPOCH       the leader's metadata is behind: again after a pause
//	NOT_LEADER_OR_FOLLOWER     so it is, or there is another one: again after a pause,
//	                           unless metadata is faster
//	others                     the same
func (a *answer) partition(id TopicIDPartition, p *kmsg.FetchResponseTopicPartition) {
	r := a.f.parts[id]
	if r == nil || !r.inSession {
		return
	}
	if r.told.epoch != r.epoch {
		a.f.dropFromSession(r) // the session believes that it has heard of this
		return
	}
	r.news = true
	a.f.attend(r)
	switch p.ErrorCode {
	case 0:
	case kafkaerr.OffsetOutOfRange.Code:
		r.awaits, r.leaderEnd = theRange, -1
		a.f.dropFromSession(r)
		return
	case kafkaerr.FencedLeaderEpoch.Code:
		a.f.giveUp(r)
		return
	default:
		a.f.o.Logger.Debug("the leader answers an error", "topic", r.topic, "partition", id.Partition, "err", kerr.ErrorForCode(p.ErrorCode))
		a.f.failed(a.now, r)
		return
	}
	if d := p.DivergingEpoch; d.EndOffset >= 0 {
		a.diverging = append(a.diverging, divergence{r, EpochEndOffset{Epoch: d.Epoch, EndOffset: d.EndOffset}})
		return
	}
	a.append(r, p)
}

func (a *answer) append(r *followed, p *kmsg.FetchResponseTopicPartition) {
	appended, e, err := r.p.AppendFetched(a.now, Fetched{
		Epoch: r.told.epoch, Offset: r.told.at.Offset, Records: p.RecordBatches,
		HighWatermark: p.HighWatermark, LogStart: p.LogStartOffset,
	})
	if appended > 0 {
		a.f.turn++
		r.lastRecords = a.f.turn
	}
	// An answer ends before a batch that doesn't fit. Of a throttled replica no more is asked: what
	// comes at once is counted too late.
	r.full = 2*len(p.RecordBatches) > int(r.told.maxBytes) && !r.p.followsThrottled()
	a.effects = append(a.effects, FollowerEffects{Partition: r.p, Effects: e, AppendedBytes: appended})
	a.f.count(a.now, r, p)
	switch {
	case err != nil:
		a.storageFailed(r, "append", err)
	case appended == 0 && len(p.RecordBatches) > 0:
		a.f.failed(a.now, r) // all of a later epoch: it will be known here soon
	default:
		r.pause = backoff{}
	}
}

// storageFailed sorts what kept an answer from being taken in.
func (a *answer) storageFailed(r *followed, doing string, err error) {
	level := slog.LevelWarn
	switch {
	case errors.Is(err, errNotFollowing):
		a.f.dropFromSession(r) // it may have been truncated, or metadata is ahead
		return
	case errors.Is(err, logstore.ErrUnexpectedOffset), errors.Is(err, kafkaerr.CorruptMessage), logstore.MayPass(err):
		// The leader may have been truncated while it read, or the disk may be full: it
		// is fetched again.
		a.f.failed(a.now, r)
		if r.pause.failures > 1 { // once is enough as long as it lasts
			level = slog.LevelDebug
		}
	default:
		a.f.giveUp(r)
		if errors.Is(err, kafkaerr.KafkaStorageError) { // told by whoever has taken the log or its directory offline
			level = slog.LevelDebug
		}
	}
	a.f.o.Logger.Log(context.Background(), level, "what was fetched cannot be taken in",
		"doing", doing, "topic", r.topic, "partition", r.id.Partition, "err", err)
}

// truncate cuts the replicas that diverge from their leader, all with one lowering of the
// checkpoints.
func (a *answer) truncate() {
	var cuts []*Truncation
	var of []*followed
	for _, d := range a.diverging {
		t, err := d.r.p.BeginTruncation(d.r.told.epoch, d.EpochEndOffset)
		if err != nil {
			a.storageFailed(d.r, "truncate", err)
			continue
		}
		cuts, of = append(cuts, t), append(of, d.r)
	}
	if len(cuts) > 1 && a.f.o.Prepare != nil {
		a.f.o.Prepare(cuts)
	}
	for i, t := range cuts {
		level, hw := slog.LevelInfo, int64(of[i].p.HighWatermark())
		if t.To < hw { // its leader was elected although it lacks what was acknowledged
			level = slog.LevelWarn
		}
		a.f.o.Logger.Log(context.Background(), level, "truncated to where the leader's log is the same",
			"topic", of[i].topic, "partition", of[i].id.Partition, "to", t.To, "highWatermark", hw)
		a.finish(of[i], t)
	}
}

func (a *answer) finish(r *followed, t *Truncation) {
	e, err := t.Finish()
	a.effects = append(a.effects, FollowerEffects{Partition: r.p, Effects: e})
	if err != nil {
		a.storageFailed(r, "truncate", err)
	}
}

// listed takes where the leader's log ends, or begins, for replicas that are out of its
// range (Kafka's fetchOffsetAndTruncate):
//
//	A  it ends below this replica      truncate to its end
//	B  it begins above this replica    start afresh where it begins
//	C  neither, any more               fetch again
func (a *answer) listed(timestamp int64, resp *kmsg.ListOffsetsResponse) {
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			if r := a.f.listingOf(t.Topic, t.Partitions[j].Partition); r != nil {
				r.listing, r.news = false, true
				a.listedOne(timestamp, r, &t.Partitions[j])
			}
		}
	}
	for _, r := range a.f.attention {
		if r.listing && r.awaits == theRange { // it got no answer
			a.f.failed(a.now, r)
		}
		r.listing = false
	}
}

func (f *Fetcher) listingOf(topic string, partition int32) *followed {
	i := slices.IndexFunc(f.attention, func(r *followed) bool {
		return r.listing && r.awaits == theRange && r.topic == topic && r.id.Partition == partition
	})
	if i < 0 {
		return nil
	}
	return f.attention[i]
}

func (a *answer) listedOne(timestamp int64, r *followed, p *kmsg.ListOffsetsResponseTopicPartition) {
	switch {
	case p.ErrorCode == kafkaerr.FencedLeaderEpoch.Code:
		a.f.giveUp(r)
		return
	case p.ErrorCode != 0 || p.Offset < 0:
		a.f.failed(a.now, r)
		return
	}
	at, err := r.p.FollowerPosition(r.epoch)
	switch {
	case err != nil:
		a.f.giveUp(r)
	case timestamp == EarliestTimestamp:
		r.awaits = nothingElse // case C
		if p.Offset > at.Offset {
			a.startAfresh(r, p.Offset)
		}
	case p.Offset < at.Offset:
		r.awaits = nothingElse
		a.truncateTo(r, p.Offset)
	default:
		r.leaderEnd = p.Offset
	}
}

func (a *answer) truncateTo(r *followed, leaderEnd int64) { // case A
	t, err := r.p.BeginTruncationTo(r.epoch, leaderEnd)
	if err != nil {
		a.storageFailed(r, "truncate", err)
		return
	}
	a.f.o.Logger.Warn("truncated to the end of the leader's log", "topic", r.topic, "partition", r.id.Partition, "to", t.To)
	a.finish(r, t)
}

func (a *answer) startAfresh(r *followed, leaderStart int64) { // case B
	e, err := r.p.StartAfresh(r.epoch, leaderStart)
	if err != nil {
		a.storageFailed(r, fmt.Sprintf("start at %d", leaderStart), err)
		return
	}
	a.f.o.Logger.Warn("started afresh where the leader's log begins", "topic", r.topic, "partition", r.id.Partition, "at", leaderStart)
	a.effects = append(a.effects, FollowerEffects{Partition: r.p, Effects: e})
}
