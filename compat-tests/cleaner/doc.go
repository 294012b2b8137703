// Package cleaner holds what logstore/compaction decides beside Apache Kafka's own cleaner,
// without a broker: random logs go through both, and of each is compared what is left, byte
// by byte, the transaction index, where the offset map ended, and what was counted.
//
// Kafka's side is Clean.java: it calls the methods of org.apache.kafka.storage's Cleaner that
// index a segment and clean it into another, with an offset map of its own, so that both are
// full at the same key. Batches that are compressed anew are compared record by record, since
// encoders differ.
//
//	make cleaner [SEED=1] [RUNS=1000]    (needs Java, and Maven once)
package cleaner
