// Package javatools runs Kafka's command-line tools and compares what they print with what
// they print on Apache Kafka 4.4 (needs a JDK, and Maven once).
//
// Each file in testdata is a session with a broker that was just started:
//
//	# a remark
//	$ kafka-topics --bootstrap-server BROKER --create --topic words
//	Created topic words.
//	$ kafka-console-producer --bootstrap-server BROKER --topic words <<< one\ntwo\n
//	$~ kafka-consumer-groups --bootstrap-server BROKER --list
//	$# kafka-get-offsets …
//	= 1
//
// "<<<" gives standard input, "= 1" is an exit code other than 0. A command with $~ is given
// again until it prints what is expected; in the output of one with $# every number is
// written as N. BROKER is the address, DIR the broker's log directory, TMP a directory of
// the test in which "write NAME TEXT" makes a file.
//
// Each file in testdata/nodes is a session with three brokers, each of them a controller, of
// which the first keeps the metadata log alone at first. BROKER is all of their addresses;
// BROKER2, CONTROLLER2, DIR2 and ID2 are those of the second, the last one the id of its
// directory. These do something to nodes, and wait, and print nothing:
//
//	kill 3
//	start 3
//	until PATTERN $ kafka-topics …
//
// What cannot be the same on two brokers is replaced in both outputs (see blur): ids,
// times, directories, the sentences of errors (their kinds stay), and the topic key
// durability, which Kafka does not have.
//
// BROKER=kafka runs the sessions against Kafka; REWRITE=1 beside it writes down what it says.
package javatools
