// Package exchange moves segments between Klamm and Apache Kafka 4.4, in both directions:
// what one has written the other serves, record for record, and idempotent producers go
// on where they were; what one has compacted the other compacts further (needs Java, and
// Maven once).
//
//	write on both ─▶ stop both ─▶ copy logs, indexes, snapshots and epochs
//	                              into a topic made for them; partition.metadata stays,
//	                              its checkpoint entries go
//	              ─▶ start both ─▶ read, look up by time, continue
package exchange
