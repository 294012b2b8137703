// Package bench prints the figures of docs/performance.md: what Klamm promises beside
// Apache Kafka (`make bench`), how long a process takes to answer, what it costs when idle,
// and what it carries (`make bench-alone`), and the loads of franz-go on both
// (`make bench-kafka`).
package bench
