// Package overlay keeps the replayed state of a coordinator shard in two versions: what is
// committed, and on top of it what is written but not committed yet (Kafka's timeline data
// structures, without their snapshots).
//
// A shard replays a record as soon as it is written, since the next operation must see it;
// whether it stays is known later. So each change is filed under the offset of its record:
//
//	         committed                 pending
//	 ─────────────────────────┬──────┬──────┬──────┐
//	  k1=a k2=b               │ k1=c │ k3=d │ k1=e │     offsets rise to the right
//	 ─────────────────────────┴──────┴──────┴──────┘
//	                          ▲ end                ▲ newest
//
//	Get(k1) = e, GetCommitted(k1) = a
//	Advance(end)   the high watermark has moved: changes below end become committed
//	Rollback(from) an append was refused: changes at and above from are dropped
//
// [Map] is a map with that history, [Journal] the order of changes over all maps of one
// shard: a shard makes one Journal and any number of maps in it, and Advance and Rollback
// cost what they move, not the number of maps. Changes below an end that was advanced to
// before go straight into the committed state, which is how a shard loads what was
// committed long ago without paying for history.
//
// A map has room for pending changes only while it has some: a shard has many maps, of
// which few change at a time, and one change of many keys would otherwise take its room for
// good. The room is passed on from map to map by the journal.
//
// Values are replaced, never modified in place: both versions may share one.
//
// Without goroutines and locks; a shard owns its maps.
package overlay
