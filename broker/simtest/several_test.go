//go:build synctests

package simtest

import "testing"

// The build tag is that of groups_test.go, for the same reason: producers with several
// brokers wait for each other's locks.

// severalUnderFaults is the scenario of clusters: producers with acks=all and a consumer,
// while brokers die, stop and are cut off.
func severalUnderFaults(c *Cluster) {
	c.RunUntil(c.ChaosOfSeveral(loadOfSeveral(c)...))
	c.JudgeSeveral()
}

// loadOfSeveral writes and reads a topic; what it returns is closed when all is written.
func loadOfSeveral(c *Cluster) (until []<-chan struct{}) {
	c.CreateTopic("t", 3, "internal.segment.bytes=65536")
	c.Consume("t")
	for _, mode := range []Mode{Idempotent, Idempotent, AcksAll} {
		until = append(until, c.Produce("t", mode, 400).Done)
	}
	return until
}

func TestSeedsOfClusters(t *testing.T) {
	Run(t, Options{Seeds: 3, Brokers: 3, Settings: []string{"min.insync.replicas=2"}}, severalUnderFaults)
}

func TestSeedsOfFive(t *testing.T) {
	Run(t, Options{Seeds: 1, Brokers: 5, Settings: []string{"min.insync.replicas=2"}}, severalUnderFaults)
}

// Members are exchanged while the others are restarted one after the other (T24).
func TestSeedsOfRollingMembers(t *testing.T) {
	o := Options{Seeds: 2, Brokers: 4, Growing: true, Settings: []string{"min.insync.replicas=2"}}
	Run(t, o, func(c *Cluster) {
		c.Grow()
		c.RunUntil(c.RollingMembers(loadOfSeveral(c)...))
		c.JudgeSeveral()
	})
}
