// Package metadata holds what the cluster has decided: the records of the metadata log,
// the immutable Image that they build, and the Delta between two images.
//
//	records ──► Delta.Replay ──► Delta.Image ──► Image
//	                 │                             │
//	                 └── what changed, exactly     └── Records ──► the records that rebuild it
//
// An Image is a pure function of the records up to its Position: no clock, no randomness,
// no I/O. Every broker that has applied the same entries has an equal image, byte for byte
// when written as a snapshot.
//
// Record types are plain Go structs, with one byte form in protobuf (metadatapb). Each
// record carries a version; which versions may be written depends on the cluster's level of
// the feature klamm.metadata (versions.go). Whatever a newer release wrote is an error that
// wraps ErrUnsupported, never something half understood. A record that does not fit the
// image (a second topic of one name) wraps ErrInvalid; every node refuses it alike.
//
// Images share structure: deriving one costs the path to what changed, whatever the number
// of topics. A topic's partitions are one slice of pointers, copied when one of them
// changes.
//
// A Backup is an image in a file of its own (backup.go); Backup.Restored says what of it a
// cluster begins with whose log was lost (restored.go).
//
// A group of records too large for one log entry stands between BeginTransactionRecord and
// EndTransactionRecord (D25) and becomes an image only as a whole.
//
// There are no goroutines and no locks. Images and finished deltas may be read by anyone; a
// delta that is being replayed into belongs to one goroutine.
package metadata
