package check

import (
	"fmt"
	"strings"
	"sync"
)

// Violation is a broken promise.
type Violation struct {
	Invariant string
	Text      string
}

func (v Violation) String() string { return v.Invariant + ": " + v.Text }

// Partition names a partition.
type Partition struct {
	Topic string
	Index int32
}

func (p Partition) String() string { return fmt.Sprintf("%s-%d", p.Topic, p.Index) }

// Record is a record where it stands in its partition.
type Record struct {
	Offset int64
	Value  string
}

// Value makes the value of record n, counted from 0, of a producer in one partition,
// filled up to a size. Producer names have no spaces.
func Value(producer string, n, size int) string {
	value := fmt.Sprintf("%s %d ", producer, n)
	return value + strings.Repeat("~", max(0, size-len(value)))
}

// parseValue is the origin of a record.
func parseValue(value string) (producer string, n int, ok bool) {
	_, err := fmt.Sscanf(value, "%s %d", &producer, &n)
	return producer, n, err == nil
}

// History is what clients have lived through.
type History struct {
	mu         sync.Mutex
	partitions map[Partition]*partition
	producers  map[string]*producer
	consumers  map[consumerOf]int64 // next offset
	acked      int
	violations []Violation
}

type consumerOf struct {
	name string
	Partition
}

// partition is what is promised of one partition.
type partition struct {
	promised map[int64]promise
	end      int64  // the highest end that a client was told
	keyed    *keyed // nil: it is not compacted
}

type promise struct {
	value string
	by    string
}

// producer is one that writes to any number of partitions.
type producer struct {
	idempotent bool
	refused    map[Partition]map[int]bool
	last       map[Partition]int64 // offset of the last acknowledged record
}

// NewHistory is an empty one.
func NewHistory() *History {
	return &History{partitions: map[Partition]*partition{}, producers: map[string]*producer{}, consumers: map[consumerOf]int64{}}
}

// AddProducer introduces a producer. Only an idempotent one is held to having its
// records in the log once and in order.
func (h *History) AddProducer(name string, idempotent bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.producers[name] = &producer{
		idempotent: idempotent,
		refused:    map[Partition]map[int]bool{}, last: map[Partition]int64{},
	}
}

// Acked notes that a producer was told where record n stands. It is called in the order
// of sending.
func (h *History) Acked(name string, n int, p Partition, offset int64, value string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acked++
	producer := h.producers[name]
	if last, ok := producer.last[p]; ok && offset <= last {
		h.broken("SendsMonotonic", "%s: record %d of %s was acknowledged at %d, after one at %d", p, n, name, offset, last)
	}
	producer.last[p] = offset
	h.of(p).keyed.ack(name, n)
	h.promise(p, offset, value, "acknowledged")
}

// Refused notes that a producer gave record n up.
func (h *History) Refused(name string, n int, p Partition) {
	h.mu.Lock()
	defer h.mu.Unlock()
	refused := h.producers[name].refused
	if refused[p] == nil {
		refused[p] = map[int]bool{}
	}
	refused[p][n] = true
}

// Saw notes what a consumer read, in the order of reading.
func (h *History) Saw(consumer string, p Partition, r Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := consumerOf{consumer, p}
	if next, ok := h.consumers[key]; ok && r.Offset != next && (r.Offset < next || h.of(p).keyed == nil) {
		h.broken("PollsContiguous", "%s: %s got %d where %d is due", p, consumer, r.Offset, next)
	}
	h.consumers[key] = r.Offset + 1
	h.promise(p, r.Offset, r.Value, "read by "+consumer)
}

// Offsets notes what a client was told of a partition's bounds.
func (h *History) Offsets(p Partition, start, lastStable, end int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.offsets(p, start, lastStable, end)
}

func (h *History) offsets(p Partition, start, lastStable, end int64) {
	if start < 0 || start > lastStable || lastStable > end {
		h.broken("OffsetOrder", "%s: start %d, last stable %d, end %d", p, start, lastStable, end)
	}
	at := h.of(p)
	if end < at.end {
		h.broken("HighWatermarkMonotonic", "%s: clients saw an end of %d, and then %d", p, at.end, end)
	}
	at.end = max(at.end, end)
}

func (h *History) of(p Partition) *partition {
	if h.partitions[p] == nil {
		h.partitions[p] = &partition{promised: map[int64]promise{}}
	}
	return h.partitions[p]
}

func (h *History) promise(p Partition, offset int64, value, by string) {
	promised := h.of(p).promised
	if before, ok := promised[offset]; ok && before.value != value {
		h.broken("AckedRecordsReadable", "%s: at %d %s was %s, and then %s was %s",
			p, offset, short(before.value), before.by, short(value), by)
		return
	}
	promised[offset] = promise{value, by}
}

// broken notes a violation.
func (h *History) broken(invariant, format string, args ...any) {
	h.violations = append(h.violations, Violation{invariant, fmt.Sprintf(format, args...)})
}

// Violations are those so far.
func (h *History) Violations() []Violation {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Violation(nil), h.violations...)
}

// NumAcked is the number of acknowledgements so far.
func (h *History) NumAcked() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.acked
}

// Deleted forgets what was promised of a topic that somebody deleted.
func (h *History) Deleted(topic string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for p := range h.partitions {
		if p.Topic == topic {
			delete(h.partitions, p)
		}
	}
	for c := range h.consumers {
		if c.Topic == topic {
			delete(h.consumers, c)
		}
	}
}

// Promised lists the partitions of which something was promised.
func (h *History) Promised() (list []Partition) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for p := range h.partitions {
		list = append(list, p)
	}
	return list
}

// short is a value without its filling.
func short(value string) string { return fmt.Sprintf("%q", strings.TrimRight(value, "~")) }
