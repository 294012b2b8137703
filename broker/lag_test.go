package broker_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/klamm-mq/klamm/broker/brokertest"
)

// commitAt commits an offset of partition 0 as an administrator does, and waits for the
// coordinator if need be.
func commitAt(t *testing.T, m *brokertest.Machine, group, topic string, offset int64) {
	t.Helper()
	admin := kadm.NewClient(newClient(t, m))
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: topic, At: offset, LeaderEpoch: -1})
	for range 50 {
		if admin.CommitAllOffsets(t.Context(), group, offsets) == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("group %s cannot commit", group)
}

// The lag of a group is what it has yet to read, and how long that has been waiting.
func TestLagOfAGroup(t *testing.T) {
	inBubble(t, func(t *testing.T, m *brokertest.Machine) {
		registry := startMeasured(t, m)
		produce(t, newClient(t, m), "t", numbered(0, 10)...)
		time.Sleep(time.Minute)
		produce(t, newClient(t, m), "t", numbered(10, 13)...)
		time.Sleep(time.Minute)
		for _, c := range []struct{ committed, lag, aboutSeconds float64 }{{0, 13, 120}, {10, 3, 60}, {13, 0, 0}, {99, 0, 0}} {
			commitAt(t, m, "g", "t", int64(c.committed))
			lag, age := value(t, registry, "kafka_consumergroup_lag", "g"), value(t, registry, "klamm_consumergroup_lag_seconds", "g")
			if at := value(t, registry, "kafka_consumergroup_current_offset", "g"); at != c.committed {
				t.Errorf("committed %v, measured %v", c.committed, at)
			}
			if lag != c.lag || age < c.aboutSeconds || age > c.aboutSeconds+10 {
				t.Errorf("committed %v: lag %v and age %v, want %v and %v", c.committed, lag, age, c.lag, c.aboutSeconds)
			}
		}
		deleteTopic(t, m, "t")
		if n := gather(t, registry)["kafka_consumergroup_lag{consumergroup,partition,topic}"]; n != 0 {
			t.Errorf("%d series of a topic that is gone", n)
		}
	})
}

func deleteTopic(t *testing.T, m *brokertest.Machine, topic string) {
	t.Helper()
	if _, err := kadm.NewClient(newClient(t, m)).DeleteTopic(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
}

// measuredGroup gives the metrics of groups something to tell.
func measuredGroup(t *testing.T, m *brokertest.Machine) {
	t.Helper()
	produce(t, newClient(t, m), "measured", "x")
	commitAt(t, m, "g", "measured", 0)
}
