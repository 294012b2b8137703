// Package connect runs workers of Kafka Connect in distributed mode: a file goes into a
// topic and out of it into another file, while workers come, leave and are killed, and the
// topics that they keep are compacted (needs a JDK, and Maven once). BROKER=kafka runs it against Apache Kafka.
package connect
