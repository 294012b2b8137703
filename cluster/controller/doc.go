// Package controller decides what the cluster's metadata becomes. It runs on every
// voter and is active on the Raft leader alone.
//
// A request (CreateTopics, AlterConfigs, BrokerRegistration, BrokerHeartbeat,
// AllocateProducerIDs, AlterPartition) goes through three steps:
//
//	 Handle ──► queue ──► decide ──► apply to the working image ──► proposer ──► log
//	(any goroutine)      └─────────── Run's goroutine ──────────┘   (one at a time)
//	                                                                     │
//	 answer ◄──── release answers in order ◄──── committed at position ◄─┘
//
// "Decide" is a pure function of the working image, the request, the time and a random
// source. Its result is a decision: metadata records and the answer. The working image is
// the newest applied image with the records of every decision that is still on its way
// through the log (pending) on top, so two requests for one topic name that arrive together
// cannot both succeed. An answer leaves only when every record that the decision could
// have seen is committed, its own included; a refusal also waits for that.
//
// # Failed proposals
//
// A proposal that fails may or may not be in the log. Everything pending is then answered
// NOT_CONTROLLER, nothing is proposed until a barrier has passed, and the working image is
// taken afresh from the log. A new leader serves only after a barrier, too. The log itself
// drops entries whose term is not the current one (architecture.md D17), so a stale
// decision cannot be committed by a leadership that was lost and regained.
//
// # Soft state
//
// What brokers report in heartbeats (last contact, metadata position) is not in the log. It
// starts anew with each leadership: every unfenced broker then has a full session timeout
// to be heard, or, where this process has led before, what was left of it then (state.resume).
// Nor is how fast clients make and delete partitions, which their quotas bound
// (Options.Mutations): each node measures what it decides.
//
// # Goroutines
//
// Run is the only goroutine that touches the state. It starts at most one proposer, one
// barrier and, per broker, one probe (a dial to see whether an address refuses
// connections), all bounded by Options and ended before Run returns. There are no locks.
package controller
