package simtest

import (
	"testing"
	"time"
)

// cleanerSettings have logs cleaned within seconds.
var cleanerSettings = []string{"log.cleaner.backoff.ms=300", "log.flush.offset.checkpoint.interval.ms=400"}

// loadOfCompaction writes and reads a topic that is compacted meanwhile.
func loadOfCompaction(c *Cluster, retention ...string) (until []<-chan struct{}) {
	c.CreateCompacted("t", 2, retention...)
	c.Consume("t")
	for range 3 {
		until = append(until, c.Produce("t", Idempotent, 500).Done)
	}
	c.TurnCleaner(until...)
	return until
}

// A broker dies again and again, also while it puts cleaned segments in place.
func TestSeedsOfCompaction(t *testing.T) {
	Run(t, Options{Seeds: 5, Settings: cleanerSettings}, func(c *Cluster) {
		c.RunUntil(c.Chaos(loadOfCompaction(c)...))
		c.Sleep(30 * time.Second) // the last dirty segments are cleaned
		c.Judge()
		c.RequireCleaned()
	})
}
