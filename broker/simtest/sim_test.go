package simtest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// underFaults is the scenario of most tests here: producers of every kind and a consumer,
// while the broker dies again and again.
func underFaults(c *Cluster) {
	c.CreateTopic("t", 3, "internal.segment.bytes=65536")
	c.Consume("t")
	producers := []*Producer{
		c.Produce("t", Idempotent, 500), c.Produce("t", Idempotent, 500),
		c.Produce("t", AcksAll, 300), c.Produce("t", AcksOne, 300), c.Produce("t", AcksNone, 100),
	}
	var until []<-chan struct{}
	for _, p := range producers {
		until = append(until, p.Done)
	}
	c.RunUntil(c.Chaos(until...))
	c.Judge()
}

func TestSeedsOfFaults(t *testing.T) { Run(t, Options{Seeds: 10}, underFaults) }

// With durability=replicated a cluster of one promises what a page cache can keep.
func TestSeedsOfKills(t *testing.T) {
	Run(t, Options{Seeds: 5, KillsOnly: true, Settings: []string{"durability=replicated"}}, underFaults)
}

// Topics come and go while others are written to, and names are used again.
func TestSeedsOfTopics(t *testing.T) {
	Run(t, Options{Seeds: 5}, func(c *Cluster) {
		c.CreateTopic("stays", 2)
		p := c.Produce("stays", Idempotent, 400)
		changes := make(chan struct{})
		c.Go(func() {
			defer close(changes)
			for range 10 {
				c.CreateTopic("goes", 2)
				c.RunUntil(c.Produce("goes", Idempotent, 5).Done)
				c.DeleteTopic("goes")
			}
			c.CreateTopic("goes", 3)
			c.RunUntil(c.Produce("goes", AcksAll, 5).Done)
		})
		c.RunUntil(c.Chaos(p.Done, changes))
		c.Judge()
	})
}

// The judge can fail: each way to break a broker is found, as what it is.
func TestBrokenBrokersAreFound(t *testing.T) {
	tests := map[string]struct {
		o     Options
		found []string
	}{
		"a disk that lies":            {Options{Break: LyingDisk}, []string{"AckedRecordsReadable", "CleanRecovery", "HighWatermarkMonotonic"}},
		"metadata that is not synced": {Options{Break: LostMetadata}, []string{"MetadataKept", "CleanRecovery", "OneLeaderPerEpoch"}},
		"acknowledged before the flush": {
			Options{Settings: []string{"durability=replicated"}}, []string{"AckedRecordsReadable", "HighWatermarkMonotonic"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.o.Seeds = 50
			r := Find(t, test.o, underFaults)
			if r == nil {
				t.Fatalf("not found in %d seeds", test.o.Seeds)
			}
			invariant, _, _ := strings.Cut(r.Violations[0], ":")
			if !slices.Contains(test.found, invariant) {
				t.Fatalf("found as %s, want one of %v\n%s", invariant, test.found, r)
			}
			t.Logf("found by seed %d: %s", r.Seed, r.Violations[0])
		})
	}
}

// Kill, restart, power cut: what the killed process wrote without a sync is in the page
// cache, where the next one finds it; it must not count as safe.
func TestKillRestartPowerCut(t *testing.T) {
	Run(t, Options{Seeds: 3}, func(c *Cluster) {
		c.CreateTopic("t", 1)
		c.Consume("t")
		p := c.Produce("t", Idempotent, 400)
		for range 5 {
			c.Sleep(500 * time.Millisecond)
			c.Broker().Kill()
			c.Broker().Start()
			c.Sleep(time.Millisecond)
			c.Broker().PowerCut()
			c.Broker().Start()
		}
		c.RunUntil(p.Done)
		c.Judge()
	})
}
