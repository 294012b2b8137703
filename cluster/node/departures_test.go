package node

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// departing is metadata in which a broker has just begun to shut down, at position 20.
func departing(t *testing.T, id int32) (*metadata.Delta, *metadata.Image) {
	t.Helper()
	d := metadata.NewDelta(metadata.Empty())
	err := d.ReplayAll(
		metadata.BootstrapRecord{ClusterID: "cluster", ForOne: true, Durability: metadata.DurabilityFsync, Features: []metadata.FeatureLevel{{Name: metadata.FeatureMetadata, Level: 1}}},
		metadata.RegisterBrokerRecord{Broker: metadata.Broker{ID: id, Epoch: 5, LogDirs: []uuid.UUID{{2}}, Listeners: []metadata.Endpoint{{Name: "PLAINTEXT", Host: "h", Port: 9092}}}},
	)
	if err != nil {
		t.Fatal(err)
	}
	d = metadata.NewDelta(d.Image(metadata.Position{Index: 19}))
	if err := d.ReplayAll(metadata.BrokerChangeRecord{ID: id, Epoch: 5, InControlledShutdown: metadata.Ptr(true)}); err != nil {
		t.Fatal(err)
	}
	return d, d.Image(metadata.Position{Index: 20})
}

// TestDepartureIsToldAtOnce: another broker shuts down, and waits for this one's heartbeat
// with a position that has it.
func TestDepartureIsToldAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r rig) {
		r.inService(t)
		time.Sleep(100 * time.Millisecond) // into the pause between two heartbeats
		synctest.Wait()
		r.c.take()
		begin := time.Now()
		r.opts.Departures.OnMetadataUpdate(departing(t, 2))
		synctest.Wait()
		if asked, _ := r.c.take(); len(asked) != 0 {
			t.Fatalf("told before requests see it: %v", asked)
		}
		r.m.publish(20)
		synctest.Wait()
		asked, times := r.c.take()
		if len(asked) != 1 || !times[0].Equal(begin) || asked[0].(*kmsg.BrokerHeartbeatRequest).CurrentMetadataOffset != 20 {
			t.Fatalf("%v, after %v", asked, times)
		}
	})
}

// TestDepartureOfTheBrokerItself, which asks all the time anyway.
func TestDepartureOfTheBrokerItself(t *testing.T) {
	bubble(t, func(t *testing.T, r rig) {
		r.inService(t)
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		r.c.take()
		r.opts.Departures.OnMetadataUpdate(departing(t, 1))
		r.m.publish(20)
		synctest.Wait()
		if asked, _ := r.c.take(); len(asked) != 0 {
			t.Fatalf("told: %v", asked)
		}
	})
}

// TestDepartureThatIsNeverPublished does not keep this broker from its own heartbeats.
func TestDepartureThatIsNeverPublished(t *testing.T) {
	bubble(t, func(t *testing.T, r rig) {
		r.inService(t)
		for range 2 { // the newest counts
			r.opts.Departures.OnMetadataUpdate(departing(t, 2))
		}
		r.c.take()
		time.Sleep(3 * r.opts.HeartbeatInterval)
		synctest.Wait()
		if asked, _ := r.c.take(); len(asked) < 2 {
			t.Fatalf("%d heartbeats in three intervals", len(asked))
		}
	})
}
