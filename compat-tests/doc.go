// Package compat holds the tests that drive a real klamm process with real clients:
// each client in a package of its own, so that what a run needs is chosen by naming
// packages and never by a skipped test.
//
//	harness   builds the binary, starts, kills and stops processes
//	franz     franz-go (only Go is needed)
//	kcat      librdkafka's command line (kcat on PATH)
//	dumplog   Kafka's DumpLogSegments reads our files (Java, and Maven once)
//	crash     SIGKILL in a loop under load of three client programs (kcat on PATH)
//	disk      a file system that fills up (root, for mounting it)
package compat
