// Package transcripts holds what Apache Kafka 4.4 answered to every scenario, a file for
// each API, and which differences of Klamm are meant (explained.txt).
//
// The files are made by `make oracle-record`, never by hand.
package transcripts
