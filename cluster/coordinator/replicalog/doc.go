// Package replicalog is coordinator.Log on this broker's replicas: the log of a shard is
// the partition that a replica.Manager leads.
//
// It is a translation of names and kinds of error, without state, goroutines or locks of
// its own.
package replicalog
