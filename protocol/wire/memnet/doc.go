// Package memnet is a network in memory: listeners, connections and faults for tests
// that run whole brokers and clients in one process and in virtual time.
//
// A [Network] has hosts by name. A host listens and dials; addresses read like
// "broker-1:9092". Every operation of a connection blocks on channels, with Go's
// deadlines, so that a testing/synctest bubble sees its goroutines as waiting; nothing
// takes time by itself. A Network must be made inside the bubble that uses it.
//
//	host a                                   host b
//	Conn ── write ──▶ stream a→b: in flight │ arrived ── read ──▶ Conn
//	     ◀── read ── arrived │ in flight :stream b→a ◀── write ──
//
// A connection is two streams, each a bounded buffer. [Network.Cut] stops what travels
// from one host to another: bytes, the end of a stream and a reset stay in flight until
// [Network.Heal], as if TCP kept trying, and a dial waits. What had arrived before can
// still be read. [Network.Crash] is the death of a process: its listeners are gone and
// its peers see resets; dialling it is refused.
//
// Like a socket, a connection that is closed with unread bytes resets its peer, one that
// is closed without ends its peer's reads with io.EOF, and writing to it fails with
// EPIPE. Without goroutines of its own. Lock order: Network.mu, then stream.mu.
package memnet
