// Package confluentgo drives klamm with confluent-kafka-go (needs a C compiler).
package confluentgo
