package broker_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Controllers that are no brokers find the listener that brokers use among themselves, though
// their configuration does not name it and it is not the first one.
func TestListenersApart(t *testing.T) {
	clusterTest(t, []string{"controller", "broker", "broker"}, func(c *nodes) {
		for _, id := range []int32{2, 3} {
			m := c.all[id]
			m.Machine.Settings[2] = fmt.Sprintf("listeners=CLIENTS://broker-%d:9092,BROKERS://broker-%d:9094", id, id)
			m.Machine.Settings = append(m.Machine.Settings,
				"inter.broker.listener.name=BROKERS", "listener.security.protocol.map=CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT,CONTROLLER:PLAINTEXT")
		}
		c.start(1, 2, 3)
		c.createTopic(2, "t", 2)
		producer := c.client(3, kgo.DefaultProduceTopic("t"))
		defer producer.Close()
		if err := producer.ProduceSync(context.Background(), kgo.StringRecord("v")).FirstErr(); err != nil {
			c.t.Error(err)
		}
		for r := range c.all[1].B.Image().Brokers() {
			if r.Listeners[0].Name != "BROKERS" || r.Listeners[1].Name != "CLIENTS" {
				c.t.Errorf("broker %d registered %+v", r.ID, r.Listeners)
			}
		}
	})
}
