// Package protocol says which requests this broker answers.
//
// One table ([APIs]) holds every API key that is served, with its versions, the version
// from which it is "flexible" (compact lengths and tagged fields, KIP-482) and the kinds
// of listener that take it. Everything that needs to know reads that table: the wire
// server parses headers by it and closes a connection that asks for anything else,
// ApiVersions advertises it, the handlers' dispatcher is checked against it. To serve one
// more API is to add its row here and its handler.
//
// The packages below hold the parts of the protocol: wire (connections), batch (record
// batches), fetchenc (Fetch answers without copying), kafkaerr (errors), offset and uuid
// (types). Without goroutines, locks and mutable state.
package protocol
