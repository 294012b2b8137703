// Package chaos kills, pauses and cuts off brokers while five client libraries, each with its
// default settings, write and read in groups, and judges what they were told.
//
// TestOneBrokerUnderSIGKILL has one broker, which is killed every minute. In
// TestThreeBrokersUnderFaults there are three, and faults of many kinds in the order of a
// seed (faults.go), on a network that can be cut (network.go). What an operator does on purpose is
// done under the same load, and may cost clients no more than a retry: TestRollingRestarts,
// TestRollingUpgrade (with other binaries, and levels of klamm.metadata) and TestRollingMembers
// (with brokers drained, voters removed and added, members.go). The network:
//
//	clients ──► door of node 1 ──► node 1        each node has a door for clients and
//	node 2  ──► door of node 1 ──► node 1        brokers, and one for controllers; who calls
//	node 3  ──► door of node 1 ──► node 1        is said in the first bytes
//
// Each library has a topic, a producer (producers/) that writes to it, and a group of two
// members (those of package groups) that read the topic of another library:
//
//	producer   topic           group of two
//	franz-go   from-franz      java
//	java       from-java       kafkajs
//	kafkajs    from-kafkajs    kafka-python
//	kafka-python from-python   librdkafka (kcat)
//	librdkafka from-librdkafka franz-go
//
// After each fault every process has to go on within a minute: a producer gets an
// acknowledgement, a member a record. In the end
//
//   - every acknowledged record is served where its producer was told, exactly once if the
//     producer is idempotent, else at least once;
//   - a producer's records stand in each partition in the order in which it sent them;
//   - every group has read every acknowledged record, has read nothing that is not served
//     there, and has committed the end of each partition;
//   - no client has ended by itself.
//
// With three brokers there is more: readers without a group must see every offset once and
// in order; records that are too large must never be there; no node may end by itself or say
// that something impossible has happened; in the end all replicas are in sync, and when the
// nodes are stopped the files of all of them have the same batches.
//
// What a long silence of one partition means: a client waits for the answers of the leader to
// which it has sent until that answers or the connection ends, also when metadata names
// another one (pause, cut). Kafka's own producer goes on with the new leader meanwhile; if more
// than five batches have been written there when the old leader answers
// NOT_LEADER_OR_FOLLOWER, what it sends again is OUT_OF_ORDER_SEQUENCE_NUMBER, on Kafka as
// well, and it tries that until delivery.timeout.ms (2 minutes) is over. Those records were
// written; it says that they failed.
//
// A producer is a program of a few lines. It sends "NAME-0", "NAME-1" … to the partitions
// in turn until SIGTERM, waits for what is under way, and prints for each record:
//
//	acked 17 3 42      number, partition, offset
//	failed 18 reason   the library has given up: the record may be there or not
//
// BROKER=kafka plays the same against Apache Kafka.
package chaos
