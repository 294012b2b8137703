// Package compaction holds Klamm's log compaction beside that of Apache Kafka 4.4: the same
// records go into a topic of each, both clean it, and what is left is compared batch by
// batch and record by record.
//
//	write (cleanup.policy=delete) ─▶ compact ─▶ wait until the cleaner has come to the
//	active segment ─▶ read the files and as a consumer, look up by offset and time ─▶ write on …
//
// The policy is changed only when everything is written, so that one pass cleans it all and
// both brokers clean the same segments. How far a cleaner has come is in its
// cleaner-offset-checkpoint, which both write in the same format.
//
// A History is what is written. Some have a name and show one rule each; Random ones have a
// seed. One difference is meant (docs/divergence.md, `compaction`): Klamm keeps the last batch
// of each cleaned segment, if need be without records.
//
//	Recorded     Klamm beside what Kafka has left, from testdata (needs only Go)
//	BesideKafka  Klamm beside a running Kafka, SEEDS (10) random histories from SEED (1) on
//	             as well (needs Java, and Maven once)
//	Record       renews testdata, from two fresh Kafkas that must agree
package compaction
