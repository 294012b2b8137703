package scenarios

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

// clusterDirs are the scenarios of nodes with two log directories each.
func clusterDirs() []conform.Scenario {
	return inRacks([]conform.Scenario{
		{Name: "dirs/move", Key: 34, Needs: []int16{35}, Run: moveDirs},
		{Name: "dirs/assign", Key: 35, Needs: []int16{45, 55}, Run: assignDirs},
	})
}

// homes are the log directories of each node, that of a topic's first partition first where
// it has one.
type homes [][]string

func homesOf(r *conform.R, topic string) homes {
	h := make(homes, r.Count())
	for at := range h {
		var here []string
		for _, dir := range r.QuietAt(at, dirsOf(r, 4, topic, 0)).(*kmsg.DescribeLogDirsResponse).Dirs {
			h[at] = append(h[at], dir.Dir)
			if len(dir.Topics) > 0 {
				here = append(here, dir.Dir)
			}
		}
		slices.Sort(h[at])
		if len(here) == 1 && h[at][0] != here[0] {
			slices.Reverse(h[at])
		}
	}
	return h
}

// note says in which directories every node has the topic's first partition.
func (h homes) note(r *conform.R, title, topic string) {
	for at := range h {
		text := "nowhere"
		resp := r.QuietAt(at, dirsOf(r, 4, topic, 0)).(*kmsg.DescribeLogDirsResponse)
		for _, dir := range resp.Dirs {
			for _, t := range dir.Topics {
				for _, p := range t.Partitions {
					text = fmt.Sprintf("in directory %d, %d bytes, lag %d, future %t", 1+slices.Index(h[at], dir.Dir), p.Size, p.OffsetLag, p.IsFuture)
				}
			}
		}
		r.Note(fmt.Sprintf("%s: %s-0 at node %d", title, topic, at+1), "%s", text)
	}
}

func moveTo(r *conform.R, version int16, dir, topic string, partitions ...int32) *kmsg.AlterReplicaLogDirsRequest {
	req := kmsg.NewPtrAlterReplicaLogDirsRequest()
	req.Version = version
	d := kmsg.NewAlterReplicaLogDirsRequestDir()
	d.Dir = dir
	t := kmsg.NewAlterReplicaLogDirsRequestDirTopic()
	t.Topic, t.Partitions = r.Name(topic), partitions
	d.Topics = append(d.Topics, t)
	req.Dirs = append(req.Dirs, d)
	return req
}

// moveDirs moves replicas between the directories of their nodes: a leader's, a follower's,
// and one that is not there.
func moveDirs(r *conform.R) {
	r.CreateOn("a", [][]int{{0, 1}})
	r.SendTo(0, "both have it", produceWith(r, 9, "a", 0, -1, "x"))
	h := homesOf(r, "a")
	h.note(r, "at first", "a")
	for i, v := range conform.Versions(34) {
		to := (i + 1) % 2
		atEach(func(at int, role string) {
			r.SendTo(at, label(v, "to where no directory is, at the %s", role), moveTo(r, v, "/no/such/directory", "a", 0))
			r.SendTo(at, label(v, "a directory of another node, at the %s", role), moveTo(r, v, h[(at+1)%r.Count()][0], "a", 0))
			r.SendTo(at, label(v, "unknown partition, at the %s", role), moveTo(r, v, h[at][0], "a", 9))
			r.SendTo(at, label(v, "move, at the %s", role), moveTo(r, v, h[at][to], "a", 0))
		})
		for at := range 2 {
			r.UntilAt(at, "the move has ended", func() kmsg.Request { return dirsOf(r, 4, "a", 0) }, func(resp kmsg.Response) bool {
				in := slices.DeleteFunc(resp.(*kmsg.DescribeLogDirsResponse).Dirs, func(d kmsg.DescribeLogDirsResponseDir) bool { return len(d.Topics) == 0 })
				return len(in) == 1 && in[0].Dir == h[at][to] && !in[0].Topics[0].Partitions[0].IsFuture
			})
		}
		h.note(r, label(v, "moved"), "a")
		r.SendTo(0, label(v, "another record"), produceWith(r, 9, "a", 0, -1, "z"))
		readAll(r, 0, label(v, "moved"), "a", 0)
	}
	describeTopic(r, "in the end", "a")
}

// epochOfBroker finds the epoch in which a broker has registered: nobody tells, but the
// controller knows which of those that are asked for is the one.
func epochOfBroker(r *conform.R, i int) int64 {
	for epoch := range int64(20_000) {
		req := kmsg.NewPtrAssignReplicasToDirsRequest()
		req.BrokerID, req.BrokerEpoch = r.Node(i), epoch
		if r.QuietAtController(0, req).(*kmsg.AssignReplicasToDirsResponse).ErrorCode == 0 {
			return epoch
		}
	}
	r.Fail("no epoch of node %d", r.Node(i))
	return 0
}

// assignDirs speaks for a broker that has put replicas into directories.
func assignDirs(r *conform.R) {
	r.NumberFrom(r.Controller())
	r.CreateOn("a", [][]int{{1, 0}, {0, 2}, {1, 2}, {0, 1}})
	const broker = 1
	epoch := epochOfBroker(r, broker)
	assign := func(id, epoch int64, directory [16]byte, topic [16]byte, partitions ...int32) *kmsg.AssignReplicasToDirsRequest {
		req := kmsg.NewPtrAssignReplicasToDirsRequest()
		req.BrokerID, req.BrokerEpoch = int32(id), epoch
		d := kmsg.NewAssignReplicasToDirsRequestDirectory()
		d.ID = directory
		t := kmsg.NewAssignReplicasToDirsRequestDirectoryTopic()
		t.TopicID = topic
		for _, p := range partitions {
			part := kmsg.NewAssignReplicasToDirsRequestDirectoryTopicPartition()
			part.Partition = p
			t.Partitions = append(t.Partitions, part)
		}
		d.Topics = append(d.Topics, t)
		req.Directories = append(req.Directories, d)
		return req
	}
	me, a, somewhere := int64(r.Node(broker)), r.TopicID("a"), r.TopicID("directory")
	atControllers(r, "no directories", func() kmsg.Request {
		req := assign(me, epoch, somewhere, a)
		req.Directories = nil
		return req
	})
	for _, c := range []struct {
		title string
		mk    func() kmsg.Request
	}{
		{"an old epoch", func() kmsg.Request { return assign(me, epoch-1, somewhere, a, 0) }},
		{"a new epoch", func() kmsg.Request { return assign(me, epoch+1, somewhere, a, 0) }},
		{"another node", func() kmsg.Request { return assign(int64(r.Node(2)), epoch, somewhere, a, 0) }},
		{"unknown topic", func() kmsg.Request { return assign(me, epoch, somewhere, r.TopicID("nope"), 0) }},
		{"no topic id", func() kmsg.Request { return assign(me, epoch, somewhere, [16]byte{}, 0) }},
		{"unknown partitions", func() kmsg.Request { return assign(me, epoch, somewhere, a, 9, -1) }},
		{"no partitions", func() kmsg.Request { return assign(me, epoch, somewhere, a) }},
		{"a replica of others", func() kmsg.Request { return assign(me, epoch, somewhere, a, 1) }},
	} {
		atControllers(r, c.title, c.mk)
	}
	describeTopic(r, "nothing is assigned", "a")
	r.SendOn(conform.AtController(0, "main"), "to directories that are not there", assign(me, epoch, somewhere, a, 0, 1, 2, 3, 9))
	r.Settle()
	r.Ignore("Topics.Partitions.ISR", "Topics.Partitions.OfflineReplicas") // until the broker says where they are
	describeTopic(r, "replicas are where no directory is", "a")
}
