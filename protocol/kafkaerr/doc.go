// Package kafkaerr declares the kinds of error that a client can see, each with
// Kafka's name and code. A package that detects one wraps it:
//
//	fmt.Errorf("append to %s-%d: %w", topic, partition, kafkaerr.NotLeaderOrFollower)
//
// and the handler answers Code(err). An error that wraps no kind is the broker's own
// fault and is answered UNKNOWN_SERVER_ERROR, and logged.
package kafkaerr
