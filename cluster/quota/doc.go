// Package quota measures what clients use against what they were given: bytes that they
// produce and fetch, time that they keep the broker busy, changes that they ask of the
// controller, connections that they open. It answers for how long a client has to pause;
// whoever asks makes it pause. And it measures what brokers replicate of throttled replicas
// ([Replication]), which nobody pauses for: they are left out for a while.
//
//	         who asks                       what happens to a client above its limit
//	Produce  handlers, when it is answered  answered at once, then not read from for the pause
//	Fetch    handlers                       an empty answer, and the same; the bytes do not count
//	Request  handlers, each answer          the same as Produce; a pause is at most a window
//	Mutations  the active controller        newer requests are refused, THROTTLING_QUOTA_EXCEEDED;
//	                                        older ones carried out; the pause is in the answer
//	Connections  wire.Server                the listener waits; one from an address is closed
//
// # Whose quota it is
//
// Metadata has quotas for users, for client ids and for both together, by name or as the
// default. The first that is set counts:
//
//	1  user, client id          measured for this user with this client id
//	2  user, default client id  the same
//	3  user                     for this user, whatever its clients are called
//	4  default user, client id  for this user with this client id
//	5  default user and client  the same
//	6  default user             for this user
//	7  client id                for this client id, whoever it is
//	8  default client id        the same
//
// A client without an id has the quotas of its user alone (3 and 6).
//
// # How it is measured
//
// Meters are Kafka's, so that pauses are Kafka's:
//
//	rate    a ring of samples, each a window (1 s) long. The rate is their sum over the time
//	        since the oldest began, of which at least Samples-1 windows count. A client
//	        above its limit pauses for as long as brings the rate down to it, if it does
//	        nothing meanwhile.
//	        Of throttled replicas, the time counts as it is, but for the first window.
//	bucket  fills with the limit, up to Samples windows of it; taken from only while it is
//	        not below zero, and then as much as asked for. Whoever finds it below zero waits
//	        until it is not.
//
// [Quotas] has a [Manager] for each kind, with at most maxMeters meters, none of which
// nobody used for an hour; [Connections] has one meter for the broker, one for each
// listener, and such a bounded number for addresses. A limit that changes counts from the
// next use on. While nobody has a quota of a kind, nothing is measured.
//
// There is no goroutine here, and the only clock is that of Collect; a mutex guards the
// meters of each kind.
package quota
