// Package kcat drives klamm with kcat, the command line of librdkafka.
package kcat
