package offset

// LogStart is the first offset that may be read; retention and DeleteRecords raise it.
type LogStart int64

// LastStable is the first offset that belongs to an open transaction, or the high
// watermark if there is none: the bound of read_committed readers.
type LastStable int64

// HighWatermark is the first offset that is not yet acknowledged by every in-sync
// replica: the bound of read_uncommitted readers.
type HighWatermark int64

// LogEnd is the offset that the next appended record gets: the bound of followers.
type LogEnd int64

// Flushed is the end of the prefix that a sync of the device has reported durable.
type Flushed int64

// RecoveryPoint is the offset from which a start after an unclean stop scans.
type RecoveryPoint int64

// Unknown is the wire's "no offset".
const Unknown int64 = -1
