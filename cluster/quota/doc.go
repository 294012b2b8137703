// Package quota measures what clients use against what they were given: bytes that they
// produce and fetch, time that they keep the broker busy, changes that they ask of the
// controller. It answers for how long a client has to pause; whoever asks makes it pause.
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
// # How it is measured
//
// Meters are Kafka's, so that pauses are Kafka's:
//
//	rate    a ring of samples, each a window (1 s) long. The rate is their sum over the time
//	        since the oldest began, of which at least Samples-1 windows count. A client
//	        above its limit pauses for as long as brings the rate down to it, if it does
//	        nothing meanwhile.
//	bucket  fills with the limit, up to Samples windows of it; taken from only while it is
//	        not below zero, and then as much as asked for. Whoever finds it below zero waits
//	        until it is not.
//
// [Manager] keeps the meters of one kind of quota: at most MaxMeters, and none that nobody
// used for an hour. A limit that changes counts from the next use on.
//
// There is no goroutine and no clock here; a mutex guards the meters.
package quota
