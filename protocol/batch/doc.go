// Package batch reads, checks, patches and builds record batches of magic 2, the unit
// in which records travel and are stored (KIP-98).
package batch
