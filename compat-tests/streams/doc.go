// Package streams runs an application of Kafka Streams: a word count with a store on
// RocksDB, its changelog, which is compacted all the time, and a topic for repartitioning, at
// least once (needs a JDK, and Maven once). BROKER=kafka runs it against Apache Kafka.
package streams
