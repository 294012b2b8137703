// Package cluster is the exact tier of replication: three or five brokers' cores, each on a
// crashing file system of its own, on one network and under one controller, stepped by one
// goroutine from one seed. The same seed gives the same run, event for event.
//
//	go test ./broker/simtest/exact/cluster -seeds=5000 -first=1
//	go test ./broker/simtest/exact/cluster -run TestSeeds -seed=42   # with its trace
//
// What runs is the production code without its drivers:
//
//	replica.Partition   the rules of leaders and followers
//	replica.Fetcher     what followers ask of leaders
//	logstore            logs, group commits and keepers in steps, as in package exact
//	fetchsession        the sessions that leaders keep
//	controller.Core     registrations, heartbeats, fencing, elections, ISR changes
//	metadata            records, images and deltas
//
// The metadata log is a sequencer that stands for Raft: what is proposed is committed later,
// in order, while a majority of nodes is up; the controller may change at any time, and then
// some of what was proposed is lost. Every node learns of what is committed by itself.
//
//	world      the seed's plan, the heap, time
//	network    messages with delay, loss, duplication, links that are cut in one direction
//	quorum     the sequencer, and the controller
//	broker     a process: opens its logs, registers, beats, applies metadata, stops
//	follow     its fetchers
//	serve      what it answers followers
//	producer   clients
//	faults     kills, power cuts, pauses, cuts, changes of the controller
//	judge      the invariants, after every event (see judge.go)
//
// The judge knows which batches were acknowledged and what consumers have read. Broken
// variants of the cluster (see breaks.go) show that it can find what it looks for.
package cluster
