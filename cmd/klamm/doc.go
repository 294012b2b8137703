// Command klamm is the broker and its command line in one binary.
//
// `klamm start` runs a broker. `klamm topic`, `produce`, `consume`, `group` and `cluster` are
// clients of any Kafka-compatible cluster. `klamm log` reads the files of one that is not running. Each
// command is a file; main only maps errors to exit codes:
// 0 done, 1 failed while running, 2 the command line or the configuration is wrong.
package main
