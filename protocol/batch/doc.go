// Package batch reads, checks, patches and builds record batches of magic 2, the unit
// in which records travel and are stored (KIP-98).
//
// # Bytes
//
// A [View] is the bytes of one batch; its accessors read the header in place.
//
//	 0          8        12             16      17    21           23                 27
//	┌──────────┬────────┬──────────────┬───────┬─────┬────────────┬──────────────────┬─────────
//	│ base     │ length │ leader       │ magic │ CRC │ attributes │ last offset      │
//	│ offset   │        │ epoch        │ = 2   │     │            │ delta            │
//	└──────────┴────────┴──────────────┴───────┴─────┴────────────┴──────────────────┴─────────
//	 27               35              43            51         53        57         61
//	┌────────────────┬───────────────┬─────────────┬──────────┬─────────┬──────────┬──────────
//	│ base           │ max           │ producer id │ producer │ base    │ record   │ records,
//	│ timestamp      │ timestamp     │             │ epoch    │ sequence│ count    │ maybe compressed
//	└────────────────┴───────────────┴─────────────┴──────────┴─────────┴──────────┴──────────
//
// The CRC covers everything from the attributes on, so a leader patches base offset and
// leader epoch without computing it anew. A record is
//
//	length  attributes  timestamp delta  offset delta  key  value  headers
//	varint  int8        varlong          varint        ‹n›  ‹n›    count, ‹n› ‹n› …
//
// where ‹n› is a varint length, negative for null, and as many bytes.
//
// # Types
//
//   - [Next] cuts batches off a buffer, [View.Check] finds damage.
//   - [Iterator] walks records: in place and without allocating where they are not
//     compressed; else over a window that a pooled decoder fills piece by piece, so
//     that memory is bounded whatever the bytes claim to become.
//   - [Validate] decides what a leader appends, as Kafka's LogValidator does, and
//     patches the header or rebuilds the batch.
//   - [Builder] writes batches; [NewEndTxnMarker] transaction markers.
//   - [Retainer] writes what compaction leaves of a batch.
//   - [Codecs] holds pools of decoders and encoders, and the limits. It is passed in:
//     pools that were global would be shared by all brokers of a process, which the
//     virtual time of tests does not allow.
//
// # Goroutines and locks
//
// None of its own. Views are plain bytes, whoever owns them orders access. Codecs is
// safe for concurrent use and blocks in one case: a zstd frame whose window is above
// 8 MiB waits for its turn, since each costs up to 128 MiB. While it has its turn an
// iterator must not wait for another iterator.
package batch
