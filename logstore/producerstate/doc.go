// Package producerstate remembers, for one partition, what each idempotent or
// transactional producer appended last, so that a repeated batch is recognised and a
// missing one refused (KIP-98), and which transactions are open, which bounds what
// read_committed consumers see.
//
//	                     Check            Update
//	produced batch  ──►  known? next? ──► last 5 batches, epoch,    ──► TakeSnapshot
//	                     │                open transaction              at the log end
//	                     ├─ duplicate: the original's offsets
//	                     └─ refused: sequence, epoch, transaction
//
// Manager is the state of a partition (Kafka's ProducerStateManager). Check looks and
// changes nothing; after the batch was written, Update takes it in. Recovery, followers
// and reloads after a truncation call Update alone: the leader has decided. Where that knew
// less of a producer than is known here, its word counts (see Producer.addBatch).
//
// A transaction is open from its first batch to its marker. When the marker is written
// it is decided, but stays "unreplicated" until the high watermark has passed the
// marker: only then does it stop holding the last stable offset back.
//
//	first batch      marker        high watermark > marker
//	── ongoing ──────┤── unreplicated ──┤ forgotten
//
// Snapshot files (NNN.snapshot) hold the state as of the end offset in their name, in
// Kafka's format:
//
//	version i16 = 1 | crc u32 | count i32 | count × 46 bytes:
//	producerId i64 | epoch i16 | lastSequence i32 | lastOffset i64 | offsetDelta i32 |
//	timestamp i64 | coordinatorEpoch i32 | currentTxnFirstOffset i64
//
// The CRC-32C covers everything after itself. A producer has an entry for each of its
// last 5 batches, the newest last, where Kafka writes that one alone; whoever reads the
// entries one over the other, as Kafka does, is left with the newest. Of transactions
// only those that are open are kept, in the newest entry.
//
// A Manager is not safe for concurrent use: the log's lock serialises calls. It holds
// nothing but a few words until the first producer comes. The package has no
// goroutines. Writing a snapshot can be split so that no lock is held while the disk
// works: EncodeSnapshot, Snapshot.Write, SnapshotWritten.
package producerstate
