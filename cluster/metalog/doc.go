// Package metalog is the ordered, committed log of metadata records: hashicorp/raft with
// its stores on Badger, behind a small interface. No other package knows Raft.
//
//	controller                                                        publishers
//	    │ Propose, Barrier                                                 ▲ delta, image
//	    ▼                                                                  │ in order
//	proposals ──► send ──► Raft ──► store (guard: free space) ── commit ──► fsm ──► loader
//	 numbers       batch     │        Badger or files                      machine
//	                         │                                             Image()
//	                    transport ◄── StreamLayer ──► other voters
//
// # What counts
//
// Each proposed entry carries the term in which it was computed and its number within that
// term. The machine drops an entry whose term is not the one it was appended in, or whose
// number is not the next (D17), and its proposer is told NOT_CONTROLLER. So neither a
// leadership that was lost and regained nor a failed proposal lets anything count that was
// computed from an image that no longer is. A proposer starts with a Barrier, in each term
// and after each failure. The machine is a pure function of the log (machine.go; its rules
// as transcripts in testdata/machine).
//
// # What is published
//
// Raft's FSM goroutine makes the next image from an entry and hands the delta to the loader,
// which calls the publishers one after the other; while they are busy, deltas merge. A node
// publishes nothing before its image is known to be no older than the cluster's state when
// its process started: see StartPublishing.
//
// # What is stored
//
// raftstore keeps log, term and vote, and snapshots. A snapshot is the list of records that
// rebuilds the image. The guard in front of the store looks at the free space before each
// write and gives up the ballast file first (guard.go, space.go). An error of the store, an
// entry of a newer release and a disk without room for a vote are the end of this node:
// Options.Fatal is told once, and everything answers errors until Close.
//
// The only voter makes itself a candidate as soon as Raft runs, so it leads within
// milliseconds (Badger open included, 15 to 25 ms to its first barrier), with timeouts of a
// second that cost 0.05 % of a core when idle.
//
// A leader of several voters tells its peers of a commit at once and is quiet while nothing
// changes (quiet.go): commits are known everywhere within a millisecond or two beside the
// network, and an idle leader of three costs about 0.5 % of a core. One whose disk hangs for
// three seconds falls silent altogether (guard.go), so that another one is elected. One whose
// process has ended is known by its connections, and another one stands for election at once
// (orphan.go).
//
// # Members
//
// A node is known to the others by its id and the id of its metadata directory: an empty disk
// is another node (D19), and so is a disk whose log is gone (identity.go). Which directory is
// there is asked of its address (Door.Probe), both by the voter that founds a cluster, which
// does so only if every other one is empty (Form, D8), and by the leader, which adds who is
// missing and replaces a member whose address answers with another disk (KeepMembers). Where no voters are configured the log itself says
// who they are, and they change one at a time (voters.go, KIP-853). Raft's connections name
// whom they mean, so that a disk that was wiped neither votes nor acknowledges for the one
// before. All of it shares the listeners of requests (door.go, preface.go, D16).
//
// A log that is lost for good begins again with a backup (restore.go), as that of one voter
// and of another lineage: what is left of the lost one does not mix with it (lineage.go).
//
// # Goroutines
//
// Per log: send (one batch in Raft's hands at a time), the loader, watch (leadership events),
// observe (who leads, who is silent), watchConnections (the end of the leader's process), keep
// (ballast, free space, snapshots of large logs), the transport's forward, and those of raft
// and Badger. Close decides the proposals in flight, then ends them all. No goroutine
// outlives it, except Badger's if closing it would write to a full disk.
//
// Locks: proposals.mu and loader.mu, each held for computation only and never together.
// Whoever waits for a disk, a peer or Raft does so on a channel, which a synctest bubble can
// see.
package metalog
