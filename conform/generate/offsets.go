package generate

import (
	"fmt"
	"math"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// drawListOffsets asks for the special offsets, and for those of times.
func drawListOffsets(d dice) Step {
	version, isolation := d.version(2), int8(d.IntN(2))
	type asked struct {
		at    place
		time  int64
		epoch int32
	}
	var all []asked
	var texts []string
	for range 1 + d.IntN(3) {
		a := asked{d.place(), pick(d, int64(-1), -1, -2, -2, -3, -4, -5, -6, -7, 0, 1, 2, 3, 60_000, -60_000, math.MaxInt64), -1}
		if d.in(20) {
			a.epoch = pick(d, int32(0), 1, -2)
		}
		all = append(all, a)
		texts = append(texts, fmt.Sprintf("%v time %d epoch %d", a.at, a.time, a.epoch))
	}
	relative := d.in(50)
	text := fmt.Sprintf("list offsets v%d isolation %d relative %v: %s", version, isolation, relative, strings.Join(texts, ", "))
	return Step{Text: text, do: func(p *player, label string) {
		req := kmsg.NewPtrListOffsetsRequest()
		req.Version, req.ReplicaID, req.IsolationLevel = version, -1, isolation
		for _, a := range all {
			part := kmsg.NewListOffsetsRequestTopicPartition()
			part.Partition, part.Timestamp, part.CurrentLeaderEpoch = a.at.partition, p.time(a.at, a.time), a.epoch
			if relative && a.time >= 0 && a.time < math.MaxInt64 {
				part.Timestamp = p.r.T(a.time)
			}
			topic := kmsg.NewListOffsetsRequestTopic()
			topic.Topic = p.r.Name(a.at.topic)
			topic.Partitions = append(topic.Partitions, part)
			req.Topics = append(req.Topics, topic)
		}
		p.r.Send(label, req)
	}}
}

func drawOffsetForLeaderEpoch(d dice) Step {
	version, at := d.version(23), d.place()
	current, epoch := pick(d, int32(-1), -1, 0, 1), pick(d, int32(0), 0, 1, -1, -2, 7)
	text := fmt.Sprintf("offset for leader epoch v%d %v: current %d, end of %d", version, at, current, epoch)
	return Step{Text: text, do: func(p *player, label string) {
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		req.Version, req.ReplicaID = version, -1
		part := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		part.Partition, part.CurrentLeaderEpoch, part.LeaderEpoch = at.partition, current, epoch
		topic := kmsg.NewOffsetForLeaderEpochRequestTopic()
		topic.Topic = p.r.Name(at.topic)
		topic.Partitions = append(topic.Partitions, part)
		req.Topics = append(req.Topics, topic)
		p.r.Send(label, req)
	}}
}

// drawInitProducerID gives one of the producers a new life.
func drawInitProducerID(d dice) Step {
	version, who := d.version(22), d.IntN(producers)
	how := pick(d, "new", "new", "mine", "id alone", "epoch alone")
	text := fmt.Sprintf("init producer id v%d for producer %d: %s", version, who, how)
	return Step{Text: text, do: func(p *player, label string) {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.Version, req.TransactionTimeoutMillis = version, 60_000
		from := p.producers[who]
		switch how {
		case "mine":
			req.ProducerID, req.ProducerEpoch = from.id, from.epoch
		case "id alone":
			req.ProducerID = from.id
		case "epoch alone":
			req.ProducerEpoch = from.epoch
		}
		resp, ok := p.r.Send(label, req).(*kmsg.InitProducerIDResponse)
		if ok && resp.ErrorCode == 0 {
			p.producers[who] = newProducer(resp.ProducerID, resp.ProducerEpoch)
		}
	}}
}

// drawDeleteRecords moves the log start.
func drawDeleteRecords(d dice) Step {
	version, at, to := d.version(21), d.place(), d.position()
	high := d.in(20)
	text := fmt.Sprintf("delete records v%d %v before %s, to the end %v", version, at, to, high)
	return Step{Text: text, do: func(p *player, label string) {
		req := kmsg.NewPtrDeleteRecordsRequest()
		req.Version, req.TimeoutMillis = version, 5000
		part := kmsg.NewDeleteRecordsRequestTopicPartition()
		part.Partition, part.Offset = at.partition, p.offset(at, to)
		if high {
			part.Offset = -1
		}
		topic := kmsg.NewDeleteRecordsRequestTopic()
		topic.Topic = p.r.Name(at.topic)
		topic.Partitions = append(topic.Partitions, part)
		req.Topics = append(req.Topics, topic)
		p.r.Send(label, req)
	}}
}

func drawDescribeCluster(d dice) Step {
	version, operations := d.version(60), d.in(50)
	text := fmt.Sprintf("describe cluster v%d operations %v", version, operations)
	return Step{Text: text, do: func(p *player, label string) {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.Version, req.IncludeClusterAuthorizedOperations, req.EndpointType = version, operations, 1
		p.r.Send(label, req)
	}}
}

func drawAPIVersions(d dice) Step {
	version, name := d.version(18), pick(d, "conform", "", "a b", "-x")
	text := fmt.Sprintf("api versions v%d software %q", version, name)
	return Step{Text: text, do: func(p *player, label string) {
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = version, name, "1"
		p.r.Ignore("FinalizedFeaturesEpoch", "SupportedFeatures", "FinalizedFeatures")
		p.r.Send(label, req)
	}}
}
