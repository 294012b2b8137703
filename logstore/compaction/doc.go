// Package compaction decides what the cleaner of a log keeps: of each key the newest
// record, as Kafka's Cleaner, LogCleanerManager and MemoryRecords.filterTo do.
//
// It is pure: batches and numbers come in, decisions and batches go out. Files, the state
// of a log and goroutines are logstore's.
//
// # One cleaning
//
//	                 log start        first dirty          first uncleanable     log end
//	                     │   cleaned before │   cleanable dirty   │  too young,     │
//	                     │                  │                     │  active, or not │
//	                     ▼                  ▼                     ▼  yet committed  ▼
//	segments             ├──────┬─────┬─────┼────┬────┬────┬──────┼────┬────┬───────┤
//	                     │                  │                │
//	1. Judge             where the two borders are, and how much lies between
//	2. Indexer           └─ reads ─────────► OffsetMap: key → newest offset, up to Latest
//	3. Groups            [0 … segments that begin at or below Latest] in small neighbours
//	4. Filter            reads each group again from the log start: keeps, rewrites, drops
//
// The map may be full before the dirty part ends, also in the middle of a batch. What lies
// behind [OffsetMap.Latest] is then kept whatever it is, and Latest + 1 is the next first
// dirty offset. The caller says with [OffsetMap.Reach] that the end of a segment has been
// reached, since offsets may be missing at its end.
//
// # What Filter does with a batch
//
//   - Nothing changes: it gives back the very bytes that it was given.
//   - Records go: the batch is written anew with the codec, base offset, last offset,
//     producer, epoch, sequence and kind of timestamps that it had. Offsets and timestamps
//     of what remains are as before.
//   - A tombstone, or the marker of a transaction of which nothing is left, is kept for the
//     first time: the batch is written anew with its delete horizon, now +
//     delete.retention.ms, as base timestamp (KIP-534). A later cleaning, at or after the
//     horizon, drops it.
//   - No record remains: the batch goes, or stays as a header if it bears the last sequence
//     or epoch of an active producer, ends at the high watermark, or is the last of the
//     segment that is written (which has to reach to where the next one begins). For that
//     last reason alone, which Kafka does not have, it stays without a maximum timestamp.
//
// Records of aborted transactions go at once; their marker stays, with its entry in the
// transaction index, as long as a batch of the transaction, if empty, is there.
//
// # Differences from Kafka
//
// None in the batches. The key's hash is the first half of SHA-256 instead of MD5, for
// which two keys of one hash can be made, and then one of them would be lost. An abort marker
// that the transaction index does not know stays as long as there are batches that it may
// have ended.
//
// # Goroutines and locks
//
// None. A value belongs to one goroutine at a time.
package compaction
