// Package fieldcases holds tests alone: faults that users of Kafka-compatible brokers have
// met in the field, each against a complete broker in memory and in virtual time, through
// the frames that a client sends. A test is named after what was wrong and says in its
// comment where; what is right is what Apache Kafka 4.4 answers.
//
// docs/fieldcases.md lists all cases with their tests, also those that have their test
// elsewhere, because they need more than one broker in memory, or less.
package fieldcases
