// Package matrix has a client library show what it can do with a broker, one capability
// after the other, and judges it by three witnesses: what the client's program prints,
// what went over the wire (package tap), and what a client of the test's own finds in the
// broker.
//
//	produce   acks 0, 1 and all; every codec; an idempotent producer that loses an
//	          answer; keys, headers and times
//	consume   from the start, from the end, by time; a topic of all codecs
//	groups    commit, leave, resume (members that join and leave: package groups)
//	admin     topics, their configurations, partitions and records; groups
//
// capabilities has all of them. What a library cannot do is in its entry of Clients with
// the reason, and in compat-tests/README.md, which a test compares.
//
// # Programs
//
// A program (folder programs) is started once for all commands, with the address of a
// broker as its argument. A command is an object of JSON on a line of standard input:
//
//	{"do":"produce","topic":"t","acks":"all","codec":"gzip","idempotent":true,"records":[…]}
//	{"do":"consume","topic":"t","partitions":3,"from":"start","count":200}
//	{"do":"group","topic":"t","group":"g","count":60}   read, commit what was read, leave
//	{"do":"create-topic","topic":"t","partitions":3,"configs":{…}}   and more of this kind
//
// What is not in the command stays the library's default. The program answers with lines
// of the same kind: {"record":…}, {"acked":…} or {"result":…}, and at last {"done":true}
// or {"error":"…"}. Any other line is a log.
//
// BROKER=kafka runs the same against Apache Kafka.
package matrix
