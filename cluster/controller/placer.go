package controller

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/klamm-mq/klamm/internal/invariant"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// usableBroker is a broker that may get replicas. A fenced one may follow, not lead.
type usableBroker struct {
	id     int32
	rack   string // "" for a broker without rack: those share one rack
	fenced bool
}

// place chooses replicas for new partitions (Kafka's StripedReplicaPlacer). Result i is
// the replica list of partition i, the preferred leader first.
//
//	racks        A = {A0 A1 A2}   B = {B0 B1 B2}   C = {C0 C1 C2}
//	partition 0  A0 B0 C0         round robin over the racks,
//	partition 1  B1 C1 A1         the next partition starts one rack later
//	partition 2  C2 A2 B2         and one broker later within each rack
//
// The starts are random. No broker gets two replicas of a partition; leaders are unfenced;
// within a rack unfenced brokers come first. Evenness over racks wins over evenness over
// brokers. The error is of kind INVALID_REPLICATION_FACTOR.
func place(rng *rand.Rand, brokers []usableBroker, partitions, replicationFactor int) ([][]int32, error) {
	racks := newRackList(rng, brokers)
	invariant.Check(replicationFactor > 0, "place %d replicas", replicationFactor)
	if racks.unfenced == 0 {
		return nil, kafkaerr.New(kafkaerr.InvalidReplicationFactor, "every broker is fenced or shutting down")
	}
	if replicationFactor > len(brokers) {
		return nil, kafkaerr.New(kafkaerr.InvalidReplicationFactor, fmt.Sprintf(
			"%d replica(s) need as many brokers, of which there are %d", replicationFactor, len(brokers)))
	}
	placed := make([][]int32, partitions)
	for i := range placed {
		placed[i] = racks.next(replicationFactor)
	}
	return placed, nil
}

// rackList hands out one replica list after the other.
type rackList struct {
	rng      *rand.Rand
	racks    []*rack
	unfenced int
	offset   int // the rack where the next partition starts
	epoch    int // partitions placed since the last shuffle
}

type rack struct {
	name             string
	unfenced, fenced brokerRing
}

func newRackList(rng *rand.Rand, brokers []usableBroker) *rackList {
	l := &rackList{rng: rng}
	byName := map[string]*rack{}
	for _, b := range brokers {
		r := byName[b.rack]
		if r == nil {
			r = &rack{name: b.rack}
			byName[b.rack] = r
			l.racks = append(l.racks, r)
		}
		if b.fenced {
			r.fenced.ids = append(r.fenced.ids, b.id)
		} else {
			r.unfenced.ids = append(r.unfenced.ids, b.id)
			l.unfenced++
		}
	}
	slices.SortFunc(l.racks, func(a, b *rack) int { return strings.Compare(a.name, b.name) })
	for _, r := range l.racks {
		r.fenced.initialize(rng)
		r.unfenced.initialize(rng)
	}
	if len(l.racks) > 0 {
		l.offset = rng.IntN(len(l.racks))
	}
	return l
}

// next places one partition. The caller has checked that there are enough brokers and
// that one is unfenced, so both loops end.
func (l *rackList) next(replicationFactor int) []int32 {
	// Once every unfenced broker could have led a partition, the stripes would repeat.
	if l.epoch == l.unfenced && l.unfenced > 1 {
		l.shuffle()
		l.epoch = 0
	}
	if l.offset == len(l.racks) {
		l.offset = 0
	}
	replicas := make([]int32, 0, replicationFactor)
	leader, leaderRack := l.leader()
	replicas = append(replicas, leader)
	for i := l.offset; len(replicas) < replicationFactor; i = (i + 1) % len(l.racks) {
		if i == leaderRack { // that rack has had its turn
			leaderRack = -1
			continue
		}
		if id, ok := l.racks[i].next(l.epoch); ok {
			replicas = append(replicas, id)
		}
	}
	l.epoch++
	l.offset++
	return replicas
}

// leader takes an unfenced broker of the first rack, from offset on, that has one left.
func (l *rackList) leader() (id int32, rack int) {
	for i := l.offset; ; i = (i + 1) % len(l.racks) {
		if id, ok := l.racks[i].unfenced.next(l.epoch); ok {
			return id, i
		}
	}
}

func (l *rackList) shuffle() {
	l.rng.Shuffle(len(l.racks), func(i, j int) { l.racks[i], l.racks[j] = l.racks[j], l.racks[i] })
	for _, r := range l.racks {
		r.fenced.shuffle(l.rng)
		r.unfenced.shuffle(l.rng)
	}
}

func (r *rack) next(epoch int) (int32, bool) {
	if id, ok := r.unfenced.next(epoch); ok {
		return id, true
	}
	return r.fenced.next(epoch)
}

// brokerRing gives each of its brokers at most once per epoch; each new epoch starts one
// broker later.
type brokerRing struct {
	ids                    []int32
	index, offset, current int // current is the epoch that index belongs to
}

func (r *brokerRing) initialize(rng *rand.Rand) {
	if len(r.ids) > 0 {
		slices.Sort(r.ids)
		r.offset = rng.IntN(len(r.ids))
	}
}

func (r *brokerRing) shuffle(rng *rand.Rand) {
	rng.Shuffle(len(r.ids), func(i, j int) { r.ids[i], r.ids[j] = r.ids[j], r.ids[i] })
}

func (r *brokerRing) next(epoch int) (int32, bool) {
	if len(r.ids) == 0 {
		return 0, false
	}
	if r.current != epoch {
		r.current, r.index = epoch, 0
		r.offset = (r.offset + 1) % len(r.ids)
	}
	if r.index >= len(r.ids) {
		return 0, false
	}
	id := r.ids[(r.index+r.offset)%len(r.ids)]
	r.index++
	return id, true
}
