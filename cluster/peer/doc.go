// Package peer carries requests of this node to other nodes of the cluster, as Kafka's
// protocol has them.
//
//	Request ──► slot (MaxInFlight) ──► turn (one at a time): connect, write ──► wait
//	                                                                             ▲
//	             connection ──► read: answers come in the order of the requests ─┘
//
// A Client has one connection at a time. It is opened by the first request that needs it,
// to the address that is right at that moment; an address that has changed since, and a
// connection that failed, lead to a new one. After a failed attempt the next one waits, at
// first 20 ms and at most a second.
//
// A client that is Direct does without the reader: whoever asks reads, into memory that is
// used again. Followers fetch so: it is the path of every record, a wake-up costs more than
// the record does, and fresh memory more than that. It notices the end of a connection with
// the next request, and a request that is given up ends it.
//
// # What an error means
//
// Of a request that failed, nobody knows whether it had an effect, unless the error is that
// of connecting (ErrNotSent). An answer that does not come within Options.Timeout ends the
// connection, and with it every request on it: what comes after an answer that is late
// would be late as well. So does an answer that is malformed, or that nobody asked for.
//
// # Suspects
//
// When the process of a broker is gone, the system closes its connections: those with other
// brokers at about the same instant as those with clients. So a broker whose request has
// ended so (Options.Lost) knows of the death before metadata does, and about when clients ask it
// where to go instead. Suspects holds such answers back until metadata has decided, the
// broker answers after all, or Patience is over. A connection that this node has closed, one
// that times out, and the stop of a broker that metadata knows of make no suspect.
//
// # Goroutines
//
// One for each open connection, unless the client is Direct: it reads answers, and ends with
// it. One for each suspect, which dials it, and rests after Patience. Close ends all waiting.
// The turn is a channel, not a mutex, since it is held while the network is waited for;
// link.mu and Suspects.mu are held for computation only, and never together.
package peer
