// Package checkpoint reads and writes the small text files beside the logs: where
// recovery starts, what was flushed, where each leader epoch began, which topic a
// directory belongs to.
//
// Kafka's checkpoint files all look alike: the format's version, the number of
// entries, one entry per line with its fields separated by spaces.
//
//	0
//	2
//	orders 0 4711
//	orders 1 4690
//
//	file                                  where          fields of a line
//	recovery-point-offset-checkpoint      log directory  topic partition offset
//	replication-offset-checkpoint         log directory  topic partition offset (high watermark)
//	log-start-offset-checkpoint           log directory  topic partition offset
//	cleaner-offset-checkpoint             log directory  topic partition offset
//	flushed-offset-checkpoint             log directory  topicId partition offset, then a CRC line
//	segment-checkpoint                    log directory  topicId partition baseOffset size endOffset, then a CRC line
//	leader-epoch-checkpoint               partition      epoch startOffset
//	partition.metadata                    partition      version: 0 / topic_id: <22 characters>
//	.kafka_cleanshutdown                  log directory  {"version":0,"brokerEpoch":12}
//
// flushed-offset-checkpoint and segment-checkpoint are ours; all others are Kafka's. The first decides whether bad
// bytes are a torn tail or damage, so it carries a CRC-32C of everything before its
// last line, and is keyed by topic id, so that a topic created again under an old name
// never inherits the old one's flushed offset. So it is with what the second knows.
//
// In Kafka's files with offsets or epochs the checksum is white space at the end of the last line,
// which Kafka passes over (see withSum).
//
// Every write goes through vfs.WriteFileAtomic: a crash leaves the old file or the new
// one. A file that is missing or empty reads as no entries, as in Kafka. Anything else
// that cannot be read is a *FormatError naming file and line.
//
// The package has no state and no goroutines. The caller makes sure that one file is
// not written twice at the same time, since both would use the same temporary name.
package checkpoint
