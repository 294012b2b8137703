// Package offset gives each meaning of a log position its own type, so that the
// compiler refuses to compare a high watermark with a log end by accident.
//
// All of them count records of one partition. The order that always holds is
//
//	LogStart ≤ LastStable ≤ HighWatermark ≤ LogEnd,  Flushed ≤ LogEnd,  RecoveryPoint ≤ Flushed
//
// (right after opening, RecoveryPoint and Flushed may lie below LogStart's successor
// segments; they never lie above LogEnd). See docs/offsets.md for who moves which.
package offset
