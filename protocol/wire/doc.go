// Package wire is a Kafka connection seen from the server: framed requests in, ordered responses out.
package wire
