package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A drain is throttled as kafka-reassign-partitions does it: a rate on each broker, and on
// each topic which replicas are under it. For partition 0 that moves from 1,3 to 1,2:
//
//	leader.replication.throttled.replicas    0:1,0:3   who may be copied from
//	follower.replication.throttled.replicas  0:2       who copies
//
// That the broker being drained is named there tells that the throttle was set for it.
const (
	leaderRate       = "leader.replication.throttled.rate"
	followerRate     = "follower.replication.throttled.rate"
	leaderReplicas   = "leader.replication.throttled.replicas"
	followerReplicas = "follower.replication.throttled.replicas"
)

// limit sets the throttle for a plan and what it finds under way.
func (d *drain) limit(ctx context.Context, view *clusterView, plan drainPlan) error {
	leaders, followers := map[string][]string{}, map[string][]string{}
	add := func(p topicPartition, from, to []int32) {
		for _, id := range from {
			leaders[p.topic] = append(leaders[p.topic], fmt.Sprintf("%d:%d", p.partition, id))
		}
		for _, id := range without(to, from...) {
			followers[p.topic] = append(followers[p.topic], fmt.Sprintf("%d:%d", p.partition, id))
		}
	}
	for _, m := range plan.moves {
		add(m.topicPartition, m.from, m.to)
	}
	for p, r := range plan.leaving {
		add(p, without(r.replicas, r.adding...), r.target())
	}
	var changes []kmsg.IncrementalAlterConfigsRequestResource
	for i := range view.nodes {
		if n := &view.nodes[i]; n.active() {
			rate := strconv.FormatInt(d.flags.throttle, 10)
			changes = append(changes, alterResource(kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(n.id)), kmsg.IncrementalAlterConfigOpSet,
				leaderRate, rate, followerRate, rate))
		}
	}
	for topic := range leaders {
		pairs := []string{leaderReplicas, strings.Join(leaders[topic], ",")}
		if list := followers[topic]; len(list) > 0 {
			pairs = append(pairs, followerReplicas, strings.Join(list, ","))
		}
		changes = append(changes, alterResource(kmsg.ConfigResourceTypeTopic, topic, kmsg.IncrementalAlterConfigOpAppend, pairs...))
	}
	return alterEach(ctx, d.client, changes)
}

// alterResource is a change of one resource; pairs are keys and values, of deletions too.
func alterResource(kind kmsg.ConfigResourceType, name string, op kmsg.IncrementalAlterConfigOp, pairs ...string) kmsg.IncrementalAlterConfigsRequestResource {
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	for i := 0; i < len(pairs); i += 2 {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op = pairs[i], op
		if op != kmsg.IncrementalAlterConfigOpDelete {
			c.Value = &pairs[i+1]
		}
		r.Configs = append(r.Configs, c)
	}
	return r
}

// unlimit takes the throttle away that this drain, or an interrupted one before it, has
// set. The rates stay while other moves are under way, which may need them; those of a broker
// that is down stay, too, since it alone takes changes of them. A later drain takes them away:
// by then no topic names throttled replicas, so that they have no effect.
func (d *drain) unlimit(ctx context.Context) error {
	admin := kadm.NewClient(d.client)
	topics, err := admin.ListTopicsWithInternal(ctx)
	if err != nil {
		return err
	}
	described, err := admin.DescribeTopicConfigs(ctx, topics.Names()...)
	if err != nil {
		return err
	}
	var changes []kmsg.IncrementalAlterConfigsRequestResource
	others := false
	for _, t := range described {
		switch {
		case slices.ContainsFunc(t.Configs, d.isOurs):
			d.lifted = true
			changes = append(changes, alterResource(kmsg.ConfigResourceTypeTopic, t.Name, kmsg.IncrementalAlterConfigOpDelete,
				leaderReplicas, "", followerReplicas, ""))
		case slices.ContainsFunc(t.Configs, namesReplicas):
			others = true
		}
	}
	moving, err := listReassignments(ctx, d.client)
	if err != nil {
		return err
	}
	if len(moving) == 0 && (d.lifted || !others) {
		rates, err := d.ratesSet(ctx)
		if err != nil {
			return err
		}
		changes = append(changes, rates...)
	}
	return alterEach(ctx, d.client, changes)
}

// ratesSet are the changes that take away the rates of all brokers. It tells of those that
// are down, if this drain has had a throttle.
func (d *drain) ratesSet(ctx context.Context) (changes []kmsg.IncrementalAlterConfigsRequestResource, err error) {
	var view clusterView
	nodes := map[int32]*clusterNode{}
	if err := view.addBrokers(ctx, d.client, nodes); err != nil {
		return nil, err
	}
	var up []int32
	for _, id := range slices.Sorted(maps.Keys(nodes)) {
		switch {
		case nodes[id].active():
			up = append(up, id)
		case d.lifted:
			fmt.Fprintf(d.std.err, "node %d is down and may keep the rate of its throttle; the same command takes it away when it is back\n", id)
		}
	}
	described, err := kadm.NewClient(d.client).DescribeBrokerConfigs(ctx, up...)
	if err != nil {
		return nil, err
	}
	for _, b := range described {
		if slices.ContainsFunc(b.Configs, isRate) {
			changes = append(changes, alterResource(kmsg.ConfigResourceTypeBroker, b.Name, kmsg.IncrementalAlterConfigOpDelete,
				leaderRate, "", followerRate, ""))
		}
	}
	return changes, nil
}

// isRate tells whether a key is a rate that was set on this broker.
func isRate(c kadm.Config) bool {
	return (c.Key == leaderRate || c.Key == followerRate) && c.Source == kmsg.ConfigSourceDynamicBrokerConfig
}

// namesReplicas tells whether a key puts replicas of a topic under the throttle.
func namesReplicas(c kadm.Config) bool {
	return (c.Key == leaderReplicas || c.Key == followerReplicas) && c.Value != nil && *c.Value != ""
}

// isOurs tells whether a key of a topic names replicas of the broker that is drained.
func (d *drain) isOurs(c kadm.Config) bool {
	if c.Key != leaderReplicas || c.Value == nil {
		return false
	}
	return slices.ContainsFunc(strings.Split(*c.Value, ","), func(replica string) bool {
		_, id, _ := strings.Cut(replica, ":")
		return id == strconv.Itoa(int(d.id))
	})
}
