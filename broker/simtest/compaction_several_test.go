//go:build synctests

package simtest

import (
	"testing"
	"time"
)

// Each broker cleans its replicas for itself, and any of them may lead at the end. Tombstones
// stay for longer than any replica is away.
func TestSeedsOfCompactedClusters(t *testing.T) {
	o := Options{Seeds: 2, Brokers: 3, Settings: append([]string{"min.insync.replicas=2"}, cleanerSettings...)}
	Run(t, o, func(c *Cluster) {
		c.RunUntil(c.ChaosOfSeveral(loadOfCompaction(c, "delete.retention.ms=3600000")...))
		c.Sleep(30 * time.Second)
		c.JudgeSeveral()
		c.RequireCleaned()
	})
}
