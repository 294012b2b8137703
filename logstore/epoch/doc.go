// Package epoch knows at which offset each leader epoch of a partition began, so that
// leader, followers and consumers can find out where their histories part (KIP-101,
// KIP-279, KIP-320; Kafka's LeaderEpochFileCache).
//
//	offset  0    3         17            40 = log end
//	        |----|---------|-------------|
//	epoch   1    4         5
//
//	entries      (1,0) (4,3) (5,17)
//	end of 4  =  17        the start of the next one
//	end of 3  =  (1, 3)    the largest epoch below, and where it ends
//	end of 5  =  40        the log end
//	end of 9  =  unknown   newer than anything here
//
// Cache is a sorted list that grows at the end and is cut at both ends. It is replaced
// as a whole with each change, so that readers take no lock. Changes are serialised by
// the caller, the log. They live in memory until Flush: what a crash loses is rebuilt
// from the batches above the recovery point, and a recovery point moves only after
// Flush. Flush may run while the cache changes; two Flushes may not.
//
// The package has no goroutines and no locks.
package epoch
