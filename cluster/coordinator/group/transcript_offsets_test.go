package group

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/coordinator"
)

// topicIDOf makes the id of a topic from its name, "t#2" being the second topic t.
func topicIDOf(topic string) (name string, id [16]byte) {
	name, n, _ := strings.Cut(topic, "#")
	copy(id[:], name+n)
	return name, id
}

// splitPartition reads TOPIC-PARTITION.
func splitPartition(s string) (topic string, partition int32) {
	i := strings.LastIndexByte(s, '-')
	n, err := strconv.Atoi(s[i+1:])
	if err != nil {
		panic(err)
	}
	return s[:i], int32(n)
}

// cmdCommit: commit NAME t-0:5 [metadata=M] [retention=5s] [v=10]; name "-" is nobody's.
func (tr *transcript) cmdCommit(a args) {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation, req.RetentionTimeMillis = a.group(), noGeneration, noRetention
	if name := a.word(1); name != "-" {
		c := tr.client(name)
		req.MemberID, req.Generation, req.InstanceID = a.text("id", c.id), int32(a.number("generation", int(c.generation))), a.pointer("instance")
	}
	if a.has("retention") {
		req.RetentionTimeMillis = int64(a.ms("retention", ""))
	}
	for _, w := range a.words[2:] {
		at, offset, _ := strings.Cut(w, ":")
		topic, partition := splitPartition(at)
		rt, rp := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
		rt.Topic, rt.TopicID = topicIDOf(topic)
		rp.Partition, rp.Metadata, rp.LeaderEpoch = partition, a.pointer("metadata"), int32(a.number("epoch", -1))
		rp.Offset, _ = strconv.ParseInt(offset, 10, 64)
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
	}
	tr.carryOut(tr.shard.OffsetCommit(tr.now, tr.context(a, 10), req, func(resp *kmsg.OffsetCommitResponse) {
		s := "  OffsetCommit"
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				s += fmt.Sprintf(" %s-%d=%s", t.Topic, p.Partition, errorName(p.ErrorCode))
			}
		}
		tr.printf("%s", s)
	}))
}

// cmdFetch: fetch t-0 … (or nothing for all) [stable=true] [v=8].
func (tr *transcript) cmdFetch(a args) {
	req := kmsg.NewOffsetFetchRequestGroup()
	req.Group = a.group()
	for _, w := range a.words[1:] {
		topic, partition := splitPartition(w)
		rt := kmsg.NewOffsetFetchRequestGroupTopic()
		if rt.Topic, rt.TopicID = topicIDOf(topic); a.number("v", 10) < 10 {
			rt.TopicID = [16]byte{}
		}
		rt.Partitions = []int32{partition}
		req.Topics = append(req.Topics, rt)
	}
	show := func(resp kmsg.OffsetFetchResponseGroup) {
		s := "  OffsetFetch " + errorName(resp.ErrorCode)
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				s += fmt.Sprintf(" %s-%d=%d/%d%q", t.Topic, p.Partition, p.Offset, p.LeaderEpoch, deref(p.Metadata))
			}
		}
		tr.printf("%s", s)
	}
	if a.has("stable") {
		tr.carryOut(tr.shard.OffsetFetchStable(tr.now, tr.context(a, 10), noTopics, &req, show))
		return
	}
	show(tr.shard.OffsetFetch(noTopics, &req))
}

func (tr *transcript) cmdDeleteOffsets(a args) {
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = a.group()
	for _, w := range a.words[1:] {
		topic, partition := splitPartition(w)
		rt := kmsg.NewOffsetDeleteRequestTopic()
		rt.Topic = topic
		rt.Partitions = []kmsg.OffsetDeleteRequestTopicPartition{{Partition: partition}}
		req.Topics = append(req.Topics, rt)
	}
	tr.carryOut(tr.shard.OffsetDelete(tr.now, tr.context(a, 0), req, func(resp *kmsg.OffsetDeleteResponse) {
		s := "  OffsetDelete " + errorName(resp.ErrorCode)
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				s += fmt.Sprintf(" %s-%d=%s", t.Topic, p.Partition, errorName(p.ErrorCode))
			}
		}
		tr.printf("%s", s)
	}))
}

func (tr *transcript) cmdDescribe(a args) {
	resp := tr.shard.DescribeGroup(tr.context(a, 6), a.group())
	tr.printf("  DescribeGroups %s %s type=%q protocol=%q", errorName(resp.ErrorCode), resp.State, resp.ProtocolType, resp.Protocol)
	for _, m := range resp.Members {
		tr.printf("    %s instance=%s client=%s host=%s assignment=%q metadata=%d bytes", m.MemberID, deref(m.InstanceID), m.ClientID, m.ClientHost, m.MemberAssignment, len(m.ProtocolMetadata))
	}
}

func (tr *transcript) cmdList(a args) {
	for _, g := range tr.shard.ListGroups(a.list("states", ""), a.list("types", "")) {
		tr.printf("  %s %s type=%s protocol-type=%q", g.Group, g.GroupState, g.GroupType, g.ProtocolType)
	}
}

func (tr *transcript) cmdDeleteGroups(a args) {
	tr.carryOut(tr.shard.DeleteGroups(tr.now, tr.context(a, 2), a.words[1:], func(results []kmsg.DeleteGroupsResponseGroup) {
		for _, r := range results {
			tr.printf("  DeleteGroups %s=%s", r.Group, errorName(r.ErrorCode))
		}
	}))
}

// showRecord prints what is written.
func (tr *transcript) showRecord(r coordinator.Record) {
	kind, err := recordType(r.Key)
	if err != nil {
		tr.t.Fatal(err)
	}
	if kind == groupMetadataKey {
		tr.showGroupRecord(r)
		return
	}
	group, at, o, ok, err := decodeOffsetCommit(r)
	switch {
	case err != nil:
		tr.t.Fatal(err)
	case !ok:
		tr.printf("  * offset of %s in %s-%d removed", group, at.topic, at.partition)
	default:
		s := fmt.Sprintf("  * offset of %s in %s-%d is %d epoch=%d metadata=%q at %s", group, at.topic, at.partition, o.offset, o.leaderEpoch, o.metadata, tr.since(o.commitTimestamp))
		if o.expireTimestamp != noExpireTimestamp {
			s += " expires at " + tr.since(o.expireTimestamp)
		}
		tr.printf("%s", s)
	}
}

func (tr *transcript) showGroupRecord(r coordinator.Record) {
	group, v, err := decodeGroup(r)
	if err != nil {
		tr.t.Fatal(err)
	}
	if v == nil {
		tr.printf("  * group %s removed", group)
		return
	}
	s := fmt.Sprintf("  * group %s type=%q generation=%d protocol=%s leader=%s since %s", group, v.ProtocolType, v.Generation, deref(v.Protocol), deref(v.Leader), tr.since(v.CurrentStateTimestamp))
	for _, m := range v.Members {
		s += fmt.Sprintf(" %s=%q", m.MemberID, m.Assignment)
	}
	tr.printf("%s", s)
}

func (tr *transcript) since(ms int64) string {
	return fmt.Sprintf("%.1fs", float64(ms-epoch.UnixMilli())/1000)
}
