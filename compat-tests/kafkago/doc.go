// Package kafkago drives klamm with segmentio/kafka-go.
package kafkago
