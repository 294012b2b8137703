// Package groups plays the life of a consumer group with the client library of any
// language, and judges it by what its members print:
//
//	two members share a topic; one leaves, the other takes over;
//	a third comes and is killed, its partitions move after the session timeout;
//	the broker is killed and started again, and commits go on;
//	everybody leaves, a last member begins where the group had committed.
//
// All the while a producer writes. In the end every record that was acknowledged has been
// read by some member (at least once, nothing skipped), what the group has committed is
// the end of each partition, and has never gone back.
//
// A member is a program of a few lines. It commits after it has processed, leaves the
// group on SIGTERM, and prints:
//
//	assigned 0,3        its partitions, each time they change (nothing behind the word: none)
//	record 3 17 text    a record: partition, offset, value
//
// A client whose program cannot be told what to print has a Parse of its own.
//
// BROKER=kafka runs the same life against Apache Kafka, by which a program and this judge
// are known to be right.
package groups
