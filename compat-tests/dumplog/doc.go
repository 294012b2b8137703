// Package dumplog lets Apache Kafka's DumpLogSegments read every file of a data
// directory that klamm wrote, and what groups leave in __consumer_offsets (needs Java and
// Maven); and the other way round, lets klamm go on with the groups of a Kafka.
package dumplog
