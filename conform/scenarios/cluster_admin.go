package scenarios

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func clusterAdmin() []conform.Scenario {
	return []conform.Scenario{
		{Name: "cluster-admin/create-topics", Key: 19, Run: createOnCluster},
		{Name: "cluster-admin/placement", Key: 19, Run: placement},
		{Name: "cluster-admin/create-partitions", Key: 37, Run: growOnCluster},
		{Name: "cluster-admin/reassign", Key: 45, Needs: []int16{46}, Run: reassignOnCluster},
		{Name: "cluster-admin/delete-topics", Key: 20, Run: deleteOnCluster},
		{Name: "cluster-admin/configs-of-other-nodes", Key: 32, Needs: []int16{33, 44}, Run: configsElsewhere},
		{Name: "cluster-admin/log-dirs", Key: 35, Needs: []int16{34}, Run: dirsOnCluster},
		{Name: "cluster-admin/quorum", Key: 55, Run: quorumOnCluster},
	}
}

// badAssignments are places that a partition cannot have.
func badAssignments(r *conform.R) map[string][][]int32 {
	here, unknown := r.Nodes(0, 1, 2), r.Node(2)+1000
	return map[string][][]int32{
		"an unknown node":         {{here[0], unknown}},
		"only unknown nodes":      {{unknown}},
		"a negative node":         {{here[0], -1}},
		"a node twice":            {{here[0], here[1], here[0]}},
		"no nodes":                {{}},
		"different counts":        {{here[0], here[1]}, {here[0]}},
		"a bad second":            {{here[0], here[1]}, {here[0], unknown}},
		"all and an unknown node": {{here[0], here[1], here[2], unknown}},
	}
}

// inOrder are the keys of badAssignments.
var inOrder = []string{
	"an unknown node", "only unknown nodes", "a negative node", "a node twice", "no nodes", "different counts", "a bad second", "all and an unknown node",
}

func createOnCluster(r *conform.R) {
	for _, v := range conform.Versions(19) {
		for _, title := range inOrder {
			everywhere(r, title, func() *kmsg.CreateTopicsRequest {
				return validate(v, assigned(r, "bad", -1, -1, badAssignments(r)[title]...))
			})
		}
		for _, c := range []struct {
			title      string
			partitions int32
			replicas   int16
		}{{"as many replicas as nodes", 2, 3}, {"more replicas than nodes", 1, 4}, {"far more", 1, 32767}, {"defaults", -1, -1}, {"no replicas", 1, 0}} {
			everywhere(r, c.title, func() *kmsg.CreateTopicsRequest {
				return validate(v, newTopic(r, "new", c.partitions, c.replicas))
			})
		}
		everywhere(r, "a good assignment", func() *kmsg.CreateTopicsRequest {
			return validate(v, assigned(r, "new", -1, -1, r.Nodes(2, 1), r.Nodes(0, 2)))
		})
	}
	for at := range r.Count() {
		name := fmt.Sprintf("made-%d", at+1)
		r.Owns(name)
		r.SendTo(at, "make through "+name, create(7, assigned(r, name, -1, -1, r.Nodes(2, 1, 0), r.Nodes(0, 2, 1))))
		r.SendTo(at, "make again through "+name, create(7, assigned(r, name, -1, -1, r.Nodes(2, 1, 0))))
		r.SendTo(at, "metadata at once, "+name, metadataFor(r, name))
		r.AwaitPartition(name, 0, conform.Replicas{Leader: 2, ISR: []int{0, 1, 2}})
		describeTopic(r, "made", name)
	}
}

// notePlaces notes how a topic's partitions are spread, whichever nodes they are on.
func notePlaces(r *conform.R, title, topic string) {
	m := r.QuietAt(0, metadataFor(r, topic)).(*kmsg.MetadataResponse)
	replicas, leaders := make([]int, r.Count()), make([]int, r.Count())
	fewest := r.Count()
	for _, p := range m.Topics[0].Partitions {
		fewest = min(fewest, len(p.Replicas))
		for i := range r.Count() {
			for _, id := range p.Replicas {
				if id == r.Node(i) {
					replicas[i]++
				}
			}
			if p.Leader == r.Node(i) {
				leaders[i]++
			}
		}
	}
	r.Note(title+": "+topic, "%d partitions, replicas of each: %d, on each node: %v, leaders: %v", len(m.Topics[0].Partitions), fewest, replicas, leaders)
}

// placement has the cluster choose where partitions are, and looks at the counts.
func placement(r *conform.R) {
	for _, c := range []struct {
		name       string
		partitions int32
		replicas   int16
	}{{"six-by-one", 6, 1}, {"six-by-two", 6, 2}, {"six-by-three", 6, 3}, {"thirty-by-two", 30, 2}} {
		r.Owns(c.name)
		r.Quiet(create(7, newTopic(r, c.name, c.partitions, c.replicas)))
		r.Settle()
		notePlaces(r, "placed", c.name)
		r.Quiet(grow(3, grown(r, c.name, 2*c.partitions)))
		r.Settle()
		notePlaces(r, "grown", c.name)
	}
}

func growOnCluster(r *conform.R) {
	r.CreateOn("a", [][]int{{0, 1}})
	for _, v := range conform.Versions(37) {
		for _, title := range inOrder {
			everywhere(r, title, func() *kmsg.CreatePartitionsRequest {
				nodes := badAssignments(r)[title]
				return growOnlyAsk(v, grown(r, "a", int32(1+len(nodes)), nodes...))
			})
		}
		for _, c := range []struct {
			title string
			nodes []int
		}{{"as many replicas", []int{2, 1}}, {"less replicas", []int{2}}, {"more replicas", []int{0, 1, 2}}} {
			everywhere(r, c.title, func() *kmsg.CreatePartitionsRequest { return growOnlyAsk(v, grown(r, "a", 2, r.Nodes(c.nodes...))) })
		}
	}
	for at := range r.Count() {
		p := int32(at + 1)
		r.SendTo(at, fmt.Sprintf("grow through node %d", at+1), grow(3, grown(r, "a", p+1, r.Nodes(2, at%2))))
		r.AwaitPartition("a", p, conform.Replicas{Leader: 2})
		describeTopic(r, fmt.Sprintf("grown through node %d", at+1), "a")
	}
}

// moving asks which partitions of a topic are on the move.
func moving(r *conform.R, topic string, partitions ...int32) *kmsg.ListPartitionReassignmentsRequest {
	req := kmsg.NewPtrListPartitionReassignmentsRequest()
	req.TimeoutMillis = 20_000
	t := kmsg.NewListPartitionReassignmentsRequestTopic()
	t.Topic, t.Partitions = r.Name(topic), partitions
	req.Topics = append(req.Topics, t)
	return req
}

func reassignOnCluster(r *conform.R) {
	r.CreateOn("a", [][]int{{0, 1}, {1, 2}})
	for p, at := range []int{0, 1} {
		produceAtNode(r, at, "a", int32(p), "x", "y")
	}
	unknown := r.Node(2) + 1000
	for _, v := range conform.Versions(45) {
		for _, c := range []struct {
			title string
			nodes []int32
		}{
			{"an unknown node", []int32{r.Node(0), unknown}},
			{"a negative node", []int32{r.Node(0), -1}},
			{"a node twice", r.Nodes(0, 0)},
			{"no nodes", []int32{}},
			{"cancel without one", nil},
			{"where it is", r.Nodes(0, 1)},
		} {
			everywhere(r, c.title, func() *kmsg.AlterPartitionAssignmentsRequest { return reassignTo(r, v, target{"a", 0, c.nodes}) })
		}
		if v >= 1 {
			fixed := reassignTo(r, v, target{"a", 0, r.Nodes(0, 1, 2)})
			fixed.AllowReplicationFactorChange = false
			r.Send(label(v, "another count is not allowed"), fixed)
		}
	}
	// Each move ends by itself; the nodes that it leaves out forget the partition.
	for i, c := range []struct {
		to, isr []int
		leader  int
	}{
		{[]int{0, 1, 2}, []int{0, 1, 2}, 0}, {[]int{0, 1}, []int{0, 1}, 0}, {[]int{1, 2}, []int{1, 2}, 1}, {[]int{0}, []int{0}, 0}, {[]int{2, 0}, []int{0, 2}, 0},
	} {
		title := fmt.Sprintf("move %d", i+1)
		r.SendTo(i%r.Count(), title, reassignTo(r, 1, target{"a", 0, r.Nodes(c.to...)}))
		r.UntilAt(0, title+" ends", func() kmsg.Request { return moving(r, "a", 0) }, func(resp kmsg.Response) bool {
			return len(resp.(*kmsg.ListPartitionReassignmentsResponse).Topics) == 0
		})
		r.AwaitPartition("a", 0, conform.Replicas{Leader: c.leader, ISR: c.isr})
		describeTopic(r, title, "a")
		for _, v := range []int16{10, 16} {
			everywhere(r, title, func() *kmsg.FetchRequest { return fetchOf(r, v, from{"a", 0, 0}) })
		}
		everywhere(r, title, func() *kmsg.ListPartitionReassignmentsRequest { return moving(r, "a", 0, 1) })
	}
}

func deleteOnCluster(r *conform.R) {
	for at := range r.Count() {
		name := fmt.Sprintf("a%d", at+1)
		r.CreateOn(name, [][]int{{0, 1, 2}, {2, 1, 0}})
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.Version, req.TimeoutMillis, req.TopicNames = 5, 20_000, []string{r.Name(name), r.Name("nope")}
		r.SendTo(at, "delete through "+name, req)
		r.Settle()
		everywhere(r, name+" is gone", func() *kmsg.MetadataRequest { return metadataFor(r, name) })
		everywhere(r, name+" is gone", func() *kmsg.FetchRequest { return fetchOf(r, 16, from{name, 0, 0}) })
		everywhere(r, name+" is gone", func() *kmsg.ListOffsetsRequest { return listOf(r, 7, -1, place{name, 0}) })
	}
}

// configsElsewhere asks nodes for what only others know.
func configsElsewhere(r *conform.R) {
	name := func(i int) string { return fmt.Sprint(r.Node(i)) }
	for _, v := range conform.Versions(32) {
		for at := range r.Count() {
			for of := range r.Count() {
				req := configsOf(resource(brokerResource, name(of), "log.retention.ms", "compression.type"))
				req.Version = v
				r.SendTo(at, label(v, "of node %d, at node %d", of+1, at+1), req)
			}
		}
		everywhere(r, "of all brokers", func() describeConfigsRequest {
			req := configsOf(resource(brokerResource, "", "log.retention.ms"))
			req.Version = v
			return req
		})
	}
	for at := range r.Count() {
		for whose := range r.Count() {
			ask := change(brokerResource, name(whose), operation{0, "log.retention.ms", of("7200000")})
			ask.ValidateOnly = true
			r.SendTo(at, fmt.Sprintf("change node %d through node %d", whose+1, at+1), ask)
			loggers := change(loggerResource, name(whose), operation{0, "nobody", of("INFO")})
			loggers.ValidateOnly = true
			r.SendTo(at, fmt.Sprintf("change loggers of node %d through node %d", whose+1, at+1), loggers)
		}
		unknown := change(brokerResource, "1000", operation{0, "log.retention.ms", of("7200000")})
		unknown.ValidateOnly = true
		r.SendTo(at, fmt.Sprintf("change an unknown node through node %d", at+1), unknown)
	}
	r.CreateOn("a", [][]int{{2}})
	for at := range r.Count() {
		r.SendTo(at, fmt.Sprintf("change a topic through node %d", at+1), change(topicResource, r.Name("a"), operation{0, "retention.ms", of(fmt.Sprint(1000000 + at))}))
		r.Settle()
		everywhere(r, fmt.Sprintf("changed through node %d", at+1), func() describeConfigsRequest {
			return configsOf(resource(topicResource, r.Name("a"), "retention.ms"))
		})
	}
}

func dirsOnCluster(r *conform.R) {
	ignoreDisk(r)
	r.CreateOn("a", [][]int{{0, 1}, {2, 1}})
	r.SendTo(0, "both have it", produceWith(r, 9, "a", 0, -1, "x"))
	for _, v := range conform.Versions(35) {
		everywhere(r, "partitions", func() *kmsg.DescribeLogDirsRequest { return dirsOf(r, v, "a", 0, 1) })
	}
}

func quorumOnCluster(r *conform.R) {
	const partition = "Topics.Partitions."
	r.Ignore(partition+"LeaderID", partition+"LeaderEpoch", partition+"HighWatermark", partition+"CurrentVoters.LogEndOffset",
		partition+"CurrentVoters.LastFetchTimestamp", partition+"CurrentVoters.LastCaughtUpTimestamp", "Nodes.Listeners")
	for _, v := range conform.Versions(55) {
		everywhere(r, "the cluster's log", func() *kmsg.DescribeQuorumRequest { return quorumOf(v, "__cluster_metadata", 0) })
		everywhere(r, "another partition", func() *kmsg.DescribeQuorumRequest { return quorumOf(v, "__cluster_metadata", 1) })
		everywhere(r, "another topic", func() *kmsg.DescribeQuorumRequest { return quorumOf(v, r.Name("t"), 0) })
	}
}
