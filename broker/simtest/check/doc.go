// Package check judges what clients of a cluster have lived through: which records were
// acknowledged, what consumers read, what a later process serves. It knows nothing of
// brokers, so it judges simulated ones and real processes alike.
//
// A History collects events while clients run:
//
//	Acked     a producer was told that its record stands at an offset
//	Refused   a producer was told that its record failed; it may be there or not
//	Saw       a consumer read a record
//	Offsets   a client asked for start, last stable and end offset
//
// and is shown what is there at some moment with Served. What breaks a promise becomes a
// Violation, named after the invariant that it breaks:
//
//	AckedRecordsReadable    what was acknowledged, or read once, is served at its offset,
//	                        and nothing else is served there
//	SequencesContiguous     an idempotent producer's records stand in the log once each, in
//	                        the order of sending, without a gap
//	SendsMonotonic          offsets that a producer is told rise in the order of sending
//	PollsContiguous         a consumer's next record is at the next offset
//	NewestOfEachKey         of a compacted topic the newest record of each key is served; see
//	                        compacted.go
//	OffsetOrder             start ≤ last stable ≤ end offset
//	HighWatermarkMonotonic  the end that clients see never falls
//
// Records carry their origin in their values, see Value. One mutex guards a History;
// nothing is called under it.
package check
