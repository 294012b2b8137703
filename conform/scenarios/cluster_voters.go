package scenarios

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

// clusterVoters are the scenarios of controllers that keep the metadata log, or not any more
// (KIP-853). Each is alone: there is one log.
func clusterVoters() []conform.Scenario {
	list := inRacks([]conform.Scenario{
		{Name: "voters/describe", Key: 55, Run: describeVoters},
		{Name: "voters/add", Key: 80, Needs: []int16{55}, Run: addVoters},
		{Name: "voters/remove", Key: 81, Needs: []int16{55}, Run: removeVoters},
		{Name: "voters/update", Key: 80, Needs: []int16{55}, Run: updateVoters},
		{Name: "voters/out-and-in", Key: 81, Needs: []int16{55, 80}, Run: votersOutAndIn},
	})
	for i := range list {
		list[i].Alone = true
	}
	return list
}

// ofQuorum is the metadata log as its leader describes it.
func ofQuorum(r *conform.R) kmsg.DescribeQuorumResponseTopicPartition {
	ask := func() kmsg.Request { return quorumOf(2, "__cluster_metadata", 0) }
	resp := r.Until("the quorum is described", ask, func(resp kmsg.Response) bool {
		q := resp.(*kmsg.DescribeQuorumResponse)
		return q.ErrorCode == 0 && len(q.Topics) == 1 && q.Topics[0].Partitions[0].ErrorCode == 0
	})
	return resp.(*kmsg.DescribeQuorumResponse).Topics[0].Partitions[0]
}

// directories are the ids of the nodes' metadata directories, which answers call by name.
func directories(r *conform.R) [][16]byte {
	p := ofQuorum(r)
	found := make([][16]byte, r.Count())
	for _, member := range slices.Concat(p.CurrentVoters, p.Observers) {
		for i := range r.Count() {
			if member.ReplicaID == r.Node(i) {
				found[i] = member.ReplicaDirectoryID
				r.NameID(fmt.Sprintf("directory-%d", i+1), found[i])
			}
		}
	}
	return found
}

// ignoreProgress leaves out how far the log is, and when.
func ignoreProgress(r *conform.R) {
	for _, of := range []string{"CurrentVoters.", "Observers."} {
		for _, field := range []string{"LogEndOffset", "LastFetchTimestamp", "LastCaughtUpTimestamp"} {
			r.Ignore("Topics.Partitions." + of + field)
		}
	}
	r.Ignore("Topics.Partitions.LeaderEpoch", "Topics.Partitions.HighWatermark")
}

func describeVoters(r *conform.R) {
	r.NumberFrom(r.Controller())
	directories(r)
	ignoreProgress(r)
	for _, v := range conform.Versions(55) {
		everywhere(r, "quorum", func() *kmsg.DescribeQuorumRequest { return quorumOf(v, "__cluster_metadata", 0) })
		atControllers(r, "quorum", func() kmsg.Request { return quorumOf(v, "__cluster_metadata", 0) })
	}
}

// atAll sends a request to every broker, and to every controller, the active one first.
func atAll[Q kmsg.Request](r *conform.R, title string, mk func() Q) {
	everywhere(r, title, mk)
	atControllers(r, title, func() kmsg.Request { return mk() })
}

// newVoter asks to add node i.
func newVoter(r *conform.R, version int16, i int, directory [16]byte) *kmsg.AddRaftVoterRequest {
	req := kmsg.NewPtrAddRaftVoterRequest()
	req.Version, req.TimeoutMillis, req.VoterID, req.VoterDirectoryID = version, 20_000, r.Node(i), directory
	l := kmsg.NewAddRaftVoterRequestListener()
	l.Name = "CONTROLLER"
	l.Host, l.Port = r.ControllerListener(i)
	req.Listeners = append(req.Listeners, l)
	return req
}

// addVoters asks for voters that cannot be added, with one mistake and with two.
func addVoters(r *conform.R) {
	type request = *kmsg.AddRaftVoterRequest
	r.NumberFrom(r.Controller())
	dirs := directories(r)
	known := func(q request) { q.ClusterID = of(r.ClusterID()) }
	nobody := func(q request) { q.ClusterID = of("nobody") }
	noDirectory := func(q request) { q.VoterDirectoryID = [16]byte{} }
	noListener := func(q request) { q.Listeners = nil }
	otherListener := func(q request) { q.Listeners[0].Name = "X" }
	unknown := func(q request) { q.VoterID, q.VoterDirectoryID = 1000, r.TopicID("directory") }
	negative := func(q request) { q.VoterID = -1 }
	nowhere := func(q request) { unknown(q); q.Listeners[0].Host, q.Listeners[0].Port = "127.0.0.1", 1 }
	for _, v := range conform.Versions(80) {
		for _, c := range []struct {
			title string
			edits []func(request)
		}{
			{"a voter", nil},
			{"a voter of this cluster", []func(request){known}},
			{"a voter of another cluster", []func(request){nobody}},
			{"a voter of the empty cluster", []func(request){func(q request) { q.ClusterID = of("") }}},
			{"a voter with another directory", []func(request){func(q request) { q.VoterDirectoryID = r.TopicID("directory") }}},
			{"no directory", []func(request){noDirectory}},
			{"no directory, of another cluster", []func(request){nobody, noDirectory}},
			{"no listener", []func(request){noListener}},
			{"no listener, of another cluster", []func(request){nobody, noListener}},
			{"no listener, no directory", []func(request){noListener, noDirectory}},
			{"another listener", []func(request){otherListener}},
			{"another listener, unknown", []func(request){unknown, otherListener}},
			{"a negative voter", []func(request){negative}},
			{"a negative voter without listener", []func(request){negative, noListener}},
			{"an unknown voter without listener", []func(request){unknown, noListener}},
			{"an unknown voter of another cluster", []func(request){unknown, nobody}},
			{"nobody is there", []func(request){nowhere}},
			{"a voter is there, by another id", []func(request){func(q request) { q.VoterID = 1000 }}},
		} {
			atAll(r, c.title, func() request {
				req := newVoter(r, v, 1, dirs[1])
				req.TimeoutMillis = 1000
				for _, edit := range c.edits {
					edit(req)
				}
				return req
			})
		}
	}
}

// removeVoters asks to remove voters that are none.
func removeVoters(r *conform.R) {
	r.NumberFrom(r.Controller())
	dirs := directories(r)
	for _, c := range []struct {
		title     string
		cluster   *string
		id        int32
		directory [16]byte
	}{
		{"another directory", nil, r.Node(1), r.TopicID("directory")},
		{"the directory of another", nil, r.Node(1), dirs[2]},
		{"no directory", nil, r.Node(1), [16]byte{}},
		{"no directory, of another cluster", of("nobody"), r.Node(1), [16]byte{}},
		{"a voter of another cluster", of("nobody"), r.Node(1), dirs[1]},
		{"unknown", nil, 1000, r.TopicID("directory")},
		{"unknown, of this cluster", of(r.ClusterID()), 1000, r.TopicID("directory")},
		{"unknown, of another cluster", of("nobody"), 1000, r.TopicID("directory")},
		{"negative", nil, -1, dirs[1]},
		{"negative, no directory", nil, -1, [16]byte{}},
	} {
		atAll(r, c.title, func() *kmsg.RemoveRaftVoterRequest {
			req := kmsg.NewPtrRemoveRaftVoterRequest()
			req.ClusterID, req.VoterID, req.VoterDirectoryID = c.cluster, c.id, c.directory
			return req
		})
	}
}

// updateVoters has voters that have not moved, or are none, say where they are.
func updateVoters(r *conform.R) {
	type request = *kmsg.UpdateRaftVoterRequest
	r.NumberFrom(r.Controller())
	r.Ignore("CurrentLeader.LeaderEpoch")
	dirs := directories(r)
	epoch := func(add int32) func(request) {
		return func(q request) { q.CurrentLeaderEpoch += add }
	}
	versions := func(least, most int16) func(request) {
		return func(q request) {
			q.KRaftVersionFeature.MinSupportedVersion, q.KRaftVersionFeature.MaxSupportedVersion = least, most
		}
	}
	nobody := func(q request) { q.ClusterID = of("nobody") }
	noDirectory := func(q request) { q.VoterDirectoryID = [16]byte{} }
	noListener := func(q request) { q.Listeners = nil }
	unknown := func(q request) { q.VoterID = 1000 }
	for _, c := range []struct {
		title string
		edits []func(request)
	}{
		{"where it is", nil},
		{"where it is, of this cluster", []func(request){func(q request) { q.ClusterID = of(r.ClusterID()) }}},
		{"another cluster", []func(request){nobody}},
		{"an old epoch", []func(request){epoch(-1)}},
		{"a new epoch", []func(request){epoch(1)}},
		{"an old epoch of another cluster", []func(request){epoch(-1), nobody}},
		{"no directory", []func(request){noDirectory}},
		{"no directory, an old epoch", []func(request){noDirectory, epoch(-1)}},
		{"no listener", []func(request){noListener}},
		{"another listener", []func(request){func(q request) { q.Listeners[0].Name = "X" }}},
		{"negative", []func(request){func(q request) { q.VoterID = -1 }}},
		{"unknown", []func(request){unknown}},
		{"unknown, no listener", []func(request){unknown, noListener}},
		{"another directory", []func(request){func(q request) { q.VoterDirectoryID = r.TopicID("directory") }}},
		{"versions upside down", []func(request){versions(1, 0)}},
		{"negative versions", []func(request){versions(-1, 1)}},
		{"old versions", []func(request){versions(0, 0)}},
		{"later versions", []func(request){versions(2, 3)}},
		{"later versions, unknown", []func(request){versions(2, 3), unknown}},
		{"old versions, no listener", []func(request){versions(0, 0), noListener}},
	} {
		atAll(r, c.title, func() request {
			req := movedVoter(r, 1, dirs[1])
			for _, edit := range c.edits {
				edit(req)
			}
			return req
		})
		r.Settle() // a change is decided when the one before it is committed
	}
}

// movedVoter has node i say where it is.
func movedVoter(r *conform.R, i int, directory [16]byte) *kmsg.UpdateRaftVoterRequest {
	req := kmsg.NewPtrUpdateRaftVoterRequest()
	req.VoterID, req.VoterDirectoryID, req.CurrentLeaderEpoch = r.Node(i), directory, ofQuorum(r).LeaderEpoch
	l := kmsg.NewUpdateRaftVoterRequestListener()
	l.Name = "CONTROLLER"
	l.Host, l.Port = r.ControllerListener(i)
	req.Listeners = append(req.Listeners, l)
	req.KRaftVersionFeature.MaxSupportedVersion = 1
	return req
}

// awaitMembers waits until so many nodes keep the log.
func awaitMembers(r *conform.R, voters, observers int) {
	ask := func() kmsg.Request { return quorumOf(2, "__cluster_metadata", 0) }
	r.Until(fmt.Sprintf("%d voters and %d observers", voters, observers), ask, func(resp kmsg.Response) bool {
		q := resp.(*kmsg.DescribeQuorumResponse)
		if q.ErrorCode != 0 || len(q.Topics) == 0 || q.Topics[0].Partitions[0].ErrorCode != 0 {
			return false
		}
		p := q.Topics[0].Partitions[0]
		return len(p.CurrentVoters) == voters && len(p.Observers) == observers
	})
}

// votersOutAndIn takes voters out until one is left, and adds them again.
func votersOutAndIn(r *conform.R) {
	r.NumberFrom(r.Controller())
	dirs := directories(r)
	ignoreProgress(r)
	r.Ignore("CurrentLeader.LeaderEpoch")
	look := func(title string, voters int) {
		awaitMembers(r, voters, r.Count()-voters)
		everywhere(r, title, func() *kmsg.DescribeQuorumRequest { return quorumOf(2, "__cluster_metadata", 0) })
		r.Settle()
	}
	out := func(i int) *kmsg.RemoveRaftVoterRequest {
		req := kmsg.NewPtrRemoveRaftVoterRequest()
		req.ClusterID, req.VoterID, req.VoterDirectoryID = of(r.ClusterID()), r.Node(i), dirs[i]
		return req
	}
	look("three", 3)
	r.SendTo(1, "the third goes", out(2))
	look("two", 2)
	r.SendTo(2, "it goes again", out(2))
	r.SendTo(2, "the second goes", out(1))
	look("one", 1)
	r.SendTo(0, "the last one goes", out(0))
	other := newVoter(r, 0, 1, r.TopicID("directory"))
	other.TimeoutMillis = 1000
	r.SendTo(1, "the second with another directory", other)
	for _, i := range []int{1, 2} {
		r.SendTo(i, fmt.Sprintf("node %d comes back", i+1), newVoter(r, int16(i-1), i, dirs[i]))
		look(fmt.Sprintf("node %d is back", i+1), i+1)
		r.SendTo(0, fmt.Sprintf("node %d comes back again", i+1), newVoter(r, 0, i, dirs[i]))
	}
	atControllers(r, "where it is", func() kmsg.Request { return movedVoter(r, 1, dirs[1]) })
}

// configuredVoters asks for changes of a quorum whose voters the configuration names.
func configuredVoters(r *conform.R) {
	r.NumberFrom(r.Controller())
	r.Ignore("CurrentLeader.LeaderEpoch")
	directory := r.TopicID("directory")
	for _, v := range conform.Versions(80) {
		for _, c := range []struct {
			title string
			edit  func(*kmsg.AddRaftVoterRequest)
		}{
			{"a voter", func(*kmsg.AddRaftVoterRequest) {}},
			{"unknown", func(q *kmsg.AddRaftVoterRequest) { q.VoterID = 1000 }},
			{"unknown, another cluster", func(q *kmsg.AddRaftVoterRequest) { q.VoterID, q.ClusterID = 1000, of("nobody") }},
			{"unknown, no listener", func(q *kmsg.AddRaftVoterRequest) { q.VoterID, q.Listeners = 1000, nil }},
			{"unknown, no directory", func(q *kmsg.AddRaftVoterRequest) { q.VoterID, q.VoterDirectoryID = 1000, [16]byte{} }},
		} {
			atAll(r, c.title, func() *kmsg.AddRaftVoterRequest {
				req := newVoter(r, v, 1, directory)
				c.edit(req)
				return req
			})
		}
	}
	for _, id := range []int32{r.Node(1), 1000, -1} {
		atAll(r, fmt.Sprintf("known: %t", id == r.Node(1)), func() *kmsg.RemoveRaftVoterRequest {
			req := kmsg.NewPtrRemoveRaftVoterRequest()
			req.VoterID, req.VoterDirectoryID = id, directory
			return req
		})
	}
	for _, versions := range [][2]int16{{0, 0}, {0, 1}, {1, 1}, {0, 2}} {
		for _, id := range []int32{r.Node(1), 1000} {
			title := fmt.Sprintf("known: %t, versions %d to %d", id == r.Node(1), versions[0], versions[1])
			atControllers(r, title, func() kmsg.Request {
				req := movedVoter(r, 1, directory)
				req.VoterID = id
				req.KRaftVersionFeature.MinSupportedVersion, req.KRaftVersionFeature.MaxSupportedVersion = versions[0], versions[1]
				return req
			})
		}
	}
}
