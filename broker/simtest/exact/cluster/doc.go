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
//	world        the seed's plan, the heap, time
//	network      messages with delay, loss, duplication, links that are cut in one direction
//	quorum       the sequencer, and the controller
//	broker       a process: registers, beats, applies metadata, stops
//	start        what it finds in its directories
//	move         replicas that are brought from one directory to another (AlterReplicaLogDirs)
//	cleaning     replicas that are compacted, each at times of its own
//	throttled    replicas that are held back (replication.throttled.*)
//	follow       its fetchers
//	serve        what it answers followers
//	producer     clients
//	giveup       what a client does when delivery.timeout.ms has passed
//	administer   what administrators want of the controller
//	faults       kills, power cuts, pauses, cuts, full disks, changes of the controller
//	full         a disk that stays full when the faults have ended
//	damage       files that are not what was written, and replicas that begin anew
//	ruin         what happens to those files
//	unclean      elections of replicas that lack records, on purpose
//	judge        the invariants, after every event (see judge.go)
//	history      what clients were told
//	stock        what is in the logs
//
// The judge knows which batches were acknowledged and what consumers have read. Broken
// variants of the cluster (see breaks.go) show that it can find what it looks for.
//
// # The tests T1 to T26 of docs/testing.md
//
//	T1   acknowledged values, once each     AckedRecordsReadable, SequencesContiguous; all faults
//	T2   one value per offset               AckedRecordsReadable, ReplicasAgreeBelowHW
//	T3   what was refused is never read     RefusedNeverAppended; producers that do not try again
//	T4   no consumer skips or steps back    AckedRecordsReadable, LatestNeverFalls
//	T5   groups                             package coordinator's exact tier, and simtest
//	T6   offsets rise with what is sent     SequencesContiguous
//	T7   the offset in an answer is true    AckedRecordsReadable: a value is promised at it
//	T11  a new leader's first answers       LatestNeverFalls, ISRHoldsHW, OffsetOrder
//	T16  five in flight, the leader dies    SequencesContiguous; killLeaders
//	T18  all nodes lose power at once       AckedRecordsReadable; blackout
//	T19  a flipped bit, lost ends, files,   damage: AckedRecordsReadable, ReplicasAgreeBelowHW,
//	     directories                        LastCopyStays, Progress
//	T20  the last of the ISR dies           LeaderWasInSync; killLeaders; times without a leader
//	T21  an old leader with more records    ReplicasAgreeBelowHW, ConsumersNeverDiverge; pauses, cuts
//	T22  the controller dies                ImagesEqualAtOffset, OneLeaderPerEpoch; elect
//	T23  deleted and made again             OwnRecords; deleteTopic while producers and followers go on
//	T24  replicas come and go               Progress, ISRHoldsHW; clean stops, reassign, throttle
//	T26  a network in two parts             ISRHoldsHW, AckedRecordsReadable; split, clients on both sides
//
// T8 to T10 and T12 to T15 are about transactions, T17 and T25 about clients.
package cluster
