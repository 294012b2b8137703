package cluster

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/klamm-mq/klamm/broker/simtest/compacted"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/wire"
)

// everything takes stock at the end: each replica has all that was promised, and leaders
// show it.
func (j *judge) everything() {
	for _, n := range j.w.nodes {
		for _, p := range n.b.order {
			v := j.parts[p.id]
			if v == nil || p.Failure() != nil {
				continue
			}
			j.keeps(n, p, v, "is in the ISR at the end")
			values, ok := j.contents(p)
			if !ok {
				continue
			}
			j.owned(p, v, values)
			j.sequences(n, p, v, values)
		}
	}
}

// keeps checks that a log has everything that was promised.
func (j *judge) keeps(n *node, p *partition, v *verdicts, when string) {
	values, ok := j.contents(p)
	if !ok {
		return
	}
	j.owned(p, v, values)
	start := int64(p.log.LogStart())
	j.newest(p, v, values, int64(p.log.LogEnd()), when)
	for _, o := range slices.Sorted(maps.Keys(v.promised)) {
		if o >= start && values[o].ID != v.promised[o] {
			if _, there := values[o]; !there && v.cleaned.MayMiss(o, o+1) {
				continue
			}
			j.w.fail("AckedRecordsReadable", "%s: %s was promised at %d; broker %d, which %s, has %q there; its log is %d to %d",
				v.part, v.promised[o], o, n.id, when, values[o].ID, start, p.log.LogEnd())
			return
		}
	}
}

// contents is every record in a log, by offset; false if it could not be read.
func (j *judge) contents(p *partition) (values map[int64]compacted.Record, ok bool) {
	values = make(map[int64]compacted.Record)
	for at, end := int64(p.log.LogStart()), int64(p.log.LogEnd()); at < end; {
		views := j.batches(p, at, end)
		if len(views) == 0 {
			return values, j.w.failed == nil && p.log.Failure() == nil && j.emptied(p, at, end)
		}
		for _, v := range views {
			at = v.NextOffset()
			if err := batch.Iterate(v, j.w.codecs, func(r batch.Record) error {
				values[r.Offset] = compacted.Of(&r)
				return nil
			}); err != nil {
				j.w.fail("AckedRecordsReadable", "%s-%d: %v", p.topic, p.id.Partition, err)
				return values, false
			}
		}
	}
	return values, true
}

// sequences checks that the records of each idempotent producer stand in a log once and in
// order. Batches that it has given up may be missing, as a whole; of what cleanings took it is
// known what it was.
func (j *judge) sequences(n *node, of *partition, v *verdicts, values map[int64]compacted.Record) {
	for _, p := range j.w.producers {
		if !p.idempotent || p.part != v.part {
			continue
		}
		next := int32(0)
		if of.log.LogStart() > 0 {
			next = -1 // what retention took is beyond doubt
		}
		for o := range int64(of.log.LogEnd()) {
			var number int32
			r, there := values[o]
			if !there && o >= int64(of.log.LogStart()) {
				r, _ = v.cleaned.Of(o)
			}
			if !strings.HasPrefix(r.ID, p.name+"-") {
				continue
			}
			_, err := fmt.Sscanf(r.ID, p.name+"-%d", &number)
			if next < 0 {
				next = number
			}
			for next < number && (p.unknown[next] > 0 || v.lost[p.value(next)]) {
				next += max(1, p.unknown[next])
			}
			if err != nil || number != next {
				j.w.fail("SequencesContiguous", "%s on %d: %s stands at %d, where record %d is due", v.part, n.id, r.ID, o, next)
				return
			}
			next++
		}
	}
}

// batches reads whole batches of a log from at on, up to end.
func (j *judge) batches(p *partition, at, end int64) []batch.View {
	info, err := p.log.Read(logstore.ReadParams{Offset: at, MaxBytes: 1 << 20, UpTo: end, MinOne: true})
	if err != nil && p.log.Failure() != nil {
		return nil // it is damaged, and will be seen to be
	}
	if err == nil && info.Region == nil && j.emptied(p, at, end) {
		return nil
	}
	if err != nil || info.Region == nil {
		j.w.fail("AckedRecordsReadable", "%s-%d: nothing at %d, though the log goes to %d: %v", p.topic, p.id.Partition, at, p.log.LogEnd(), err)
		return nil
	}
	return j.views(p, info.Region)
}

// emptied tells whether there need be nothing between two offsets, since it was cleaned. They
// lie in a gap then: a high watermark that was persisted long ago may.
func (j *judge) emptied(p *partition, from, to int64) bool {
	v := j.parts[p.id]
	return v != nil && v.cleaned.MayMiss(from, to)
}

// views reads a region of a log and releases it.
func (j *judge) views(p *partition, r wire.Region) (views []batch.View) {
	defer r.Release()
	buf := make([]byte, r.Len())
	if _, err := r.ReadAt(buf, 0); err != nil && p.log.Failure() != nil {
		return nil // it is damaged, and will be seen to be
	} else if err != nil && !errors.Is(err, io.EOF) {
		j.w.fail("AckedRecordsReadable", "read %d bytes: %v", len(buf), err)
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

// unrest is what is not as it should be when the faults have ended, "" if nothing.
func (w *world) unrest() string {
	var all []string
	for _, p := range w.producers {
		if len(p.unacked) > 0 {
			all = append(all, fmt.Sprintf("%s has %d batches unacknowledged", p.name, len(p.unacked)))
		}
	}
	for id, v := range w.judge.parts {
		s := w.quorum.image().Partition(id.TopicID, id.Partition)
		if s.Leader == metadata.NoLeader || len(s.ISR) < len(s.Replicas) {
			all = append(all, fmt.Sprintf("%s has leader %d, ISR %v, ELR %v of %v", v.part, s.Leader, s.ISR, s.ELR, s.Replicas))
		}
	}
	for _, n := range w.nodes {
		if n.b == nil || n.b.image == nil || n.b.image.Position().Index < w.quorum.committed() {
			all = append(all, fmt.Sprintf("broker %d is behind", n.id))
			continue
		}
		if len(n.b.moves) > 0 {
			all = append(all, fmt.Sprintf("%d replicas move on %d", len(n.b.moves), n.id))
		}
		for _, p := range n.b.order {
			if p.Failure() != nil {
				all = append(all, fmt.Sprintf("%s-%d on %d: %v", p.topic, p.id.Partition, n.id, p.Failure()))
				continue
			}
			if int64(p.HighWatermark()) < int64(p.log.LogEnd()) || p.d.flushing {
				all = append(all, fmt.Sprintf("%s-%d on %d: high watermark %d, end %d", p.topic, p.id.Partition, n.id, p.HighWatermark(), p.log.LogEnd()))
			}
		}
	}
	if left := w.throttled(); left != "" {
		all = append(all, left)
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}
