// Package fetchsession remembers what a fetcher asked for, so that its next request
// names only what changed and the answer holds only what is new (KIP-227).
//
// A Fetch request carries (session id, epoch); NewContext turns it into one of five
// kinds, as Kafka's FetchManager does:
//
//	id   epoch       request is          answer
//	0    0           full                everything; tries to open a session
//	n    0           full                the same, after closing n
//	any  -1          sessionless         everything, session 0; closes n
//	n    expected    incremental         only what changed since the last answer
//	n    otherwise   session error       error at the top level, no partitions
//
// The expected epoch counts the requests of a session: 1 after the full one, and from
// 2^31-1 back to 1, since 0 asks for a new session.
//
// The handler goes through a request like this:
//
//	c := cache.NewContext(now, Request{…})
//	if err := c.Err(); err != nil { answer it }
//	for _, p := range c.Partitions(nil, names) { … read …; answers = append(answers, Answer{…}) }
//	sessionID, err := c.UpdateAndFilter(now, answers)
//	… encode the answers that are Included …
//
// An incremental answer contains a partition if it has records, an error, a preferred
// replica, a diverging epoch, or another high watermark or log start than the fetcher was
// last told. After an error the cached high watermark is forgotten, so that the partition
// is sent again once the error is gone. Partitions that had records go to the end of the
// session's order: with a bounded answer size, those in front would otherwise starve the
// rest.
//
// From version 13 on topics go by id. A session remembers the name that an id once had,
// as Kafka's does, so that a fetcher of a deleted topic is told that the partition is
// gone, and after the topic was made anew that the id is another one
// (INCONSISTENT_TOPIC_ID), where a fetcher without session gets UNKNOWN_TOPIC_ID.
//
// # Followers
//
// A follower's session may have thousands of partitions of which a few have news. Its Context
// gives those that are awake, and lets the others rest:
//
//	          named by a request, Watch.Signal, a walk in full
//	resting ───────────────────────────────────────────────────► awake
//	        ◄───────────────────────────────────────────────────
//	          Watch.Rest: the follower has all, and was told all
//
// The one who reads decides, and signals: see replica.Watch. A request that waits hears of
// signals by News. Everything is walked every ten seconds, when the follower's broker has
// another epoch, and when the request asks for it. The session of a consumer is always read in
// full.
//
// # Bounds
//
// The cache has a number of slots. A new session may take the slot of one that is unused
// for two minutes, of a smaller one that is older than that, and, if a follower opens it,
// of a consumer's; otherwise the fetcher is answered without a session. Beyond Kafka there
// is a bound on the partitions of all sessions together.
//
// # Locks
//
// Cache.mu (ids, ages, sizes) before session.mu (one session's partitions), before watches.mu
// (which of them rest). None is held while anything is read; only the last is taken under a
// partition's lock. There are no goroutines: sessions expire when their slot is
// wanted.
package fetchsession
