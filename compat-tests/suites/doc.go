// Package suites runs the tests that other projects wrote for their own clients, unchanged,
// against Klamm, or against Apache Kafka 4.4 with BROKER=kafka.
//
//	make suite-kgo             franz-go, pkg/kgo
//	make suite-kgo-chaos       the same with connections that die every second
//	make suite-kafka-go        segmentio/kafka-go (its broker is localhost:9092)
//	make suite-confluent       confluent-kafka-go (needs a C compiler)
//	make suite-sarama          IBM/sarama: five nodes behind toxiproxy (needs a JDK)
//
// A run starts a broker on an empty directory, builds the suite from a copy of its module
// (.cache/suites) and compares the verdict of each test with lists/NAME.txt, which says
// what passes on Klamm and on Kafka, and why what does not. Every deviation fails, also an
// exception that passes. What is expected to fail, or leaves it to chance, runs in a
// process of its own each, so that it cannot take others with it.
//
// What sarama's tests have in docker-compose.yml is in compose.go and package docker: they
// stop brokers, start them again and cut them off.
//
// RUNS=n runs a suite n times; NODES=n runs franz-go's on a cluster, with RF replicas of
// each topic; EVIDENCE names a file to which a line about it is added.
package suites
