// Package oracle holds Klamm beside a running Apache Kafka 4.4: both are started on
// directories of the test's own, warmed up, and asked the same (needs Java, and Maven
// once).
//
//	Oracle      every scenario of package conform, RUNS times; nothing unexplained may differ
//	Record      what Kafka answers, twice; written to RECORD if both are the same
//	Generate    random sequences from SEED on, for DURATION, down to the last record
//	Exchange    segments that one of the two has written are served by the other
package oracle
