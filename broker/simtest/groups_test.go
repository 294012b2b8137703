//go:build synctests

package simtest

import "testing"

// The build tag is franz-go's: with it, a goroutine of a client that waits for a lock counts
// as waiting. Without, virtual time stands still as soon as a member wants to commit while
// its group rebalances.

// Groups read what is produced, while members and brokers come and go.
func TestSeedsOfGroups(t *testing.T) {
	settings := []string{"offsets.topic.num.partitions=3", "group.initial.rebalance.delay.ms=200"}
	Run(t, Options{Seeds: 5, Settings: settings}, func(c *Cluster) {
		c.CreateTopic("t", 4)
		var until, caughtUp []<-chan struct{}
		for range 2 {
			until = append(until, c.Produce("t", Idempotent, 500).Done)
		}
		groups := []*Group{c.Group("readers", "t", 3), c.Group("more-readers", "t", 1), c.Group("others", "t", 2)}
		c.RunUntil(c.Chaos(until...))
		for _, g := range groups {
			caughtUp = append(caughtUp, g.CaughtUp())
		}
		c.RunUntil(caughtUp...)
		c.Judge()
	})
}
