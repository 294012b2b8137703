// Package sarama drives klamm with IBM/sarama.
package sarama
