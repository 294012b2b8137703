package controller

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/internal/invariant"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

const (
	// unset is what CreateTopics sends for a count that it leaves to the broker.
	unset = -1
	// internalReplicationFactor is that of internal topics where none is asked for (D21).
	internalReplicationFactor = 3
	maxConfigValueLength      = 32767 // Short.MAX_VALUE
	// maxConfigBytes bounds the configuration in one request: it is held in memory and
	// written in one transaction. Kafka's bound on the latter is 8 MiB, too.
	maxConfigBytes = 8 << 20
	durabilityKey  = "durability"
)

const tooManyText = "the request is larger than one may be: ask for fewer topics at once"

// createTopics decides a CreateTopics request, versions 2 to 7 (ControllerApis and
// ReplicationControlManager.createTopics; the order of the checks is Kafka's):
//
//	per request  timeout, number of partitions, number of records
//	per topic    named twice, prohibited, unauthorized | invalid name, collision, exists,
//	             configuration, assignment or counts, placement, quota
//
// A topic refused does not keep the others of the request from being created. With
// ValidateOnly the answer is the same and nothing is written.
func (s *state) createTopics(now time.Time, call Call) decision {
	req := call.Request.(*kmsg.CreateTopicsRequest)
	refused, topics := screenNewTopics(req, call.access())
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	var records []metadata.Record
	if len(topics) > 0 {
		if call.timedOut(now, req.TimeoutMillis) {
			return decision{response: ErrorResponse(req, kafkaerr.New(kafkaerr.RequestTimedOut, ""))}
		}
		if tooManyPartitions(topics, s.opts.DefaultPartitions) || configBytes(topics) > maxConfigBytes {
			return decision{response: ErrorResponse(req, kafkaerr.New(kafkaerr.PolicyViolation,
				tooManyText))}
		}
		copied := 0 // durability records, which Kafka does not have
		dirs, mutations := &directories{state: s}, s.mutations(now, call, 6)
		var last newConfigs
		for _, t := range topics {
			recs, answer, err := s.createTopic(t, &last, dirs, mutations, call.access())
			if err != nil {
				answer = createError(t.Topic, err)
			} else {
				copied++
			}
			records = append(records, recs...)
			if len(records)-copied > maxRecordsPerRequest {
				return decision{response: ErrorResponse(req, kafkaerr.New(kafkaerr.PolicyViolation,
					tooManyText))}
			}
			resp.Topics = append(resp.Topics, answer)
		}
		resp.ThrottleMillis = mutations.throttleMillis()
	}
	resp.Topics = append(resp.Topics, refused...)
	if req.ValidateOnly {
		records = nil
	}
	return decision{records: records, atomic: true, response: resp}
}

// screenNewTopics separates the topics to create from those refused for their name's place
// in the request or for lack of rights. Kafka answers the refused ones last.
func screenNewTopics(req *kmsg.CreateTopicsRequest, access Access) (refused []kmsg.CreateTopicsResponseTopic, topics []*kmsg.CreateTopicsRequestTopic) {
	times := make(map[string]int, len(req.Topics))
	for i := range req.Topics {
		times[req.Topics[i].Topic]++
	}
	var prohibited []kmsg.CreateTopicsResponseTopic
	for i := range req.Topics {
		t := &req.Topics[i]
		switch {
		case times[t.Topic] == 0: // a duplicate that has its answer
		case times[t.Topic] > 1:
			times[t.Topic] = 0
			refused = append(refused, createError(t.Topic, kafkaerr.New(kafkaerr.InvalidRequest, "the request names this topic more than once")))
		case t.Topic == clusterMetadataTopic:
			prohibited = append(prohibited, createError(t.Topic, kafkaerr.New(kafkaerr.InvalidRequest,
				"the name "+clusterMetadataTopic+" is reserved")))
		case !access.CreateTopic(t.Topic):
			prohibited = append(prohibited, createError(t.Topic, kafkaerr.New(kafkaerr.TopicAuthorizationFailed, "not permitted to create this topic")))
		default:
			topics = append(topics, t)
		}
	}
	return append(refused, prohibited...), topics
}

// tooManyPartitions bounds the partitions of one request before anything is allocated.
func tooManyPartitions(topics []*kmsg.CreateTopicsRequestTopic, defaultPartitions int32) bool {
	total := int64(0)
	for _, t := range topics {
		switch {
		case len(t.ReplicaAssignment) > 0:
			total += int64(len(t.ReplicaAssignment))
		case t.NumPartitions == unset:
			total += int64(defaultPartitions)
		case t.NumPartitions > 0:
			total += int64(t.NumPartitions)
		}
	}
	return total > maxRecordsPerRequest
}

func configBytes(topics []*kmsg.CreateTopicsRequestTopic) (total int) {
	for _, t := range topics {
		for _, c := range t.Configs {
			if total += len(c.Name); c.Value != nil {
				total += len(*c.Value)
			}
		}
	}
	return total
}

// createTopic decides one topic. The first record is the topic's, its configuration
// follows, then its partitions.
func (s *state) createTopic(t *kmsg.CreateTopicsRequestTopic, configs *newConfigs, dirs *directories, mutations *mutations, access Access) ([]metadata.Record, kmsg.CreateTopicsResponseTopic, error) {
	none := kmsg.CreateTopicsResponseTopic{}
	if err := s.checkNewName(t.Topic); err != nil {
		return nil, none, err
	}
	if err := configs.take(s, t.Configs); err != nil {
		return nil, none, err
	}
	parts, err := s.newPartitions(t, dirs)
	if err != nil {
		return nil, none, err
	}
	if err := mutations.charge(len(parts)); err != nil {
		return nil, none, err
	}
	id, err := uuid.New(s.opts.IDs)
	if err != nil {
		return nil, none, fmt.Errorf("create topic %s: %w", t.Topic, err)
	}
	return topicRecords(t.Topic, id, configs.overrides, parts), s.created(t.Topic, id, configs, parts, access), nil
}

// checkNewName looks at topics that exist: two new names of one request may collide.
func (s *state) checkNewName(name string) error {
	if s.image.Topic(name) != nil {
		return kafkaerr.New(kafkaerr.TopicAlreadyExists, fmt.Sprintf("topic %s already exists", name))
	}
	if err := metadata.ValidateTopicName(name); err != nil {
		return err
	}
	if other := s.names.with(name); other != "" {
		return kafkaerr.New(kafkaerr.InvalidTopic, fmt.Sprintf(
			"topic name %s collides with that of topic %s, since their metrics would have one name", name, other))
	}
	return nil
}

// newConfigs is the configuration of the topic that was decided last. Most requests want the
// same for all of theirs.
type newConfigs struct {
	given     []kmsg.CreateTopicsRequestTopicConfig
	overrides map[string]string                      // nil: of none yet
	answer    []kmsg.CreateTopicsResponseTopicConfig // nil: not described yet
}

// take checks the configuration of the next topic.
func (c *newConfigs) take(s *state, given []kmsg.CreateTopicsRequestTopicConfig) error {
	same := func(a, b kmsg.CreateTopicsRequestTopicConfig) bool {
		return a.Name == b.Name && (a.Value == nil) == (b.Value == nil) && (a.Value == nil || *a.Value == *b.Value)
	}
	if c.overrides != nil && slices.EqualFunc(c.given, given, same) {
		return nil
	}
	overrides, err := s.checkNewConfigs(given)
	*c = newConfigs{given: given, overrides: overrides}
	return err
}

// describe lists all keys of the topic. The list is shared by the answers.
func (c *newConfigs) describe(s *state) []kmsg.CreateTopicsResponseTopicConfig {
	if c.answer == nil {
		c.answer = s.describeNew(c.overrides)
	}
	return c.answer
}

// checkNewConfigs gives the overrides of a new topic; of a key given twice the last counts.
func (s *state) checkNewConfigs(given []kmsg.CreateTopicsRequestTopicConfig) (map[string]string, error) {
	overrides := make(map[string]string, len(given))
	var nulls []string
	for _, c := range given {
		if c.Value == nil {
			nulls = append(nulls, c.Name)
		} else {
			// Protobuf refuses other text; Java would have replaced the same bytes.
			overrides[c.Name] = strings.ToValidUTF8(*c.Value, "\uFFFD")
		}
	}
	if len(nulls) > 0 {
		return nil, kafkaerr.New(kafkaerr.InvalidConfig, "a new topic cannot have null for "+strings.Join(nulls, ", "))
	}
	for k, v := range overrides {
		if len(v) > maxConfigValueLength {
			return nil, kafkaerr.New(kafkaerr.InvalidConfig, fmt.Sprintf("the value of %s is longer than %d bytes", k, maxConfigValueLength))
		}
	}
	if err := s.topics.Validate(overrides); err != nil {
		return nil, kafkaerr.New(kafkaerr.InvalidConfig, err.Error())
	}
	// What an ack means is copied into the topic, so that it stays when the cluster's default
	// should ever be read differently.
	if _, ok := overrides[durabilityKey]; !ok {
		overrides[durabilityKey] = s.image.Durability().String()
	}
	return overrides, nil
}

// newPartitions places the partitions of a new topic as asked for.
func (s *state) newPartitions(t *kmsg.CreateTopicsRequestTopic, dirs *directories) ([]metadata.Partition, error) {
	if len(t.ReplicaAssignment) > 0 {
		return s.assignedPartitions(t, dirs)
	}
	if t.ReplicationFactor < unset || t.ReplicationFactor == 0 {
		return nil, kafkaerr.New(kafkaerr.InvalidReplicationFactor,
			"the replication factor must be positive, or -1 for the default")
	}
	if t.NumPartitions < unset || t.NumPartitions == 0 {
		return nil, kafkaerr.New(kafkaerr.InvalidPartitions, "the number of partitions must be positive, or -1 for the default")
	}
	count, factor := t.NumPartitions, t.ReplicationFactor
	if count == unset {
		count = s.opts.DefaultPartitions
	}
	if factor == unset {
		factor = s.defaultReplicationFactor(t.Topic)
	}
	return s.placedPartitions(int(count), int(factor), dirs)
}

// defaultReplicationFactor is Kafka's default.replication.factor, but for internal topics,
// which must not start with one replica because the other brokers were late (D21).
func (s *state) defaultReplicationFactor(topic string) int16 {
	switch {
	case !metadata.IsInternalTopic(topic):
		return s.opts.DefaultReplicationFactor
	case s.image.NumBrokers() == 1 && s.image.BootstrappedForOne():
		return 1
	default:
		return internalReplicationFactor
	}
}

func (s *state) placedPartitions(count, factor int, dirs *directories) ([]metadata.Partition, error) {
	var usable []usableBroker
	for b := range s.image.Brokers() {
		if b.InControlledShutdown || len(b.LogDirs) == 0 {
			continue
		}
		u := usableBroker{id: b.ID, fenced: b.Fenced}
		if b.Rack != nil {
			u.rack = *b.Rack
		}
		usable = append(usable, u)
	}
	placed, err := place(s.opts.Rand, usable, count, factor)
	if err != nil {
		return nil, kafkaerr.New(kafkaerr.InvalidReplicationFactor,
			fmt.Sprintf("cannot place %d replica(s) of a partition: %v", factor, err))
	}
	parts := make([]metadata.Partition, count)
	for i, replicas := range placed {
		p, ok := s.newPartition(int32(i), replicas, dirs)
		invariant.Check(ok, "placed partition %d on %v without an active broker", i, replicas)
		parts[i] = p
	}
	return parts, nil
}

// assignedPartitions makes the partitions that the client placed itself.
func (s *state) assignedPartitions(t *kmsg.CreateTopicsRequestTopic, dirs *directories) ([]metadata.Partition, error) {
	if t.ReplicationFactor != unset {
		return nil, kafkaerr.New(kafkaerr.InvalidRequest, "with an assignment of replicas the replication factor must be -1")
	}
	if t.NumPartitions != unset {
		return nil, kafkaerr.New(kafkaerr.InvalidRequest, "with an assignment of replicas the number of partitions must be -1")
	}
	byIndex := make(map[int32]metadata.Partition, len(t.ReplicaAssignment))
	for i, a := range t.ReplicaAssignment {
		if _, ok := byIndex[a.Partition]; ok {
			return nil, assignmentError("partition %d is assigned more than once", a.Partition)
		}
		if err := s.checkAssignment(a.Replicas); err != nil {
			return nil, err
		}
		if n := len(t.ReplicaAssignment[max(i-1, 0)].Replicas); n != len(a.Replicas) {
			return nil, assignmentError("a partition is assigned %d replica(s) and an earlier one %d", len(a.Replicas), n)
		}
		p, ok := s.newPartition(a.Partition, a.Replicas, dirs)
		if !ok {
			return nil, assignmentError("every broker that partition %d is assigned to is fenced or shutting down", a.Partition)
		}
		byIndex[a.Partition] = p
	}
	parts := make([]metadata.Partition, len(byIndex))
	for i := range parts {
		p, ok := byIndex[int32(i)]
		if !ok {
			return nil, assignmentError("the partitions assigned are not numbered 0, 1, 2 and so on")
		}
		parts[i] = p
	}
	return parts, nil
}

// checkAssignment reports the first fault in the order of broker ids, as Kafka does.
func (s *state) checkAssignment(replicas []int32) error {
	if len(replicas) == 0 {
		return assignmentError("a partition is assigned to no broker")
	}
	sorted := slices.Sorted(slices.Values(replicas))
	for i, id := range sorted {
		if s.image.Broker(id) == nil {
			return assignmentError("a partition is assigned to broker %d, which is not registered", id)
		}
		if i > 0 && sorted[i-1] == id {
			return assignmentError("a partition is assigned to broker %d more than once", id)
		}
	}
	return nil
}

func assignmentError(format string, args ...any) error {
	return kafkaerr.New(kafkaerr.InvalidReplicaAssignment, fmt.Sprintf(format, args...))
}

// newPartition makes a partition whose ISR are its active replicas, led by the first of
// them; false if there is none.
func (s *state) newPartition(index int32, replicas []int32, dirs *directories) (metadata.Partition, bool) {
	p := metadata.Partition{Index: index, Replicas: slices.Clone(replicas)}
	for _, id := range replicas {
		b := s.image.Broker(id)
		p.Directories = append(p.Directories, dirs.choose(b))
		if s.isActive(id) && len(b.LogDirs) > 0 {
			p.ISR = append(p.ISR, id)
		}
	}
	if len(p.ISR) == 0 {
		return p, false
	}
	p.Leader = p.ISR[0]
	return p, true
}

func topicRecords(name string, id uuid.UUID, configs map[string]string, parts []metadata.Partition) []metadata.Record {
	records := make([]metadata.Record, 0, 1+len(configs)+len(parts))
	records = append(records, metadata.TopicRecord{Name: name, ID: id})
	for _, key := range slices.Sorted(maps.Keys(configs)) {
		records = append(records, metadata.ConfigRecord{
			Resource: topicResource(name), Key: key, Value: metadata.Ptr(configs[key]),
		})
	}
	for _, p := range parts {
		records = append(records, metadata.PartitionRecord{TopicID: id, Partition: p})
	}
	return records
}

// created is the answer for a topic that is made. Versions before 5 and 7 leave out what
// they do not have.
func (s *state) created(name string, id uuid.UUID, configs *newConfigs, parts []metadata.Partition, access Access) kmsg.CreateTopicsResponseTopic {
	t := newCreateAnswer(name)
	t.TopicID = id
	if !access.DescribeTopicConfigs(name) {
		t.ConfigErrorCode = kafkaerr.TopicAuthorizationFailed.Code
		return t
	}
	t.NumPartitions = int32(len(parts))
	t.ReplicationFactor = int16(len(parts[0].Replicas))
	t.Configs = configs.describe(s)
	return t
}

func (s *state) describeNew(overrides map[string]string) (answer []kmsg.CreateTopicsResponseTopicConfig) {
	for _, e := range s.topics.Effective(overrides) {
		c := kmsg.NewCreateTopicsResponseTopicConfig()
		c.Name, c.Source, c.ReadOnly, c.IsSensitive = e.Name, e.Source, e.ReadOnly, e.Sensitive
		if !e.Sensitive {
			c.Value = e.Value
		}
		if e.Name == durabilityKey {
			s.describeDurability(&c)
		}
		answer = append(answer, c)
	}
	return answer
}

// describeDurability describes the key as DescribeConfigs does (configs.DescribeTopic).
func (s *state) describeDurability(c *kmsg.CreateTopicsResponseTopicConfig) {
	const fallback = 5 // DescribeConfigs' source of a default
	c.ReadOnly = true
	if *c.Value == s.image.Durability().String() {
		c.Source = fallback
	}
}

func createError(name string, err error) kmsg.CreateTopicsResponseTopic {
	t := newCreateAnswer(name)
	t.ErrorCode, t.ErrorMessage = kafkaerr.Code(err), answerMessage(err)
	return t
}

// newCreateAnswer has an empty, not a null list of configurations, as Kafka's answers.
func newCreateAnswer(name string) kmsg.CreateTopicsResponseTopic {
	t := kmsg.NewCreateTopicsResponseTopic()
	t.Topic = name
	t.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
	return t
}
