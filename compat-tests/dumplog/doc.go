// Package dumplog lets Apache Kafka's DumpLogSegments read every file of a data
// directory that klamm wrote (needs Java and Maven).
package dumplog
