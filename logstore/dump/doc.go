// Package dump reads the files of a log directory without a broker: it shows what is in
// them, and says what is wrong with them. It only reads, takes no lock, and needs
// nothing beside the files, ours or Kafka's.
//
//	File(name)   every batch, record, index entry, producer or line, each as an Entry
//	Check(dir)   one partition's directory, or all below a log directory
//
// An Entry is a kind and named fields, and has one form as text and one as JSON. What
// cannot be right is a Problem with file and position; reading goes on behind it where
// the bytes still say where the next thing begins.
//
// # What counts as damage
//
// Damage is what neither a crash nor a compaction can explain. A gap between offsets is a
// note, since compaction makes them, unless Options.GapsAreDamage says that the topic is
// not compacted. So are records that are not as their batch's header says while its CRC
// fits: a client has sent them like that. Bytes at the end of the last segment that are no
// batch are a note, too, while nobody was promised them: above the recovery point and the
// flushed offset, and without the marker of a clean stop. The next start cuts them off.
// Indexes may be missing, since they are built again; one that is there must lead to the
// batches.
//
// The package has no goroutines and no state. It holds one batch in memory at a time, and
// when checking a segment 32 bytes for each of its batches.
package dump
