// Package generate makes up requests: seeded random sequences, valid and invalid, over
// the APIs that two brokers advertise, for comparing their answers step by step and, at
// the end, every partition down to the last record.
//
//	seed ──▶ New ──▶ Sequence ──▶ Scenario ──▶ both brokers ──▶ conform.Compare
//	                    ▲                                            │ differs
//	                    └────────── Shrink: does it still, ──────────┘
//	                                without these steps?
//
// A seed decides everything that is asked: topics that appear and disappear, batches of
// all kinds and of producers that retry, skip and wrap, fetches in and out of sessions,
// offsets, epochs, ids, and what no client would send. Steps know places, producers and
// sessions by name and learn ids, offsets and epochs from the answers, so that a sequence
// still makes sense when steps are taken out of it.
//
// What Klamm means to do otherwise (docs/divergence.md) is not made up, except where a
// line of explained.txt explains it.
//
// Without goroutines of its own.
package generate
