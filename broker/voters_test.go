package broker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/uuid"
)

// growing makes nodes whose configuration names no voters: the first knows of itself alone,
// the others of all.
func growing(t *testing.T, roles []string, test func(c *nodes)) {
	clusterTest(t, roles, func(c *nodes) {
		all := "broker-1:9093,broker-2:9093,broker-3:9093"
		for id, m := range c.all {
			servers := all
			if id == 1 {
				servers = "broker-1:9093"
			}
			i := slices.IndexFunc(m.Machine.Settings, func(s string) bool { return strings.HasPrefix(s, "controller.quorum.voters=") })
			m.Machine.Settings[i] = "controller.quorum.bootstrap.servers=" + servers
		}
		c.start(1)
		test(c)
	})
}

// quorumOf is who keeps the metadata log, as a broker tells: voters, observers in parentheses.
func (c *nodes) quorumOf(id int32) (text string, directories map[int32]uuid.UUID) {
	c.t.Helper()
	client := c.client(id)
	defer client.Close()
	resp, err := quorumRequest().RequestWith(context.Background(), client)
	if err != nil || len(resp.Topics) != 1 || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		return fmt.Sprint("no answer: ", err), nil
	}
	directories = map[int32]uuid.UUID{}
	var list []string
	p := resp.Topics[0].Partitions[0]
	for _, v := range p.CurrentVoters {
		list = append(list, fmt.Sprint(v.ReplicaID))
		directories[v.ReplicaID] = v.ReplicaDirectoryID
	}
	for _, o := range p.Observers {
		list = append(list, fmt.Sprintf("(%d)", o.ReplicaID))
		directories[o.ReplicaID] = o.ReplicaDirectoryID
	}
	slices.Sort(list)
	return strings.Join(list, " "), directories
}

func (c *nodes) wantQuorum(ask int32, want string) map[int32]uuid.UUID {
	c.t.Helper()
	var directories map[int32]uuid.UUID
	last := ""
	c.eventually("the quorum is "+want, 30*time.Second, func() bool {
		last, directories = c.quorumOf(ask)
		return last == want
	})
	return directories
}

func (c *nodes) addVoter(ask, id int32, directory uuid.UUID) error {
	client := c.client(ask)
	defer client.Close()
	req := kmsg.NewPtrAddRaftVoterRequest()
	req.TimeoutMillis, req.VoterID, req.VoterDirectoryID = 10_000, id, directory
	req.Listeners = []kmsg.AddRaftVoterRequestListener{{Name: "CONTROLLER", Host: fmt.Sprintf("broker-%d", id), Port: 9093}}
	resp, err := req.RequestWith(context.Background(), client)
	return voterError(err, resp.ErrorCode, resp.ErrorMessage)
}

func (c *nodes) removeVoter(ask, id int32, directory uuid.UUID) error {
	client := c.client(ask)
	defer client.Close()
	req := kmsg.NewPtrRemoveRaftVoterRequest()
	req.VoterID, req.VoterDirectoryID = id, directory
	resp, err := req.RequestWith(context.Background(), client)
	return voterError(err, resp.ErrorCode, resp.ErrorMessage)
}

func voterError(err error, code int16, message *string) error {
	if err == nil {
		err = kerr.ErrorForCode(code)
	}
	if err != nil && message != nil {
		err = fmt.Errorf("%w: %s", err, *message)
	}
	return err
}

// A broker that began alone becomes one of three that keep the metadata log, while a producer
// goes on. Then the first dies for good, and its empty successor takes its place; at last the
// log has one keeper again, another one than at first.
func TestClusterGrowsFromOneAndShrinks(t *testing.T) {
	growing(t, threeCombined, func(c *nodes) {
		c.createTopic(1, "events", 1)
		client := c.client(1, kgo.ProducerBatchMaxBytes(1<<16))
		defer client.Close()
		sent := 0
		produce := func() {
			c.t.Helper()
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			sent++
			if err := client.ProduceSync(ctx, &kgo.Record{Topic: "events", Value: []byte(fmt.Sprint(sent))}).FirstErr(); err != nil {
				c.t.Fatalf("record %d: %v", sent, err)
			}
		}
		produce()
		c.wantQuorum(1, "1")
		c.start(2, 3)
		dirs := c.wantQuorum(2, "(2) (3) 1")
		for _, id := range []int32{2, 3} {
			if err := c.addVoter(3, id, dirs[id]); err != nil {
				c.t.Fatal(err)
			}
			produce()
		}
		c.wantQuorum(3, "1 2 3")
		if err := c.addVoter(2, 3, dirs[3]); err == nil || !strings.Contains(err.Error(), "DUPLICATE_VOTER") {
			c.t.Errorf("a voter is added again: %v", err)
		}
		produce()

		c.kill(1)
		c.wantQuorum(2, "1 2 3")
		c.all[1].Machine.Settings = slices.Clone(c.all[2].Machine.Settings)
		for i, s := range c.all[1].Machine.Settings {
			c.all[1].Machine.Settings[i] = strings.ReplaceAll(strings.ReplaceAll(s, "node.id=2", "node.id=1"), "://broker-2:", "://broker-1:")
		}
		c.all[1].replaceDisk()
		c.start(1)
		c.eventually("the new disk has taken the place of the old one", 30*time.Second, func() bool {
			text, now := c.quorumOf(2)
			return text == "1 2 3" && now[1] != dirs[1]
		})

		_, dirs = c.quorumOf(2)
		for _, id := range []int32{1, 3} {
			if err := c.removeVoter(2, id, dirs[id]); err != nil {
				c.t.Fatal(err)
			}
		}
		c.wantQuorum(2, "(1) (3) 2")
		if err := c.removeVoter(2, 2, dirs[2]); err == nil || !strings.Contains(err.Error(), "VOTER_NOT_FOUND") {
			c.t.Errorf("the last voter is removed: %v", err)
		}
		c.createTopic(3, "after", 3)
		c.kill(1)
		c.kill(3)
		c.createTopic(2, "alone", 1)
	})
}

// Controllers that are told so become voters by themselves: new ones, one whose disk was
// replaced, one that comes back under another address, and one that somebody has removed.
func TestControllersJoinByThemselves(t *testing.T) {
	growing(t, threeCombined, func(c *nodes) {
		for _, id := range []int32{2, 3} {
			c.all[id].Machine.Settings = append(c.all[id].Machine.Settings, "controller.quorum.auto.join.enable=true")
		}
		c.start(2, 3)
		dirs := c.wantQuorum(1, "1 2 3")
		if err := c.removeVoter(1, 3, dirs[3]); err != nil {
			c.t.Fatal(err)
		}
		c.wantQuorum(2, "1 2 3")

		c.kill(3)
		c.all[3].replaceDisk()
		c.start(3)
		c.eventually("the new disk votes", 30*time.Second, func() bool {
			text, now := c.quorumOf(2)
			return text == "1 2 3" && now[3] != dirs[3]
		})

		_, dirs = c.quorumOf(2)
		c.kill(3)
		c.all[3].replaceDisk()
		for i, s := range c.all[3].Machine.Settings {
			c.all[3].Machine.Settings[i] = strings.ReplaceAll(s, "://broker-3:9093", "://broker-3:9095")
		}
		c.start(3)
		c.eventually("the new disk at another address votes", 30*time.Second, func() bool {
			text, now := c.quorumOf(2)
			return text == "1 2 3" && now[3] != dirs[3]
		})
		c.createTopic(3, "events", 3)
	})
}

// A controller that is no broker joins in the same way, and a node that waits to be taken in
// founds nothing, however long that lasts.
func TestControllerJoins(t *testing.T) {
	growing(t, []string{"broker,controller", "controller", "broker"}, func(c *nodes) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.start(2)
		}()
		dirs := c.wantQuorum(1, "(2) 1")
		<-done
		if err := c.addVoter(1, 2, dirs[2]); err != nil {
			c.t.Fatal(err)
		}
		c.wantQuorum(1, "1 2")
		c.kill(1)
		c.start(1)
		c.wantQuorum(1, "1 2")
		c.start(3)
		c.createTopic(3, "events", 2)
	})
}

// A cluster of which the configuration names the voters refuses to change them.
func TestConfiguredVotersStay(t *testing.T) {
	clusterTest(t, threeCombined, func(c *nodes) {
		c.start(1, 2, 3)
		_, dirs := c.quorumOf(1)
		for what, err := range map[string]error{"add": c.addVoter(1, 4, uuid.UUID{4}), "remove": c.removeVoter(2, 3, dirs[3])} {
			if err == nil || !strings.Contains(err.Error(), "UNSUPPORTED_VERSION") {
				c.t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// UpdateRaftVoter is checked in Kafka's order, also by who does not lead, and names the leader.
func TestUpdateRaftVoter(t *testing.T) {
	growing(t, []string{"broker,controller", "broker,controller"}, func(c *nodes) {
		c.start(2)
		dirs := c.wantQuorum(1, "(2) 1")
		for _, s := range []struct {
			what           string
			change         func(req *kmsg.UpdateRaftVoterRequest)
			want, ofSecond error // of the leader, of another
		}{
			{"another cluster", func(req *kmsg.UpdateRaftVoterRequest) { req.ClusterID = new(string); req.CurrentLeaderEpoch = 0 }, kerr.InconsistentClusterID, kerr.InconsistentClusterID},
			{"an old epoch", func(req *kmsg.UpdateRaftVoterRequest) { req.CurrentLeaderEpoch--; req.VoterID = -1 }, kerr.FencedLeaderEpoch, kerr.FencedLeaderEpoch},
			{"no epoch", func(req *kmsg.UpdateRaftVoterRequest) { req.CurrentLeaderEpoch = -1 }, kerr.FencedLeaderEpoch, kerr.FencedLeaderEpoch},
			{"an epoch to come", func(req *kmsg.UpdateRaftVoterRequest) { req.CurrentLeaderEpoch = 1000 }, kerr.UnknownLeaderEpoch, kerr.UnknownLeaderEpoch},
			{"no voter", func(req *kmsg.UpdateRaftVoterRequest) { req.VoterID, req.Listeners = -1, nil }, kerr.InvalidRequest, kerr.NotLeaderForPartition},
			{"no address", func(req *kmsg.UpdateRaftVoterRequest) { req.Listeners = nil }, kerr.InvalidRequest, kerr.NotLeaderForPartition},
			{"no versions", func(req *kmsg.UpdateRaftVoterRequest) { req.KRaftVersionFeature.MaxSupportedVersion = -1 }, kerr.InvalidRequest, kerr.NotLeaderForPartition},
			{"old versions", func(req *kmsg.UpdateRaftVoterRequest) { req.KRaftVersionFeature.MaxSupportedVersion = 0 }, kerr.InvalidRequest, kerr.NotLeaderForPartition},
			{"a stranger", func(req *kmsg.UpdateRaftVoterRequest) { req.VoterID = 7 }, kerr.VoterNotFound, kerr.NotLeaderForPartition},
			{"nothing new", func(*kmsg.UpdateRaftVoterRequest) {}, nil, kerr.NotLeaderForPartition},
		} {
			for id, want := range map[int32]error{1: s.want, 2: s.ofSecond} {
				req := kmsg.NewPtrUpdateRaftVoterRequest()
				req.CurrentLeaderEpoch, req.VoterID, req.VoterDirectoryID = c.quorumEpoch(1), 1, dirs[1]
				req.KRaftVersionFeature.MaxSupportedVersion = 1
				req.Listeners = []kmsg.UpdateRaftVoterRequestListener{{Name: "CONTROLLER", Host: "broker-1", Port: 9093}}
				s.change(req)
				client := c.controllerClient(id)
				resp, err := req.RequestWith(context.Background(), client)
				client.Close()
				if err != nil || !errors.Is(kerr.ErrorForCode(resp.ErrorCode), want) || resp.CurrentLeader.LeaderID != 1 {
					c.t.Errorf("%s: node %d: %+v, %v, want %v", s.what, id, resp, err, want)
				}
			}
		}
	})
}

// quorumEpoch is that of the metadata log's leader.
func (c *nodes) quorumEpoch(id int32) int32 {
	c.t.Helper()
	client := c.client(id)
	defer client.Close()
	resp, err := quorumRequest().RequestWith(context.Background(), client)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.Topics[0].Partitions[0].LeaderEpoch
}
