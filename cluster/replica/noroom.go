package replica

import "github.com/twmb/franz-go/pkg/kmsg"

// tagNoRoom is a tagged field of our own in Fetch, empty: the log directory of the follower
// that asks is full. It is far above Kafka's numbers, and a Kafka broker ignores it.
//
// Such a follower cannot take the next record, so that every write would wait for it until
// replica.lag.time.max.ms has passed. The leader sends it no records, has it leave the ISR at
// once and does not let it join, but goes on to tell it of log start and high watermark: it
// may be the deletion of records that makes room. With the next Fetch without the tag the
// follower is one that is behind, like any other.
const tagNoRoom = 10_000

// SetNoRoom marks a follower's Fetch.
func SetNoRoom(req *kmsg.FetchRequest) { req.UnknownTags.Set(tagNoRoom, nil) }

// NoRoom tells whether a Fetch is marked.
func NoRoom(req *kmsg.FetchRequest) (marked bool) {
	req.UnknownTags.Each(func(key uint32, _ []byte) { marked = marked || key == tagNoRoom })
	return marked
}

// withoutRoom is the reader of a full directory, as this leader sees it. One that is full as
// well appends nothing that anybody would have to wait for: then the ISR stays as it is, so
// that whoever has room first may lead.
func (r *Reader) withoutRoom(h *hosted) *Reader {
	marked := *r
	if dir := h.at().dir; dir != nil && dir.Full() {
		marked.NoRoom = false
	}
	return &marked
}
