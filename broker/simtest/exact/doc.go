// Package exact is the exact tier of the simulation: one broker's cores on a crashing
// file system, stepped by one goroutine from one seed. The same seed gives the same run,
// event for event, so a failure is a number that anybody can replay.
//
//	go test ./broker/simtest/exact -seeds=20000 -first=1  # or make sim, see package evidence
//	go test ./broker/simtest/exact -run TestSeeds -seed=42   # with its trace
//
// A run draws a world from its seed (directories, segment sizes, how pages reach the disk,
// which faults there are) and then takes events off a heap, earliest first:
//
//	produce        a producer's batch reaches its partition, or a retry of it does
//	begin flush    a directory's committer notes the ends  ┐ other events happen
//	sync           the disk makes them durable             ├ between any two of
//	finish flush   the ends count as flushed               ┘ these steps
//	tick           a directory's keeper writes checkpoints and retains
//	consume        a consumer reads on
//	create, delete topics come and go, under few names
//	delete records and, later, make the log start durable, in a quarter of the seeds
//	clean          a log is compacted, in a third of the seeds; other events happen between
//	               any two batches
//	alter          durability, sizes of segments, retention
//	follower       in some runs, broker 2 is in every ISR and fetches
//	demote,
//	truncate,
//	promote        a replica loses its leadership, its unacknowledged tail, and leads again
//	write back     the kernel writes some dirty pages
//	kill           the process dies; what it has written stays
//	power cut      a random part of what is unsynced is lost; also in the middle of a sync
//	full disk, no descriptors, a sync that fails: see faults.go
//	stop           in good order
//	restart        open, recover, lead in a higher epoch
//
// In production the same steps are taken by replica.Manager, logstore.Committer and
// logstore.Keeper; here they are taken apart, so that every order of them is met.
//
// The judge knows only what an outsider could: which batches were acknowledged, and what
// consumers read. After every event it checks the invariants that are cheap; after every
// restart and at the end it reads everything (see judge.go). A broken variant of the
// broker per invariant shows that the judge can find it (see faults.go).
//
//	world      the seed's plan, the heap, time
//	cleaning   the cleaner of logs
//	topics     metadata, which outlives brokers
//	broker     a process: its replicas, start and stop
//	directory  a log directory with its committer and keeper, in steps
//	producer   clients, and the other broker
package exact
