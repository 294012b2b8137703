// Package simtest runs complete brokers through crashes and power cuts: the production
// code with real Raft, real franz-go clients, a network in memory and a disk that forgets
// what was not synced, in a testing/synctest bubble.
//
// A scenario reads like a lab protocol:
//
//	simtest.Run(t, simtest.Options{Seeds: 20}, func(c *simtest.Cluster) {
//		c.CreateTopic("t", 3)
//		p := c.Produce("t", simtest.AcksAll, simtest.Idempotent)
//		c.After(2*time.Second, c.Broker().PowerCut)
//		c.After(5*time.Second, c.Broker().Start)
//		c.RunUntil(p.Done)
//		c.Judge()
//	})
//
// # What a run is
//
//	clients                 broker-1                        disk
//	Producer ─┐   memnet   ┌────────────────┐  Process()  ┌─────────┐
//	Consumer ─┤            │                │             │         │
//	Group    ─┼──────────► │ broker.Broker  │ ──────────► │ CrashFS │
//	judge    ─┘            │ one per life   │             └─────────┘
//	    │                  └────────────────┘                  ▲
//	    │ acks, reads           ▲  start, stop                 │ kill, power cut,
//	    ▼                       │                              │ at a sync or between
//	check.History            Chaos: a schedule drawn from the seed
//
// A life ends by Kill or PowerCut: its connections are reset and its view of the disk
// answers ErrCrashed from then on, so the goroutines that are left of it can neither write
// nor answer; they are stopped and waited for. The judge knows only what clients were told
// and what a new life serves (package check), and looks at the names of files on the disk.
//
// Time is virtual, so a minute of faults costs a fraction of a second. Goroutines still
// interleave as they like: a seed gives the schedule, not the exact run. A failure prints
// seed, schedule and history. For runs that repeat to the letter see package exact.
//
// Which faults a broker must survive, and with what, stands in faults.go.
package simtest
