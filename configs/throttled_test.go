package configs

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestThrottledReplicas reads lists as Kafka does (TopicConfigHandler.parseThrottledPartitions).
func TestThrottledReplicas(t *testing.T) {
	for value, want := range map[string]struct {
		all        bool
		partitions []int32
	}{
		"":                   {},
		"*":                  {all: true},
		"0:1,1:2, 2:1":       {partitions: []int32{0, 2}},
		"0:2":                {},
		"99999999999:1, 3:1": {partitions: []int32{3}},
	} {
		topic, err := ParseTopic(map[string]string{"leader.replication.throttled.replicas": value}, nil)
		if err != nil {
			t.Fatalf("%q: %v", value, err)
		}
		got := topic.LeaderThrottledReplicas
		if diff := cmp.Diff(want.partitions, got.On(1)); diff != "" || got.All != want.all {
			t.Errorf("%q: all %v (-want +got):\n%s", value, got.All, diff)
		}
	}
}

// TestThrottleRates: what is set on one broker goes before what is set on all.
func TestThrottleRates(t *testing.T) {
	for _, test := range []struct {
		dynamic Dynamic
		want    int64
		set     bool
	}{
		{Dynamic{}, 0, false},
		{Dynamic{All: map[string]string{leaderRateKey: "7"}}, 7, true},
		{Dynamic{All: map[string]string{leaderRateKey: "7"}, Own: map[string]string{leaderRateKey: "0"}}, 0, true},
		{Dynamic{Own: map[string]string{followerRateKey: "5"}}, 0, false},
	} {
		b, problems := Default().With(test.dynamic)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if got, set := b.LeaderBytesPerSecond(); got != test.want || set != test.set {
			t.Errorf("%v: %d %v, want %d %v", test.dynamic, got, set, test.want, test.set)
		}
	}
}
