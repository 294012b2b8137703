package exact

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/klamm-mq/klamm/broker/simtest/compacted"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/wire"
)

// The invariants, by the names of docs/testing.md:
//
//	OffsetOrder             log start ≤ LSO ≤ HW ≤ log end, flushed ≤ log end, recovery point ≤ flushed
//	HighWatermarkMonotonic  the high watermark never falls; for a leader alone in the ISR not
//	                        even over a crash
//	DeletionsLast           what was deleted, and acknowledged as such, does not come back
//	AckedRecordsReadable    what was acknowledged or read once is there, at its offset, unless
//	                        a cleaning has found a newer record of its key
//	NewestOfEachKey         what cleanings have met is there but for what they may take, and
//	                        what they must take is not; no deleted key comes back
//	SequencesContiguous     an idempotent producer's records are in the log once and in order
//	OwnRecords              a topic holds its own records, none of an earlier one of its name
//	NoUnknownFiles          nothing lies in the directories that has no business there
//	CleanRecovery           a crash is never taken for damage; nor is a passing fault,
//	CleanSync               which takes no directory offline,
//	CleanDeletion           and fails nothing for good,
//	CleanCleaning           nor a cleaning
//	CleanStop               after a clean stop nothing is scanned
//	Progress                when the faults end, everything gets its answer
//
// judge is who checks them.
type judge struct{ w *world }

// verdicts are what the judge holds against one partition.
type verdicts struct {
	promised map[int64]string // value by offset: acknowledged, or seen by a consumer
	hw       int64
	deleted  int64 // the log start that was acknowledged
	epoch    int32
	cleaned  compacted.History
}

func newVerdicts() verdicts { return verdicts{promised: make(map[int64]string)} }

// nextEpoch is the controller's: it outlives the broker.
func (v *verdicts) nextEpoch() int32 {
	v.epoch++
	return v.epoch
}

// restarted begins a new life. A leader with followers starts from a checkpointed high
// watermark, which may be old; what was promised above it is in the log all the same. One
// that counts unflushed records may have lost some.
func (j *judge) restarted() {
	for _, p := range j.w.parts() {
		if j.w.plan.follower || p.weak {
			p.judged.hw = 0
		}
	}
}

// acked notes what a producer was promised.
func (j *judge) acked(p *producer, a *attempt) {
	for i := range a.batch.count {
		j.promise(p.part, a.offset+int64(i), p.value(a.batch.base+i), "acknowledged")
	}
}

func (j *judge) promise(p *part, o int64, value, how string) {
	if p.weak {
		return
	}
	if old, ok := p.judged.promised[o]; ok && old != value {
		j.w.fail("AckedRecordsReadable", "offset %d of %s was promised as %s and is now %s as %s", o, p, old, how, value)
	}
	p.judged.promised[o] = value
}

// always checks what costs little, after every event.
func (j *judge) always() {
	if j.w.broker == nil {
		return
	}
	j.w.broker.noticeFailures()
	for _, p := range j.w.broker.partitions {
		if p.Failure() != nil {
			continue
		}
		start, hw, end := int64(p.log.LogStart()), int64(p.HighWatermark()), int64(p.log.LogEnd())
		lso := int64(p.log.LastStable(p.HighWatermark()))
		flushed, recovery := int64(p.log.Flushed()), int64(p.log.RecoveryPoint())
		if start > lso || lso > hw || hw > end || flushed > end || recovery > max(flushed, start) {
			j.w.fail("OffsetOrder", "%s: start %d, LSO %d, HW %d, end %d; flushed %d, recovery point %d",
				p, start, lso, hw, end, flushed, recovery)
		}
		if hw < p.judged.hw {
			j.w.fail("HighWatermarkMonotonic", "%s: from %d to %d", p, p.judged.hw, hw)
		}
		p.judged.hw = hw
		if start < p.judged.deleted {
			j.w.fail("DeletionsLast", "%s begins at %d, it was deleted up to %d", p, start, p.judged.deleted)
		}
	}
}

// read lets a consumer read from a position on, and returns the next. What it saw it may
// rely on.
func (j *judge) read(p *partition, from int64, maxBytes int) int64 {
	result, _ := p.ReadRecords(j.w.now, &replica.Reader{ReplicaID: replica.ConsumerReplicaID, AnyReplica: true}, &replica.FetchPartition{
		FetchOffset: from, CurrentLeaderEpoch: replica.NoEpoch, LastFetchedEpoch: replica.NoEpoch,
	}, maxBytes, true)
	if result.Err != nil {
		switch start := int64(p.log.LogStart()); {
		case from < start:
			return start // retention was faster than the consumer
		case p.weak && from > int64(p.log.LogEnd()):
			return int64(p.log.LogEnd()) // lost
		case !j.w.excused(result.Err):
			j.w.fail("AckedRecordsReadable", "%s at %d: %v", p, from, result.Err)
		}
		return from
	}
	if result.Records == nil {
		return from
	}
	return j.see(p, from, j.w.batches(result.Records), result.HighWatermark)
}

// batches reads a region and releases it. A batch that is cut short at its end is left
// out.
func (w *world) batches(r wire.Region) (views []batch.View) {
	defer r.Release()
	buf := make([]byte, r.Len())
	if _, err := r.ReadAt(buf, 0); err != nil && !errors.Is(err, io.EOF) {
		w.fail("AckedRecordsReadable", "read %d bytes: %v", len(buf), err)
		return nil
	}
	for {
		v, rest, err := batch.Next(buf)
		if err != nil {
			return views
		}
		views, buf = append(views, v), rest
	}
}

// see takes batches for what a consumer has seen.
func (j *judge) see(p *partition, from int64, views []batch.View, hw int64) int64 {
	next := from
	for _, v := range views {
		if v.NextOffset() > hw {
			j.w.fail("OffsetOrder", "%s: a batch up to %d is shown below high watermark %d", p, v.LastOffset(), hw)
		}
		err := batch.Iterate(v, j.w.codecs, func(r batch.Record) error {
			if r.Offset < next {
				return nil // the batch began before the offset asked for
			}
			if !p.judged.cleaned.MayMiss(next, r.Offset) {
				return fmt.Errorf("record %d follows %d", r.Offset, next-1)
			}
			j.promise(p.part, r.Offset, compacted.Of(&r).ID, "read")
			next = r.Offset + 1
			return nil
		})
		if err == nil && !p.judged.cleaned.MayMiss(next, v.NextOffset()) {
			err = fmt.Errorf("a batch up to %d ends with record %d", v.LastOffset(), next-1)
		}
		next = max(next, v.NextOffset())
		if err != nil {
			j.w.fail("AckedRecordsReadable", "%s: %v", p, err)
			return next
		}
	}
	return next
}

// everything reads each log whole, and checks what was promised and the order of each
// producer's records.
func (j *judge) everything() {
	for _, p := range j.w.broker.partitions {
		if j.w.failed != nil || j.w.crashed {
			return
		}
		if p.Failure() != nil {
			continue
		}
		values, ok := j.contents(p)
		if !ok {
			return
		}
		start, end := int64(p.log.LogStart()), int64(p.log.LogEnd())
		if err := j.cleaned(p, values, start, end); err != nil {
			j.w.fail("NewestOfEachKey", "%s: %v", p, err)
			return
		}
		for _, o := range slices.Sorted(maps.Keys(p.judged.promised)) {
			if promised := p.judged.promised[o]; o >= start && values[o].ID != promised {
				if _, there := values[o]; !there && p.judged.cleaned.MayMiss(o, o+1) {
					continue
				}
				j.w.fail("AckedRecordsReadable", "%s: %s was promised at %d, %q is there; the log is %d to %d",
					p, promised, o, values[o].ID, start, end)
				return
			}
		}
		for o, value := range values {
			if !strings.HasPrefix(value.ID, p.prefix()) {
				j.w.fail("OwnRecords", "%s: %q is at %d", p, value.ID, o)
				return
			}
		}
		j.sequences(p, values, start, end)
	}
}

// visible checks that consumers can read all that was promised: when everything is quiet.
func (j *judge) visible() {
	for _, p := range j.w.broker.partitions {
		for _, o := range slices.Sorted(maps.Keys(p.judged.promised)) {
			if hw := int64(p.HighWatermark()); o >= hw {
				j.w.fail("AckedRecordsReadable", "%s: offset %d was promised, the high watermark is %d", p, o, hw)
				return
			}
		}
	}
}

// cleaned holds a log against what cleanings have met. A topic that is weak may have lost the
// end of it.
func (j *judge) cleaned(p *partition, values map[int64]compacted.Record, start, end int64) error {
	if p.weak {
		p.judged.cleaned.Cut(end)
		return nil
	}
	return p.judged.cleaned.Check(values, start, end)
}

// contents is every record in the log, by offset; false if a fault that was injected kept it
// from being read.
func (j *judge) contents(p *partition) (values map[int64]compacted.Record, ok bool) {
	values = make(map[int64]compacted.Record)
	start, end := int64(p.log.LogStart()), int64(p.log.LogEnd())
	for at := start; at < end; {
		info, err := p.log.Read(logstore.ReadParams{Offset: at, MaxBytes: 1 << 20, UpTo: end})
		if err != nil && j.w.excused(err) {
			return values, false
		}
		if err != nil || info.Region == nil {
			j.w.fail("AckedRecordsReadable", "%s: nothing at %d of %d to %d: %v", p, at, start, end, err)
			return values, false
		}
		views := j.w.batches(info.Region)
		if j.w.crashed || j.w.failed != nil || len(views) == 0 {
			return values, false
		}
		for _, v := range views {
			at = v.NextOffset()
			err := batch.Iterate(v, j.w.codecs, func(r batch.Record) error {
				values[r.Offset] = compacted.Of(&r)
				return nil
			})
			if err != nil {
				j.w.fail("AckedRecordsReadable", "%s: %v", p, err)
				return values, false
			}
		}
	}
	return values, true
}

// sequences checks that the records of each idempotent producer stand in the log once
// and in order. What retention took off the front is beyond doubt; of what cleanings took it
// is known what it was.
func (j *judge) sequences(of *partition, values map[int64]compacted.Record, start, end int64) {
	for _, p := range j.w.producers {
		if !p.idempotent || p.wasIdempotent || p.part != of.part {
			continue
		}
		next := int32(0)
		if start > 0 {
			next = -1 // unknown
		}
		for o := start; o < end; o++ {
			var n int32
			r, there := values[o]
			if !there {
				r, _ = of.judged.cleaned.Of(o)
			}
			if _, err := fmt.Sscanf(r.ID, p.stem()+"%d", &n); err != nil {
				continue
			}
			if next >= 0 && n != next {
				j.w.fail("SequencesContiguous", "%s: record %d of %s stands at %d, where %d is due", of, n, p.name, o, next)
				return
			}
			next = n + 1
		}
	}
}

// known is what may lie in a log directory. A -stray is a partition that metadata does not
// know, or whose creation a power cut has torn, a -delete one that was deleted; a .tmp is a
// checkpoint that a crash caught while it was written, one of each at most, since the next
// writing uses it again. A failed disk leaves a marker.
var known = regexp.MustCompile(`^((\.lock|\.klamm_disk_failed|meta\.properties|\.kafka_cleanshutdown` +
	`|(flushed-offset|recovery-point-offset|log-start-offset|replication-offset|segment|cleaner-offset)-checkpoint)(\.tmp)?(\.again)?` +
	`|t\d-\d+(\.[0-9a-f]{32}-(stray|delete))?(/(\d{20}\.(log|index|timeindex|txnindex|snapshot)|(leader-epoch-checkpoint|partition\.metadata)(\.tmp)?))?` +
	`|t\d-\d+\.[0-9a-f]{32}-(stray|delete)/\d{20}\.(log|index|timeindex|txnindex)\.(cleaned|swap))$`)

// leftByStop is what a stop leaves to the next start: a cleaned segment that is half in its
// place, since there was no descriptor or the disk has failed.
func leftByStop(failed bool) *regexp.Regexp {
	suffix := "swap"
	if failed {
		suffix = "(cleaned|swap)"
	}
	return regexp.MustCompile(`^t\d-\d+/\d{20}\.(log|index|timeindex|txnindex)\.` + suffix + "$")
}

// files looks at every name in the directories. Left may be there as well; nil: nothing else.
func (j *judge) files(left *regexp.Regexp) {
	for _, dir := range j.w.plan.dirs {
		j.list(dir, "", left)
	}
}

func (j *judge) list(dir, below string, left *regexp.Regexp) {
	entries, err := j.w.fs.ReadDir(dir + "/" + below)
	if err != nil {
		j.w.fail("NoUnknownFiles", "%v", err)
		return
	}
	for _, e := range entries {
		name := below + e.Name()
		if !known.MatchString(name) && (left == nil || !left.MatchString(name)) {
			j.w.fail("NoUnknownFiles", "%s in %s", name, dir)
		}
		if e.IsDir() {
			j.list(dir, name+"/", left)
		}
	}
}
