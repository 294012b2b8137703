// Package conformance holds a broker of this process beside the recorded answers of Apache
// Kafka 4.4: every scenario of package conform, over TCP, without Java.
//
// It is here because conform judges any broker from outside and knows none. `make oracle`
// does the same with two processes, of which one is a Kafka.
package conformance
