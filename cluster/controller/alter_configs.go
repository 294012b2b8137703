package controller

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/configs"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// alteration is one AlterConfigs or IncrementalAlterConfigs on its way
// (ConfigurationControlManager). Each resource is decided alone: if one of its keys is
// refused, none of them changes, and the others of the request do. The broker that the
// client asked has looked at the request as far as that needs no metadata, and has applied
// what is its own (loggers).
type alteration struct {
	state   *state
	records []metadata.Record
	elr     []metadata.Record // that follow from others
}

// alterConfigs decides an AlterConfigs request, versions 0 to 2: the map given takes the
// place of the whole map of the resource.
func (s *state) alterConfigs(call Call) decision {
	req := call.Request.(*kmsg.AlterConfigsRequest)
	resp := req.ResponseKind().(*kmsg.AlterConfigsResponse)
	a := alteration{state: s}
	for i := range req.Resources {
		r := &req.Resources[i]
		next := map[string]*string{}
		for _, c := range r.Configs {
			next[c.Name] = c.Value
		}
		answer := kmsg.NewAlterConfigsResponseResource()
		answer.ResourceType, answer.ResourceName = r.ResourceType, r.ResourceName
		err := a.replace(resourceOf(r.ResourceType, r.ResourceName), next)
		answer.ErrorCode, answer.ErrorMessage = kafkaerr.Code(err), answerMessage(err)
		resp.Resources = append(resp.Resources, answer)
	}
	return a.decision(req, resp, req.ValidateOnly)
}

// incrementalAlterConfigs decides an IncrementalAlterConfigs request, versions 0 and 1:
// keys that are not named stay as they are (KIP-339).
func (s *state) incrementalAlterConfigs(call Call) decision {
	req := call.Request.(*kmsg.IncrementalAlterConfigsRequest)
	resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	if hasUnknownOperation(req) { // Kafka stumbles over it after the request's other checks
		return decision{response: ErrorResponse(req, kafkaerr.New(kafkaerr.UnknownServerError, ""))}
	}
	a := alteration{state: s}
	for i := range req.Resources {
		r := &req.Resources[i]
		answer := kmsg.NewIncrementalAlterConfigsResponseResource()
		answer.ResourceType, answer.ResourceName = r.ResourceType, r.ResourceName
		err := a.change(resourceOf(r.ResourceType, r.ResourceName), r.Configs)
		answer.ErrorCode, answer.ErrorMessage = kafkaerr.Code(err), answerMessage(err)
		resp.Resources = append(resp.Resources, answer)
	}
	return a.decision(req, resp, req.ValidateOnly)
}

func hasUnknownOperation(req *kmsg.IncrementalAlterConfigsRequest) bool {
	for _, r := range req.Resources {
		for _, c := range r.Configs {
			if c.Op < kmsg.IncrementalAlterConfigOpSet || c.Op > kmsg.IncrementalAlterConfigOpSubtract {
				return true
			}
		}
	}
	return false
}

func resourceOf(kind kmsg.ConfigResourceType, name string) metadata.Resource {
	return metadata.Resource{Type: metadata.ResourceType(kind), Name: validUTF8(name)}
}

// validUTF8 is what protobuf can hold; Java would have replaced the same bytes.
func validUTF8(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

func (a *alteration) decision(req kmsg.Request, resp kmsg.Response, validateOnly bool) decision {
	switch {
	case len(a.records) > maxRecordsPerRequest:
		return decision{response: ErrorResponse(req, kafkaerr.New(kafkaerr.PolicyViolation, tooManyText))}
	case validateOnly:
		return decision{response: resp}
	}
	return decision{records: append(a.records, a.elr...), atomic: true, response: resp}
}

// replace decides what an AlterConfigs asks of one resource.
func (a *alteration) replace(r metadata.Resource, next map[string]*string) error {
	changes := map[string]*string{}
	for key := range a.state.image.Config(r) {
		// A client that does not know the key of ours has no wish about it.
		if _, stays := next[key]; !stays && key != durabilityKey {
			changes[key] = nil
		}
	}
	maps.Copy(changes, next)
	return a.apply(r, changes)
}

// change decides what an IncrementalAlterConfigs asks of one resource.
func (a *alteration) change(r metadata.Resource, ops []kmsg.IncrementalAlterConfigsRequestResourceConfig) error {
	changes := map[string]*string{}
	for _, op := range ops {
		value, err := a.operate(r, op)
		if err != nil {
			return err
		}
		changes[op.Name] = value
	}
	return a.apply(r, changes)
}

// operate gives the value that a key gets, nil for none.
func (a *alteration) operate(r metadata.Resource, op kmsg.IncrementalAlterConfigsRequestResourceConfig) (*string, error) {
	switch op.Op {
	case kmsg.IncrementalAlterConfigOpSet:
		return op.Value, nil
	case kmsg.IncrementalAlterConfigOpDelete:
		return nil, nil
	default: // appends and subtracts
	}
	key := listKey(r.Type, op.Name)
	if key == nil {
		return nil, kafkaerr.New(kafkaerr.InvalidConfig, op.Name+" is no list, so that nothing can be appended to it or taken from it")
	}
	var set *string
	if text, ok := a.state.image.Config(r)[op.Name]; ok {
		set = &text
	}
	text := key.ChangeList(set, *op.Value, op.Op == kmsg.IncrementalAlterConfigOpAppend)
	return &text, nil
}

// listKey finds a key that is a list. Those of groups and client metrics are none to Kafka.
func listKey(kind metadata.ResourceType, name string) *configs.Key {
	var key *configs.Key
	switch kind {
	case metadata.TopicResource:
		key = configs.TopicKey(name)
	case metadata.BrokerResource:
		key = configs.BrokerKey(name)
	default:
		return nil
	}
	if key == nil || key.Type != configs.List {
		return nil
	}
	return key
}

// apply checks what the resource would have, and notes the records that lead there. nil
// removes a key. Records are written for a broker even if nothing changes, since that
// makes it look again at files that its keys name.
func (a *alteration) apply(r metadata.Resource, changes map[string]*string) error {
	old := a.state.image.Config(r)
	if err := a.keepDurability(r, changes); err != nil {
		return err
	}
	next := maps.Clone(old)
	if next == nil {
		next = map[string]string{}
	}
	for _, key := range slices.Sorted(maps.Keys(changes)) {
		value := changes[key]
		if err := checkChange(r, key, value); err != nil {
			return err
		}
		if value == nil {
			delete(next, key)
		} else {
			next[key] = validUTF8(*value)
		}
	}
	if err := a.state.checkConfigs(r, next); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(changes)) {
		a.note(r, key, old, next)
	}
	return nil
}

// note adds the record of one key. A key without a name can be set on a broker and means
// nothing; it is not written.
func (a *alteration) note(r metadata.Resource, key string, old, next map[string]string) {
	was, had := old[key]
	value, has := next[key]
	if key == "" || was == value && had == has && r.Type != metadata.BrokerResource {
		return
	}
	record := metadata.ConfigRecord{Resource: r, Key: validUTF8(key)}
	if has {
		record.Value = &value
	}
	a.records = append(a.records, record)
	if key == minInSyncKey {
		a.elr = append(a.elr, a.state.withoutELR(r)...)
	}
}

const minInSyncKey = "min.insync.replicas"

// checkChange refuses changes that are wrong whatever else is set. That the value of all
// brokers stays, and no broker has one of its own, is what eligible leader replicas rely
// on (KIP-966): every controller must judge by the same number.
func checkChange(r metadata.Resource, key string, value *string) error {
	refuse := func(text string) error { return kafkaerr.New(kafkaerr.InvalidConfig, text) }
	switch broker := r.Type == metadata.BrokerResource; {
	case broker && key == minInSyncKey && r.Name != "":
		return refuse(minInSyncKey + " cannot be set on one broker; it is the same for all")
	case broker && key == minInSyncKey && value == nil:
		return refuse(minInSyncKey + " of all brokers cannot be removed")
	case value != nil && len(*value) > maxConfigValueLength:
		return refuse(fmt.Sprintf("the value of %s is longer than %d bytes", key, maxConfigValueLength))
	}
	return nil
}

// checkConfigs refuses the whole configuration of a resource, and resources that do not
// exist, in Kafka's order: name, values, existence (ControllerConfigurationValidator).
func (s *state) checkConfigs(r metadata.Resource, next map[string]string) error {
	switch r.Type {
	case metadata.TopicResource:
		return s.checkTopicConfigs(r.Name, next)
	case metadata.BrokerResource:
		return s.checkBroker(r.Name)
	case metadata.ClientMetricsResource:
		if r.Name == "" {
			return kafkaerr.New(kafkaerr.InvalidRequest, "a subscription to metrics must have a name")
		}
		return configs.CheckClientMetrics(next)
	case metadata.GroupResource:
		if r.Name == "" {
			return kafkaerr.New(kafkaerr.InvalidRequest, "there is no configuration of all groups")
		}
		return s.topics.CheckGroup(next)
	}
	return kafkaerr.New(kafkaerr.InvalidRequest, fmt.Sprintf("resource type %d has no configuration", r.Type))
}

func (s *state) checkTopicConfigs(name string, next map[string]string) error {
	if name == "" {
		return kafkaerr.New(kafkaerr.InvalidRequest, "there is no configuration of all topics")
	}
	if err := metadata.ValidateTopicName(name); err != nil {
		return err
	}
	if err := s.topics.Validate(next); err != nil {
		return kafkaerr.New(kafkaerr.InvalidConfig, err.Error())
	}
	if s.image.Topic(name) == nil {
		return kafkaerr.New(kafkaerr.UnknownTopicOrPartition, "there is no topic "+name)
	}
	return nil
}

func (s *state) checkBroker(name string) error {
	if name == "" {
		return nil
	}
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil || id < 0 {
		return kafkaerr.New(kafkaerr.InvalidRequest, "a broker's name is its number")
	}
	if s.image.Broker(int32(id)) == nil {
		return kafkaerr.New(kafkaerr.BrokerIDNotRegistered, fmt.Sprintf("broker %d is not registered", id))
	}
	return nil
}

// keepDurability guards the key that says what an ack of a topic means. From replicated
// there is no way to fsync: records below the high watermark may be unflushed. Whoever
// removes the key gets the cluster's default, in writing, as a new topic does.
func (a *alteration) keepDurability(r metadata.Resource, changes map[string]*string) error {
	value, changed := changes[durabilityKey]
	if r.Type != metadata.TopicResource || !changed {
		return nil
	}
	fallback := a.state.image.Durability().String()
	if value == nil {
		value = &fallback
	}
	was, set := a.state.image.Config(r)[durabilityKey]
	if !set {
		was = fallback
	}
	if was == metadata.DurabilityReplicated.String() && *value == metadata.DurabilityFsync.String() {
		return kafkaerr.New(kafkaerr.InvalidConfig,
			"durability cannot be changed from replicated to fsync: records that were acknowledged may be unflushed")
	}
	changes[durabilityKey] = value
	return nil
}

// withoutELR empties the eligible leader replicas of the partitions whose min.insync.replicas
// changes, as Kafka does (ClearElrRecord): with a smaller number the high watermark can pass
// what they have. Where there is no leader it cannot, and they stay: they may be all there is.
func (s *state) withoutELR(r metadata.Resource) (records []metadata.Record) {
	for tp := range s.partitions(func(p *metadata.Partition) bool { return len(p.ELR) > 0 && p.Leader != metadata.NoLeader }) {
		if r.Type == metadata.TopicResource && tp.topic.Name != r.Name {
			continue
		}
		records = append(records, metadata.PartitionChangeRecord{
			TopicID: tp.topic.ID, Index: tp.partition.Index, ELR: []int32{},
		})
	}
	return records
}
