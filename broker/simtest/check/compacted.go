package check

// Of a compacted topic a record that was promised may be missing once its producer has sent a
// later one of its key. So that this tells something, each key has one producer, an
// idempotent one, whose records stand in order.
//
//	sent     k=1  k=2  k=3  k=-
//	acked     ✓    ✓
//	served        k=2            fine, 1 was replaced
//	              k=2  k=3       fine, 3 was written
//	         k=1                 wrong: 2 is the newest that was promised
//	         nothing             fine, if the tombstone was written, cleaned, and has gone

// keyed are the keys of one compacted partition.
type keyed struct {
	keys map[string]map[int]string // by producer and number of a record
	// last and acked are the newest record of each key that was sent, that was acknowledged;
	// tombstone the newest tombstone that was sent. -1: none.
	last, acked, tombstone map[string]int
	replaced               int // promises that were not served, and need not be
}

// Compacted says that a topic is compacted. It is called before anything is sent to it.
func (h *History) Compacted(topic string, partitions int32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range partitions {
		h.of(Partition{topic, i}).keyed = &keyed{
			keys: map[string]map[int]string{}, last: map[string]int{}, acked: map[string]int{}, tombstone: map[string]int{},
		}
	}
}

// Sent notes that a producer is about to send record n, with a key or the tombstone of one, to
// a compacted partition.
func (h *History) Sent(producer string, n int, p Partition, key string, tombstone bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.of(p).keyed
	if k.keys[producer] == nil {
		k.keys[producer] = map[int]string{}
	}
	k.keys[producer][n] = key
	k.last[key] = n
	if tombstone {
		k.tombstone[key] = n
	}
}

// ack notes that a record was acknowledged.
func (k *keyed) ack(producer string, n int) {
	if k != nil {
		k.acked[k.keys[producer][n]] = n
	}
}

// Replaced counts the promises of compacted partitions that were not served in the end, as
// later records of their keys had been sent.
func (h *History) Replaced() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.partitions {
		if p.keyed != nil {
			n += p.keyed.replaced
		}
	}
	return n
}

// isReplaced tells whether a promise need not be kept.
func (k *keyed) isReplaced(value string) bool {
	producer, n, ok := parseValue(value)
	if k == nil || !ok {
		return false
	}
	key, ok := k.keys[producer][n]
	if ok && n < k.last[key] || k.isTombstone(key, n) {
		k.replaced++
		return true
	}
	return false
}

func (k *keyed) isTombstone(key string, n int) bool {
	last, any := k.tombstone[key]
	return any && last == n
}

// newest checks what is served of each key.
func (h *History) newest(p Partition, records []Record) {
	k := h.of(p).keyed
	if k == nil {
		return
	}
	k.replaced = 0
	served := map[string]int{}
	for _, r := range records {
		producer, n, _ := parseValue(r.Value)
		key, ok := k.keys[producer][n]
		if before, any := served[key]; !ok || any && before >= n {
			h.broken("NewestOfEachKey", "%s: at %d is %s, after record %d of key %q", p, r.Offset, short(r.Value), before, key)
			return
		}
		served[key] = n
	}
	for key, acked := range k.acked {
		last, any := served[key]
		deleted, ever := k.tombstone[key]
		switch {
		case any && last >= acked, !any && ever && deleted >= acked:
		case any:
			h.broken("NewestOfEachKey", "%s: key %q has record %d, %d was acknowledged", p, key, last, acked)
		default:
			h.broken("NewestOfEachKey", "%s: nothing is there of key %q, record %d was acknowledged", p, key, acked)
		}
	}
}
