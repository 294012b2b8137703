// Package transcripts holds what Apache Kafka 4.4 answered to every scenario, a file for
// each API, and which differences of Klamm are meant (explained.txt); and the same for
// three nodes of it (explained-cluster.txt).
//
// The files are made by `make oracle-record` and `make oracle-cluster-record`, never by
// hand.
package transcripts
