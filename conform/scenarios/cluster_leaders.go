package scenarios

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func clusterLeaders() []conform.Scenario {
	return []conform.Scenario{
		{Name: "cluster-leaders/produce", Key: 0, Run: produceElsewhere},
		{Name: "cluster-leaders/fetch", Key: 1, Needs: []int16{43, 45}, Run: fetchElsewhere},
		{Name: "cluster-leaders/fetch-sessions", Key: 1, Needs: []int16{43, 45}, Run: fetchMovedLeader},
		{Name: "cluster-leaders/fetch-as-replica", Key: 1, Run: fetchAsReplica},
		{Name: "cluster-leaders/list-offsets", Key: 2, Needs: []int16{43, 45}, Run: listElsewhere},
		{Name: "cluster-leaders/offset-for-leader-epoch", Key: 23, Needs: []int16{43, 45}, Run: epochElsewhere},
		{Name: "cluster-leaders/delete-records", Key: 21, Run: deleteElsewhere},
		{Name: "cluster-leaders/describe-producers", Key: 61, Run: producersElsewhere},
	}
}

// ledTwice is a partition that the second node led in epoch 0, with records x and y, and
// that the first one leads in epoch 1, with record z. The third has no replica.
func ledTwice(r *conform.R, name string) {
	r.CreateOn(name, [][]int{{1, 0}})
	produceAtNode(r, 1, name, 0, "x", "y")
	moveLeader(r, name, 0, 0, 1)
	produceAtNode(r, 0, name, 0, "z")
	r.UntilAt(1, "the high watermark at the follower", func() kmsg.Request { return fetchOf(r, 11, from{name, 0, 0}) }, func(resp kmsg.Response) bool {
		return resp.(*kmsg.FetchResponse).Topics[0].Partitions[0].HighWatermark == 3
	})
}

// atEach calls try for each node with its role.
func atEach(try func(at int, role string)) {
	for at, role := range roles {
		try(at, role)
	}
}

func produceElsewhere(r *conform.R) {
	r.CreateOn("a", [][]int{{0, 1}, {1, 0}, {2, 1}})
	batch := conform.Batch{Records: r.Values("x")}.Bytes()
	for _, v := range conform.Versions(0) {
		atEach(func(at int, role string) {
			for _, acks := range []int16{1, -1} {
				req := r.ProduceTo(v, "a", 0, batch)
				req.Acks = acks
				r.SendTo(at, label(v, "acks %d to the %s", acks, role), req)
			}
			for _, bad := range []int32{9, -1} {
				r.SendTo(at, label(v, "partition %d to the %s", bad, role), r.ProduceTo(v, "a", bad, batch))
			}
			r.SendTo(at, label(v, "unknown topic to the %s", role), r.ProduceTo(v, "nope", 0, batch))
			all := produceOf(r, v, data{"a", 0, batch}, data{"a", 1, batch}, data{"a", 2, batch}, data{"nope", 0, batch})
			r.SendTo(at, label(v, "to all partitions, at node %d", at+1), all)
		})
	}
	for at, role := range roles { // whoever cannot take it closes the connection
		conn := conform.At(at, "without acks")
		req := r.ProduceTo(9, "a", 0, batch)
		req.Acks = 0
		r.SendWithoutAnswer(conn, "acks 0 to the "+role, req)
		r.SendOn(conn, "after acks 0 to the "+role, metadataFor(r, "nope"))
	}
	r.SendTo(0, "everything is acknowledged", r.ProduceTo(9, "a", 0, batch))
	ends(r, 0, "in the end", "a", 0)
	ends(r, 1, "in the end", "a", 1)
	ends(r, 2, "in the end", "a", 2)
}

// epochsAround are leader epochs as a client may know them where 1 is the current one.
var epochsAround = []int32{anyEpoch, 0, 1, 2}

func fetchElsewhere(r *conform.R) {
	ledTwice(r, "a")
	for _, v := range conform.Versions(1) {
		atEach(func(at int, role string) {
			send := func(title string, offset int64, edit func(*kmsg.FetchRequest)) {
				req := fetchOf(r, v, from{"a", 0, offset})
				edit(req)
				r.SendTo(at, label(v, "%s, at the %s", title, role), req)
			}
			part := func(q *kmsg.FetchRequest) *kmsg.FetchRequestTopicPartition { return &q.Topics[0].Partitions[0] }
			for _, epoch := range epochsAround {
				if epoch != anyEpoch && v < 9 {
					continue
				}
				send(fmt.Sprintf("epoch %d", epoch), 0, func(q *kmsg.FetchRequest) { part(q).CurrentLeaderEpoch = epoch })
				send(fmt.Sprintf("epoch %d, far behind the end", epoch), 99, func(q *kmsg.FetchRequest) { part(q).CurrentLeaderEpoch = epoch })
			}
			if v >= 4 {
				send("read committed", 0, func(q *kmsg.FetchRequest) { q.IsolationLevel = 1 })
			}
			if v >= 11 {
				send("with a rack", 0, func(q *kmsg.FetchRequest) { q.Rack = "r" })
			}
			if v >= 12 {
				for _, last := range []int32{-1, 0, 1, 2} {
					send(fmt.Sprintf("last epoch %d", last), 3, func(q *kmsg.FetchRequest) { part(q).LastFetchedEpoch, part(q).CurrentLeaderEpoch = last, 1 })
				}
			}
			send("partition 9", 0, func(q *kmsg.FetchRequest) { part(q).Partition = 9 })
			r.SendTo(at, label(v, "unknown topic, at the %s", role), fetchOf(r, v, from{"nope", 0, 0}))
		})
	}
}

// fetchMovedLeader reads in a session while the partition changes hands.
func fetchMovedLeader(r *conform.R) {
	for _, v := range []int16{7, 12, 13, 16, 18} {
		name := fmt.Sprintf("a%d", v)
		r.CreateOn(name, [][]int{{1, 0}, {1, 0}})
		produceAtNode(r, 1, name, 0, "x")
		full := fetchOf(r, v, from{name, 0, 1}, from{name, 1, 0})
		full.SessionID, full.SessionEpoch = 0, 0
		full.Topics[0].Partitions[0].CurrentLeaderEpoch = 0
		open, ok := r.SendTo(1, label(v, "open a session"), full).(*kmsg.FetchResponse)
		if !ok {
			r.Fail("no session")
		}
		again := func(epoch int32) *kmsg.FetchRequest {
			req := fetchOf(r, v)
			req.SessionID, req.SessionEpoch = open.SessionID, epoch
			return req
		}
		r.SendTo(1, label(v, "nothing new"), again(1))
		moveLeader(r, name, 0, 0, 1)
		r.SendTo(1, label(v, "the leader of one has moved"), again(2))
		r.SendTo(1, label(v, "and once more"), again(3))
		moveLeader(r, name, 0, 1, 0)
		r.SendTo(1, label(v, "it has come back"), again(4))
		r.SendTo(1, label(v, "and once more after that"), again(5))
		r.SendTo(0, label(v, "a session of another node"), again(6))
	}
}

// other is somebody else than a consumer who may ask.
type other struct {
	who string
	id  int32
}

func others(r *conform.R) []other {
	return []other{
		{"the leader", r.Node(0)},
		{"the follower", r.Node(1)},
		{"no replica", r.Node(2)},
		{"an unknown node", 1000},
		{"a debugger", -2},
		{"nobody", -3},
	}
}

// fetchAsReplica asks as nodes do that have no replica, or are none.
func fetchAsReplica(r *conform.R) {
	r.CreateOn("a", [][]int{{0, 1}})
	produceAtNode(r, 0, "a", 0, "x")
	r.UntilAt(1, "the high watermark at the follower", func() kmsg.Request { return fetchOf(r, 11, from{"a", 0, 0}) }, func(resp kmsg.Response) bool {
		return resp.(*kmsg.FetchResponse).Topics[0].Partitions[0].HighWatermark == 1
	})
	for _, v := range conform.Versions(1) {
		atEach(func(at int, role string) {
			for _, as := range others(r) {
				if as.id == r.Node(1) { // a fetch of the follower says how far it is
					continue
				}
				for _, epoch := range []int64{-1, 0, 1 << 40} {
					if epoch >= 0 && v < 15 {
						continue
					}
					req := fetchOf(r, v, from{"a", 0, 0})
					req.ReplicaID = as.id
					if v >= 15 {
						req.ReplicaID = -1
						req.ReplicaState.ID, req.ReplicaState.Epoch = as.id, epoch
					}
					r.SendTo(at, label(v, "as %s, broker epoch %d, at the %s", as.who, epoch, role), req)
				}
			}
		})
	}
}

func listElsewhere(r *conform.R) {
	ledTwice(r, "a")
	for _, v := range conform.Versions(2) {
		atEach(func(at int, role string) {
			for _, epoch := range epochsAround {
				if epoch != anyEpoch && v < 4 {
					continue
				}
				for _, ts := range []int64{-1, -2, -3, -4, -5, -6, r.T(0), r.T(5)} {
					req := listOf(r, v, ts, place{"a", 0})
					req.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch
					when := fmt.Sprint(ts)
					if ts > 0 {
						when = fmt.Sprintf("T+%d", ts-r.T(0))
					}
					r.SendTo(at, label(v, "time %s, epoch %d, at the %s", when, epoch, role), req)
				}
			}
			for _, as := range others(r) {
				req := listOf(r, v, -1, place{"a", 0})
				req.ReplicaID = as.id
				r.SendTo(at, label(v, "as %s, at the %s", as.who, role), req)
			}
			if v >= 2 {
				req := listOf(r, v, -1, place{"a", 0})
				req.IsolationLevel = 1
				r.SendTo(at, label(v, "read committed, at the %s", role), req)
			}
			r.SendTo(at, label(v, "unknown ones, at the %s", role), listOf(r, v, -1, place{"a", 9}, place{"nope", 0}))
		})
	}
}

func epochElsewhere(r *conform.R) {
	ledTwice(r, "a")
	for _, v := range conform.Versions(23) {
		atEach(func(at int, role string) {
			for _, epoch := range []int32{-1, 0, 1, 2} {
				for _, fence := range epochsAround {
					req := epochOf(r, v, epoch, place{"a", 0})
					req.Topics[0].Partitions[0].CurrentLeaderEpoch = fence
					r.SendTo(at, label(v, "end of %d, epoch %d, at the %s", epoch, fence, role), req)
				}
			}
			for _, as := range others(r) {
				if v < 3 {
					continue
				}
				req := epochOf(r, v, 0, place{"a", 0})
				req.ReplicaID = as.id
				r.SendTo(at, label(v, "as %s, at the %s", as.who, role), req)
			}
			r.SendTo(at, label(v, "unknown ones, at the %s", role), epochOf(r, v, 0, place{"a", 9}, place{"nope", 0}))
		})
	}
}

func deleteElsewhere(r *conform.R) {
	r.CreateOn("a", [][]int{{0, 1}, {1, 0}})
	produceAtNode(r, 0, "a", 0, "x", "y", "z")
	produceAtNode(r, 1, "a", 1, "x", "y", "z")
	for _, v := range conform.Versions(21) {
		atEach(func(at int, role string) {
			r.SendTo(at, label(v, "at the %s", role), deleteOf(r, v, 1, place{"a", 0}))
			r.SendTo(at, label(v, "both partitions, at node %d", at+1), deleteOf(r, v, 2, place{"a", 0}, place{"a", 1}))
			r.SendTo(at, label(v, "unknown ones, at the %s", role), deleteOf(r, v, 1, place{"a", 9}, place{"nope", 0}))
			r.SendTo(at, label(v, "behind the end, at the %s", role), deleteOf(r, v, 99, place{"a", 0}))
		})
	}
	r.SendTo(0, "what is left of the first", fetchOf(r, 12, from{"a", 0, 0}))
	r.SendTo(1, "what is left of the second", fetchOf(r, 12, from{"a", 1, 0}))
}

func producersElsewhere(r *conform.R) {
	r.CreateOn("a", [][]int{{0, 1}})
	batch := conform.Batch{Records: r.Values("x"), Idempotent: true, ProducerID: 4711}
	r.SendTo(0, "produce", r.ProduceTo(9, "a", 0, batch.Bytes()))
	atEach(func(at int, role string) {
		r.SendTo(at, "at the "+role, producersOf(r, place{"a", 0}))
		r.SendTo(at, "unknown ones, at the "+role, producersOf(r, place{"a", 9}, place{"nope", 0}))
	})
}
