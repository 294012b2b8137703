// Package lag measures how far groups are behind, for metrics: for each partition that a
// group has committed an offset for,
//
//	committed   the offset, as it is below the high watermark of its own log
//	lag         records between it and the high watermark of the partition; those that
//	            retention has removed do not count, and it is never below 0
//	age         how long ago the first record of the lag was written, as its batch says;
//	            0 where there is no lag
//
//	log start        committed                  high watermark
//	    ├───────────────┼──────────────────────────┤
//	    │    read       │◀────────── lag ─────────▶│
//	                    └─ written when? ── age ──▶ now
//
// Everything is looked up when somebody asks (Collect); nothing is done in between. A
// committed offset of a topic that is gone, or was made again, has no lag, and is left out.
//
// # Bounds
//
// Groups and topics are names that clients choose, so the series are bounded: at most
// MaxSeries partitions in all, the first by group, topic and partition, of groups whose
// name is a text of at most maxName bytes; how many are left out is a metric, too. Of those, at most maxAges ages are read from logs at one time; an
// age that was read is good as long as the group has not committed again.
package lag
