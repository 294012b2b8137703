// Package purgatory keeps operations that can't be answered yet: a produce that waits
// for the high watermark, a fetch that waits for bytes. Each waits for events on one or
// several keys (partitions), has a deadline, and is completed exactly once.
//
// The idea is Kafka's DelayedOperationPurgatory: nobody tells the purgatory what
// happened, only *where*. Whoever moves a partition calls CheckAndComplete with its key,
// and every operation that watches the key looks for itself whether it is done
// (TryComplete). A call too many costs time, a missed one an answer that waits for its
// deadline; so callers are generous.
//
// The race that the two tries in TryCompleteElseWatch close:
//
//	1  a request tries: not yet
//	2  the event happens, CheckAndComplete finds nobody
//	3  the request begins to watch, and waits for an event that has been
//
// A second try after step 3 sees what happened in step 2, and everything later finds
// the watch.
//
// # Parts
//
//	lists      who watches which key, who expires when: plain data, no clock, no lock
//	Item       one operation's place in the lists and the word that makes it end once
//	Purgatory  the driver: a mutex around lists and one time.Timer
//
// # Goroutines and locks
//
// There is no goroutine of its own. While something waits, one timer is armed for the
// earliest deadline; expired operations are completed on the timer's goroutine, all
// others on the goroutine of whoever called CheckAndComplete, Cancel or Close.
//
// Purgatory.mu is a leaf: no method of an Operation is called under it. CheckAndComplete
// must be called without locks that a TryComplete takes.
//
// An operation has no lock either. A goroutine that wants to try while another one is
// trying leaves a note in the Item's state and goes on; the one inside tries once more
// for it:
//
//	        poke            TryComplete false, no note
//	idle ─────────► trying ────────────────────────────► idle
//	                │    ▲
//	   note arrives └────┘ try again
//	                │
//	                └──► completed    TryComplete true, deadline, cancel
//
// So nobody ever blocks on an operation, and the deadlock that Kafka describes at
// tryCompleteElseWatch (a waits for the operation, the operation for a lock, its holder
// for a) cannot be built.
package purgatory
