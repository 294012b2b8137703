// Package uuid holds Kafka's 16-byte identifiers and their text form: base64url
// without padding, 22 characters (Kafka's org.apache.kafka.common.Uuid).
package uuid
