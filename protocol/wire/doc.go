// Package wire is a Kafka connection seen from the server: framed requests in, ordered
// answers out, with a bound on everything that a client can make the server hold.
//
// A [Server] serves listeners. Each connection has one goroutine that reads a frame,
// parses the request header by the table of package protocol, and calls the [Handler]
// with a [Request]; bodies are decoded by who handles them. The handler returns an
// [Outcome]: a [Response], nothing, the wish to close, or a [Pending] that somebody
// completes later.
//
//	 frame:    size int32 │ key int16 │ version int16 │ correlation id int32 │ client id │ tags │ body
//	 answer:   size int32 │ correlation id int32 │ tags │ body, regions of files in it
//
//	client ══▶ frameReader ──▶ Handler ──┬── known, nothing pending ──▶ output ══▶ client
//	                                     └── else ──▶ lane (slots) ──────▲
//	                                     Pending.Complete ──▶ slot ready ┘
//
// # Order
//
// Handle is called in the order of the requests, and answers leave in that order. A
// request starts when everything before it has been answered, except that one for which
// Options.Overlaps holds (Produce) may start while earlier ones like it are pending: the
// first stage of a Produce, its append, is over when Handle returns, and the wait for
// the high watermark overlaps with the next Produce. A request without an answer (acks=0)
// has its place in the order until it is complete, and the wish to close takes effect
// when everything before it has been sent.
//
// Answers are gathered and flushed when no further complete request has been read, so
// that a pipelining client costs one write and not one per request; or when the next one
// is about to wait for others (Request.Park).
//
// # Mutes
//
// An outcome may mute the connection for a time (Outcome.Mute: a client above its quota). The
// answer leaves at once; what the client sends next is not worked on before the time is over.
// While it sends nothing, a muted connection is one that is idle: the mute is a stamp. Of a
// frame that comes too early no more than its beginning is read, and its memory not reserved,
// unless it was read before the answer that mutes.
//
// # Memory
//
// An idle connection holds no buffer: on a socket the goroutine waits for readiness and
// takes a buffer then. A frame lives in a pooled buffer of its size ([Buffers]; a large one
// in a run of an arena's pages), or in the one it was read into if it fills most of that.
// Request.Body aliases it; it is counted by references and goes back when the request is
// answered, or earlier by Request.FreeBody. A large frame gets 256 KiB, and the rest when
// these have arrived; all of them together are bounded (Limits.QueuedRequestBytes); frames
// of at most 16 KiB are not counted, so that small requests go on meanwhile.
//
// A [Region] is bytes that the broker does not touch. On plain TCP under Linux the
// kernel sends it from the file, elsewhere it is read through a pooled buffer. One with
// something behind it (the tags of flexible versions) is read as well, if the answer has
// at most a megabyte or so: one read and one write cost less than a third call, and no
// more CPU. What these copies hold together is bounded (copyRoom).
//
// # Bad clients
//
// Limits names the bounds. What takes time (idle connections, half frames, slow readers,
// frames that hold memory others wait for, clients that left while their request waits)
// is enforced by one sweeper per server, which looks at stamps that connections leave:
// there is no timer and no deadline per request. The end of each connection is counted
// by reason, and one log line per kind of misbehaviour is written in ten seconds.
//
// # Goroutines and locks
//
// One per listener (Serve's caller), one sweeper, one per connection; and while the
// head of a connection's lane is ready and its goroutine is busy elsewhere, one that
// sends it. Locks are held for a few instructions and never across input or output.
// Order: Pending.mu and Server.mu are never held together with another one; lane.mu may
// be followed by the locks of Buffers only, and that of admission by those of its rates.
package wire
