package broker_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/cluster/metadata"
)

// TestLastReplicaIsDamaged: a bit flips on the last replica that was in sync, and nobody else
// has all of it. It does not lead. Another one does where unclean elections are allowed, or as
// soon as one is asked for; then the damaged one is fetched again.
func TestLastReplicaIsDamaged(t *testing.T) {
	clusterTest(t, []string{"controller", "broker", "broker"}, func(c *nodes) {
		c.start(1, 2, 3)
		allowed := "true"
		c.admin(2, func(ctx context.Context, adm *kadm.Client) {
			for topic, configs := range map[string]map[string]*string{"careful": nil, "careless": {"unclean.leader.election.enable": &allowed}} {
				if _, err := adm.CreateTopic(ctx, 1, 2, configs, topic); err != nil {
					t.Fatal(err)
				}
			}
		})
		c.addTo(2, "careful", "careless")
		<-time.After(2 * time.Second)
		c.kill(3)
		<-time.After(5 * time.Second)
		c.addTo(2, "careful", "careless")
		<-time.After(2 * time.Second)
		c.kill(2)
		for _, topic := range []string{"careful", "careless"} {
			c.flip(2, "/data/"+topic+"-0/00000000000000000000.log", 100)
		}
		c.start(2, 3)
		c.inSync(2, "careless")
		p := c.partitions(1, "careful")[0]
		expect(t, "nobody leads what takes care", p.Leader, metadata.NoLeader)
		expect(t, "the damaged one may, when it is whole", p.ELR, []int32{2})
		c.admin(3, func(ctx context.Context, adm *kadm.Client) {
			if _, err := adm.ElectLeaders(ctx, kadm.ElectLiveReplica, kadm.TopicsSet{"careful": {0: {}}}); err != nil {
				t.Error(err)
			}
		})
		c.inSync(2, "careful")
		expect(t, "set aside", c.strays(2), 2)
		c.addTo(3, "careful", "careless")
	})
}

// addTo puts a record into each of the topics.
func (c *nodes) addTo(through int32, topics ...string) {
	c.t.Helper()
	client := c.client(through)
	defer client.Close()
	for _, topic := range topics {
		if err := client.ProduceSync(c.t.Context(), &kgo.Record{Topic: topic, Value: slices.Repeat([]byte("x"), 100)}).FirstErr(); err != nil {
			c.t.Fatal(err)
		}
	}
}
