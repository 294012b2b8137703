// Package metalog is the ordered, committed log of metadata records: hashicorp/raft with
// its stores on Badger, behind a small interface. No other package knows Raft.
//
//	Open(Options) (*Log, error)
//	(*Log) Propose(ctx, term, records) (metadata.Position, error)
//	(*Log) Start(ctx, term, records) (*Proposal, error)      // Propose in two steps, for pipelining
//	(*Proposal) Wait(ctx) (metadata.Position, error)
//	(*Log) Barrier(ctx, term) (*metadata.Image, error)
//	(*Log) Leadership() <-chan Leadership                    // conflated: the newest only
//	(*Log) Leader() (address string, nodeID int32, known bool)
//	(*Log) Image() *metadata.Image                           // newest applied
//	(*Log) Published() metadata.Position
//	(*Log) WaitPublished(ctx, metadata.Position) error
//	(*Log) StartPublishing(metadata.Position)
//	(*Log) Empty() bool
//	(*Log) BootstrapVoters([]Voter) error
//	(*Log) Close() error
package metalog
