package main

import (
	"context"
	"fmt"
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
// set. The rates stay while other moves are under way, which may need them.
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
	for _, t := range described {
		if slices.ContainsFunc(t.Configs, d.isOurs) {
			changes = append(changes, alterResource(kmsg.ConfigResourceTypeTopic, t.Name, kmsg.IncrementalAlterConfigOpDelete,
				leaderReplicas, "", followerReplicas, ""))
		}
	}
	if len(changes) == 0 && !d.lifted {
		return nil
	}
	d.lifted = true
	moving, err := listReassignments(ctx, d.client)
	if err != nil {
		return err
	}
	view, err := admin.BrokerMetadata(ctx)
	if err != nil {
		return err
	}
	for _, b := range view.Brokers {
		if len(moving) == 0 {
			changes = append(changes, alterResource(kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(b.NodeID)), kmsg.IncrementalAlterConfigOpDelete,
				leaderRate, "", followerRate, ""))
		}
	}
	return alterEach(ctx, d.client, changes)
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
