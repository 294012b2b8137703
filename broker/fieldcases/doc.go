// Package fieldcases holds tests alone: faults that users of Kafka-compatible brokers have
// met in the field, each against a complete broker in memory and in virtual time, through
// the frames that a client sends. A test is named after what was wrong and says in its
// comment where; what is right is what Apache Kafka 4.4 answers.
//
// A case that needs no complete broker has its test where the rule is.
package fieldcases
