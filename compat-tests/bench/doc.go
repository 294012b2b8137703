// Package bench prints the figures of docs/performance.md: how long a process takes to
// answer, what it costs when idle, and what it carries. `make bench` runs it.
package bench
