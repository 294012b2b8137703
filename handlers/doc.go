// Package handlers answers requests: one file per API key, numbered like the protocol.
//
// A handler is boring on purpose. It authorizes, validates, makes one call into the
// cluster and shapes the answer; a loop with state belongs in package cluster. Each file
// opens with what the API does and what each version added. To add an API, write its
// file, name it in routes (dispatch.go) and add its row to protocol.APIs; a test holds
// the two tables together.
//
//	wire.Conn ── Request ──▶ Dispatcher: version gate, decode (kmsg)
//	                            └─▶ handler: authorize, validate, one call, shape
//	wire.Conn ◀─ Outcome ──┘
//
// All handlers but Produce run to their end on the connection's goroutine and may block
// there. Produce has two stages (produce.go): what must happen in the order of the
// connection, the append, happens before the handler returns; the wait for the high
// watermark goes on in a wire.Pending while the connection's next Produce begins.
//
// Handlers hold no lock and no state of their own. They see the cluster through the
// image that was published last, which names a leader only when that partition accepts
// writes.
//
// # Quotas
//
// When an answer is made, it is counted what its client has used (quotas.go). One that is
// above its quota is told to pause, and its connection muted; the answer itself leaves.
//
// # Bounds
//
// What a request may take when it is decoded is bounded (decode.go), how long it may want
// to wait (Config.MaxWait), what is created for clients at a time (autocreate.go). What
// its answer takes is in proportion to what it names, each partition once.
//
// # Panics
//
// A panic in a handler is a defect of the broker, and stops the process. It is not
// recovered: it may have left a lock held or a partition half changed, and a broker that
// is stopped loses nothing that was acknowledged, while one that goes on might. The log
// names the request first. What a client sends must never lead there; fuzzing of a whole
// broker (package broker) sees to that.
package handlers
