package controller

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// deleteTopics decides a DeleteTopics request, versions 1 to 6 (ControllerApis.deleteTopics).
// Topics are named by name, or from version 6 on by id. The answers come in random order,
// so that their places tell nothing about topics that the client may not see.
func (s *state) deleteTopics(now time.Time, call Call) decision {
	req := call.Request.(*kmsg.DeleteTopicsRequest)
	if s.opts.DeleteTopicsDisabled {
		return decision{response: ErrorResponse(req, deletionDisabled(req.Version))}
	}
	d := deletion{state: s, access: call.access(), mutations: s.mutations(now, call, 5)}
	names, ids := d.screen(req)
	if len(names)+len(ids) > 0 && call.timedOut(now, req.TimeoutMillis) {
		return decision{response: ErrorResponse(req, kafkaerr.New(kafkaerr.RequestTimedOut, ""))}
	}
	d.resolveIDs(ids)
	d.resolveNames(names)
	records, err := d.remove()
	if err != nil {
		return decision{response: ErrorResponse(req, err)}
	}
	s.opts.Rand.Shuffle(len(d.answers), func(i, j int) { d.answers[i], d.answers[j] = d.answers[j], d.answers[i] })
	resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	resp.Topics, resp.ThrottleMillis = d.answers, d.mutations.throttleMillis()
	return decision{records: records, atomic: true, response: resp}
}

func deletionDisabled(version int16) error {
	if version < 3 {
		return kafkaerr.New(kafkaerr.InvalidRequest, "deletion of topics is disabled")
	}
	return kafkaerr.TopicDeletionDisabled
}

// deletion is one DeleteTopics request on its way.
type deletion struct {
	state     *state
	access    Access
	mutations *mutations
	topics    []*metadata.Topic // to delete, in the order of the request
	twice     map[uuid.UUID]bool
	answers   []kmsg.DeleteTopicsResponseTopic
}

// screen answers what names nothing or twice, and gives the names and ids left.
func (d *deletion) screen(req *kmsg.DeleteTopicsRequest) (names []string, ids []uuid.UUID) {
	allNames := append([]string{}, req.TopicNames...)
	var allIDs []uuid.UUID
	for _, t := range req.Topics {
		switch {
		case t.Topic == nil && t.TopicID == uuid.Zero:
			d.refuse(nil, uuid.Zero, kafkaerr.New(kafkaerr.InvalidRequest, "neither name nor id of a topic is given"))
		case t.Topic == nil:
			allIDs = append(allIDs, t.TopicID)
		case t.TopicID == uuid.Zero:
			allNames = append(allNames, *t.Topic)
		default:
			d.refuse(t.Topic, t.TopicID, kafkaerr.New(kafkaerr.InvalidRequest, "both name and id of a topic are given"))
		}
	}
	names, twiceNamed := separateRepeated(allNames)
	ids, twiceGiven := separateRepeated(allIDs)
	for _, n := range twiceNamed {
		d.refuse(&n, uuid.Zero, kafkaerr.New(kafkaerr.InvalidRequest, "the request names this topic more than once"))
	}
	d.twice = make(map[uuid.UUID]bool, len(twiceGiven))
	for _, id := range twiceGiven {
		d.twice[id] = true
		d.refuse(nil, id, kafkaerr.New(kafkaerr.InvalidRequest, "the request has this topic id more than once"))
	}
	return names, ids
}

// resolveIDs finds the topics given by id. Whether an id exists is answered to anybody,
// the name only to those who may see it.
func (d *deletion) resolveIDs(ids []uuid.UUID) {
	for _, id := range ids {
		t := d.state.image.TopicByID(id)
		switch {
		case t == nil:
			d.refuse(nil, id, kafkaerr.UnknownTopicID)
		case d.access.DeleteTopic(t.Name):
			d.topics = append(d.topics, t)
		case d.access.DescribeTopic(t.Name):
			d.refuse(&t.Name, id, kafkaerr.TopicAuthorizationFailed)
		default:
			d.refuse(nil, id, kafkaerr.TopicAuthorizationFailed)
		}
	}
}

// resolveNames finds the topics given by name, and refuses those given by id as well.
func (d *deletion) resolveNames(names []string) {
	byID := make(map[uuid.UUID]bool, len(d.topics))
	for _, t := range d.topics {
		byID[t.ID] = true
	}
	for _, n := range names {
		t := d.state.image.Topic(n)
		switch {
		case !d.access.DescribeTopic(n):
			d.refuse(&n, uuid.Zero, kafkaerr.TopicAuthorizationFailed)
		case t == nil:
			d.refuse(&n, uuid.Zero, kafkaerr.UnknownTopicOrPartition)
		case !d.access.DeleteTopic(n):
			d.refuse(&n, uuid.Zero, kafkaerr.TopicAuthorizationFailed)
		case byID[t.ID] || d.twice[t.ID]:
			d.twice[t.ID] = true
			d.refuse(&n, t.ID, kafkaerr.New(kafkaerr.InvalidRequest, "the request names this topic by its id, too"))
		default:
			d.topics = append(d.topics, t)
		}
	}
}

func (d *deletion) remove() ([]metadata.Record, error) {
	var records []metadata.Record
	for _, t := range d.topics {
		if d.twice[t.ID] {
			continue
		}
		if err := d.mutations.charge(len(t.Partitions)); err != nil {
			d.refuse(&t.Name, t.ID, err)
			continue
		}
		records = append(records, metadata.RemoveTopicRecord{ID: t.ID})
		d.answer(&t.Name, t.ID, nil)
	}
	if len(records) > maxRecordsPerRequest {
		return nil, kafkaerr.New(kafkaerr.PolicyViolation, tooManyText)
	}
	return records, nil
}

func (d *deletion) refuse(name *string, id uuid.UUID, err error) { d.answer(name, id, err) }

func (d *deletion) answer(name *string, id uuid.UUID, err error) {
	t := kmsg.NewDeleteTopicsResponseTopic()
	t.Topic, t.TopicID = name, id
	t.ErrorCode, t.ErrorMessage = kafkaerr.Code(err), answerMessage(err)
	d.answers = append(d.answers, t)
}

// separateRepeated splits a list into what occurs once and, each once, what repeats.
func separateRepeated[T comparable](all []T) (once, repeated []T) {
	times := make(map[T]int, len(all))
	for _, v := range all {
		times[v]++
	}
	for _, v := range all {
		switch {
		case times[v] == 1:
			once = append(once, v)
		case times[v] > 1:
			times[v] = 0
			repeated = append(repeated, v)
		}
	}
	return once, repeated
}
