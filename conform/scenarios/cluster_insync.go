package scenarios

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func clusterInSync() []conform.Scenario {
	return []conform.Scenario{
		{Name: "cluster-in-sync/too-few", Key: 0, Faults: true, Run: tooFewInSync},
		{Name: "cluster-in-sync/more-than-there-are", Key: 0, Run: moreThanReplicas},
		{Name: "cluster-in-sync/a-follower-is-paused", Key: 0, Faults: true, Run: followerPaused},
		{Name: "cluster-in-sync/waiting-while-it-shrinks", Key: 0, Faults: true, Run: waitingWhileShrinking},
		{Name: "cluster-in-sync/the-leader-moves-meanwhile", Key: 0, Needs: []int16{43, 45}, Faults: true, Run: leaderMovesMeanwhile},
		{Name: "cluster-in-sync/minimum-is-changed", Key: 0, Needs: []int16{44}, Faults: true, Run: minimumChanged},
	}
}

var anyAcks = []int16{1, -1}

// produceWith is a Produce of one record with these acks.
func produceWith(r *conform.R, version int16, topic string, partition int32, acks int16, value string) *kmsg.ProduceRequest {
	req := r.ProduceTo(version, topic, partition, conform.Batch{Records: r.Values(value)}.Bytes())
	req.Acks = acks
	return req
}

// readAll reads a partition as a consumer and as somebody who may see all of it.
func readAll(r *conform.R, at int, title, topic string, partition int32) {
	r.SendTo(at, fmt.Sprintf("%s: %s-%d as a consumer", title, topic, partition), fetchOf(r, 12, from{topic, partition, 0}))
	all := fetchOf(r, 12, from{topic, partition, 0})
	all.ReplicaID = -2
	r.SendTo(at, fmt.Sprintf("%s: %s-%d as a debugger", title, topic, partition), all)
	ends(r, at, title, topic, partition)
}

// tooFewInSync writes where one, two and three replicas must be in sync, and a node is
// gone: a partition that had two of them is left with one, one that had three with two.
func tooFewInSync(r *conform.R) {
	minima := []string{"1", "2", "3"}
	for _, minimum := range minima {
		r.CreateOn("min"+minimum, [][]int{{0, 1}}, "min.insync.replicas", minimum)
		r.CreateOn("wide"+minimum, [][]int{{0, 1, 2}}, "min.insync.replicas", minimum)
	}
	try := func(title string) {
		for _, minimum := range minima {
			for _, topic := range []string{"min" + minimum, "wide" + minimum} {
				conn := conform.At(0, "without acks")
				r.SendWithoutAnswer(conn, fmt.Sprintf("%s: acks 0 to %s", title, topic), produceWith(r, 9, topic, 0, 0, "x"))
				r.SendOn(conn, fmt.Sprintf("%s: after acks 0 to %s", title, topic), metadataFor(r, "nope"))
				for _, v := range conform.Versions(0) {
					for _, acks := range anyAcks {
						r.SendTo(0, label(v, "%s: acks %d to %s", title, acks, topic), produceWith(r, v, topic, 0, acks, "x"))
					}
				}
				ends(r, 0, title, topic, 0)
			}
		}
	}
	// What must wait for replicas is not looked at before they have had time: the last
	// request to each partition waits for all that are in sync, where it may.
	for _, minimum := range minima[:2] {
		r.SendTo(0, "all there: acks -1 to wide"+minimum, produceWith(r, 9, "wide"+minimum, 0, -1, "x"))
	}
	r.SendTo(0, "all there: acks -1 where there are less replicas than must be in sync", produceWith(r, 9, "min3", 0, -1, "x"))
	r.Kill(1)
	for _, minimum := range minima {
		r.AwaitPartition("min"+minimum, 0, conform.Replicas{Leader: 0, ISR: []int{0}})
		r.AwaitPartition("wide"+minimum, 0, conform.Replicas{Leader: 0, ISR: []int{0, 2}})
	}
	try("one is gone")
	for _, minimum := range minima {
		describeTopic(r, "one is gone", "min"+minimum)
		describeTopic(r, "one is gone", "wide"+minimum)
	}
	r.SendTo(0, "idempotent, refused", r.ProduceTo(9, "min2", 0, idempotent(r, 0)))
	r.StartAgain(1)
	for _, minimum := range minima {
		r.AwaitPartition("min"+minimum, 0, conform.Replicas{Leader: 0, ISR: []int{0, 1}})
		r.AwaitPartition("wide"+minimum, 0, conform.Replicas{Leader: 0, ISR: []int{0, 1, 2}})
	}
	r.SendTo(0, "idempotent, again", r.ProduceTo(9, "min2", 0, idempotent(r, 0)))
	r.SendTo(0, "idempotent, once more", r.ProduceTo(9, "min2", 0, idempotent(r, 0)))
	for _, minimum := range minima[:2] {
		for _, topic := range []string{"min" + minimum, "wide" + minimum} {
			r.SendTo(0, "all are back: acks -1 to "+topic, produceWith(r, 9, topic, 0, -1, "y"))
			ends(r, 0, "all are back", topic, 0)
		}
		readAll(r, 0, "all are back", "min"+minimum, 0)
	}
	for _, minimum := range minima {
		describeTopic(r, "all are back", "min"+minimum)
		describeTopic(r, "all are back", "wide"+minimum)
	}
}

// idempotent is the n-th batch of a producer.
func idempotent(r *conform.R, n int32) []byte {
	return conform.Batch{Records: r.Values("once"), Idempotent: true, ProducerID: 4711, FirstSequence: n}.Bytes()
}

// describeTopic shows a topic's partitions at every node that is up.
func describeTopic(r *conform.R, title, topic string) {
	everywhere(r, title+": "+topic, func() *kmsg.DescribeTopicPartitionsRequest { return partitionsOf(r, topic) })
}

// moreThanReplicas asks for more in-sync replicas than a partition has.
func moreThanReplicas(r *conform.R) {
	for _, on := range [][]int{{0, 1}, {0}} {
		name := fmt.Sprintf("on-%d", len(on))
		r.CreateOn(name, [][]int{on}, "min.insync.replicas", "3")
		for _, v := range conform.Versions(0) {
			for _, acks := range anyAcks {
				r.SendTo(0, label(v, "acks %d to %s", acks, name), produceWith(r, v, name, 0, acks, "x"))
			}
		}
		ends(r, 0, "in the end", name, 0)
		r.SendTo(0, name+" as a consumer", fetchOf(r, 12, from{name, 0, 0}))
		describeTopic(r, "in the end", name)
	}
}

// followerPaused writes while a follower that is in sync says nothing, until it is not in
// sync any more, and again when it has come back.
func followerPaused(r *conform.R) {
	r.NumberFrom(r.Controller()) // which must not be paused
	minima := []string{"1", "2"}
	for _, minimum := range minima {
		r.CreateOn("min"+minimum, [][]int{{0, 1}}, "min.insync.replicas", minimum)
		produceAtNode(r, 0, "min"+minimum, 0, "before")
	}
	r.Pause(1)
	var waits []*conform.Pending
	for _, minimum := range minima {
		req := produceWith(r, 9, "min"+minimum, 0, -1, "x")
		req.TimeoutMillis = 200
		waits = append(waits, r.Start(conform.At(0, minimum), "in sync and silent: acks -1 to min"+minimum, req))
	}
	for _, w := range waits {
		w.Wait()
	}
	for _, minimum := range minima {
		readAll(r, 0, "in sync and silent", "min"+minimum, 0)
	}
	for _, minimum := range minima {
		r.AwaitPartition("min"+minimum, 0, conform.Replicas{Leader: 0, ISR: []int{0}})
	}
	r.UntilAt(0, "the high watermark of min1", func() kmsg.Request { return listOf(r, 7, -1, place{"min1", 0}) }, func(resp kmsg.Response) bool {
		return resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].Offset == 2
	})
	for _, minimum := range minima {
		readAll(r, 0, "not in sync", "min"+minimum, 0)
		for _, acks := range anyAcks {
			r.SendTo(0, fmt.Sprintf("not in sync: acks %d to min%s", acks, minimum), produceWith(r, 9, "min"+minimum, 0, acks, "y"))
		}
		readAll(r, 0, "not in sync, more", "min"+minimum, 0)
		describeTopic(r, "not in sync", "min"+minimum)
	}
	r.StartAgain(1)
	for _, minimum := range minima {
		r.AwaitPartition("min"+minimum, 0, conform.Replicas{Leader: 0, ISR: []int{0, 1}})
		r.SendTo(0, "back in sync: acks -1 to min"+minimum, produceWith(r, 9, "min"+minimum, 0, -1, "z"))
		readAll(r, 0, "back in sync", "min"+minimum, 0)
		describeTopic(r, "back in sync", "min"+minimum)
	}
}

// waitingWhileShrinking has Produce wait for a follower that leaves the ISR meanwhile.
func waitingWhileShrinking(r *conform.R) {
	minima := []string{"1", "2"}
	for _, minimum := range minima {
		r.CreateOn("min"+minimum, [][]int{{0, 1}}, "min.insync.replicas", minimum)
		produceAtNode(r, 0, "min"+minimum, 0, "before")
	}
	r.Kill(1)
	var waits []*conform.Pending
	for _, minimum := range minima {
		req := produceWith(r, 9, "min"+minimum, 0, -1, "x")
		req.TimeoutMillis = 25_000
		waits = append(waits, r.Start(conform.At(0, minimum), "acks -1 to min"+minimum, req))
	}
	for _, w := range waits {
		w.WaitUpTo(time.Minute)
	}
	for _, minimum := range minima {
		r.AwaitPartition("min"+minimum, 0, conform.Replicas{Leader: 0, ISR: []int{0}})
		readAll(r, 0, "afterwards", "min"+minimum, 0)
	}
}

// leaderMovesMeanwhile has Produce wait at a leader that loses its leadership.
func leaderMovesMeanwhile(r *conform.R) {
	r.NumberFrom(r.Controller()) // which must not be paused
	r.CreateOn("a", [][]int{{0, 1, 2}}, "min.insync.replicas", "1")
	produceAtNode(r, 0, "a", 0, "before")
	r.Pause(1)
	var waits []*conform.Pending
	for i, v := range []int16{3, 9, 10, 13} {
		req := produceWith(r, v, "a", 0, -1, "x")
		req.TimeoutMillis = 14_000
		waits = append(waits, r.Start(conform.At(0, fmt.Sprint(i)), label(v, "acks -1 to a leader that is none any more"), req))
		end := func() kmsg.Request { q := listOf(r, 7, -1, place{"a", 0}); q.ReplicaID = -2; return q }
		r.UntilAt(0, "the record is written", end, func(resp kmsg.Response) bool {
			return resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].Offset == int64(i+2)
		})
	}
	moved := reassignTo(r, 0, target{"a", 0, r.Nodes(2, 0, 1)})
	r.QuietAt(2, moved)
	r.QuietAt(2, elect(r, 2, 0, "a", 0))
	for _, w := range waits {
		w.Wait()
	}
	r.AwaitPartition("a", 0, conform.Replicas{Leader: 2, ISR: []int{0, 2}})
	r.SendTo(2, "acks -1 to the new leader", produceWith(r, 9, "a", 0, -1, "y"))
	r.SendTo(2, "epochs at the new leader", epochOf(r, 4, 0, place{"a", 0}))
}

// minimumChanged changes how many replicas must be in sync while one is gone.
func minimumChanged(r *conform.R) {
	r.CreateOn("a", [][]int{{0, 1}, {1, 0}}, "min.insync.replicas", "1")
	r.Kill(1)
	r.AwaitPartition("a", 0, conform.Replicas{Leader: 0, ISR: []int{0}})
	r.AwaitPartition("a", 1, conform.Replicas{Leader: 0, ISR: []int{0}})
	for _, minimum := range []string{"2", "1", "3", "1"} {
		r.Send("minimum "+minimum, change(topicResource, r.Name("a"), operation{0, "min.insync.replicas", of(minimum)}))
		r.Settle()
		for _, acks := range anyAcks {
			r.SendTo(0, fmt.Sprintf("minimum %s: acks %d", minimum, acks), produceWith(r, 9, "a", 0, acks, "x"))
		}
		ends(r, 0, "minimum "+minimum, "a", 0)
		describeTopic(r, "minimum "+minimum, "a")
	}
}
