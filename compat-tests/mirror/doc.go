// Package mirror has MirrorMaker 2 copy topics between klamm and a real Apache Kafka 4.4,
// in both directions at once: records, partitions, configurations and the offsets of
// groups (needs a JDK, and Maven once).
package mirror
