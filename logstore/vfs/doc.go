// Package vfs is the border between the broker and disks.
//
// Everything that touches a file takes an [FS]. There are three: [OS] is the operating
// system's, [MemFS] lives in memory, and [CrashFS] lives in memory and crashes. Wrappers
// of any of them are in the packages below: errfs makes calls fail by one-line rules,
// countfs counts them for budgets, both by means of hookfs. [ReadFile] and
// [WriteFileAtomic] are made of FS calls alone. A conformance test holds the file systems
// in memory to what the operating system does.
//
// # Durability
//
// Written bytes are durable after File.Sync or a Syncer's SyncAll, a name (of a new,
// renamed or removed file or directory) after SyncDir of the directory that holds it.
// Neither brings the other. A sync that failed is never repeated with trust: Linux marks
// the pages clean, so the second call succeeds and the bytes are lost.
//
// # What a crash leaves
//
// CrashFS keeps two pictures: what programs see, and what the disk holds. Kill ends the
// process and changes neither; a power cut makes programs see what the disk holds, after
// a random part of what is unsynced has reached it:
//
//	            programs see          unsynced                        disk holds
//	f, 3 pages  [aaaa][bbbb][cc]      pages 1 and 2, size             [aaaa]        (4 bytes)
//	            names f, g            + g                             names f
//
//	a cut may leave                   [aaaa]
//	                                  [aaaa][bbbb]
//	                                  [aaaa][0000][cc]                pages in any order
//	                                  [aaaa][0000][00]                size before the pages
//	                       ... each with the name g or without it
//
// The rules, which follow what journalling file systems promise and no more:
//
//   - A page (4 KiB) is old or new as a whole, each for itself.
//   - A size is the old one, the new one, or an end of page between.
//   - A truncation arrives before the bytes that were written after it.
//   - Each change of a directory arrives or not, whatever its neighbours do. A rename is
//     one change. A file whose name did not arrive is gone, synced or not.
//   - A sync promises what was written before it began.
//   - A failed sync drops the pages and marks them clean. Programs see them until the cut.
//   - A killed process leaves everything written, unsynced: kill, restart and power cut
//     lose it still.
//
// Space is limited on demand; a write into a full file system stores what fits.
//
// # Goroutines and locks
//
// No goroutines. All calls are safe for concurrent use. A file system in memory has one
// mutex, held for memory operations only and never while a hook (CrashFS.OnSync) runs, so
// that a sync may take virtual time.
package vfs
