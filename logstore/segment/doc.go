// Package segment is one piece of a partition's log: a file of record batches and the
// small indexes beside it, all in Kafka's formats.
//
//	00000000000000004711.log        batches back to back, from base offset 4711 on
//	00000000000000004711.index      offset → position, 8 bytes an entry
//	00000000000000004711.timeindex  timestamp → offset, 12 bytes an entry
//	00000000000000004711.txnindex   aborted transactions, 34 bytes an entry; only if any
//
//	.log        |batch 4711..4714|batch 4715..4715|batch 4716..4730|…
//	             pos 0            pos 310          pos 420
//	.index                                         (4730-4711, 420)   sparse
//	.timeindex                                     (max so far, 4730-4711)
//
// An offset index entry holds the last offset of a batch and where that batch begins.
// The first batch that begins more than index.interval.bytes behind the last indexed
// one gets an entry, and then the largest timestamp so far is noted as well, with the
// last offset of the batch that has it, if it has grown. The indexes have no checksum:
// they are checked against the log when loaded, and their entries when they are used, and
// built again when they are missing or do not fit.
//
// # Lazy
//
// Segment is a few hundred bytes until it is used. The first use reads the indexes into
// memory and walks the batches behind the last entry, which tells where the segment
// ends. FilePool, shared by all segments of a broker, keeps the descriptors and indexes
// that were used last and closes the others; a file with unflushed bytes stays open,
// since a failed write-back is only reported to those who had the file open.
//
//	closed ──use──► open, in use ──release──► open, idle ──pool full──► closed
//	                     │                        ▲
//	                     └── append ──► unflushed ┘ Flush.Finish(nil)
//
// # Reading and writing
//
// A segment that gets many small appends is prepared for them by WriteAhead, with blocks of
// zeros behind its end (ahead.go): its file is then longer than the segment.
//
// Append writes the bytes with one WriteAt, and then, under the lock, moves the end and
// adds to the indexes. Index entries stay in memory until WriteIndexes, Seal or Close.
// Read answers a wire.Region: a reference-counted claim on the open file. Closing or
// deleting a segment takes effect on the descriptor when the last region is released;
// a truncation can make a region end early, which its reader sees as an error.
//
// Bytes that were there when the segment was opened are cold: the CRC of each batch is
// checked the first time that it is read. Recover checks everything behind a given
// offset. What is wrong with the log file is a *CorruptionError with the position.
//
// # Concurrency
//
// Appends, truncations, Seal, Recover and Close are serialised by the caller. Reads,
// look-ups and flushes run beside them. A reader that was overtaken by a truncation
// notices that the generation has changed, and starts again. The package starts no
// goroutines. Locks, in the order in which they may be taken together:
//
//	Segment.loadMu   one goroutine loads the indexes
//	Segment.indexMu  one goroutine writes the index files
//	Segment.mu       the state in memory; never held during I/O
//	FilePool.mu      which files are open; never held during I/O
//
// Segment.mu and FilePool.mu are never held together. No lock is held during a sync.
package segment
