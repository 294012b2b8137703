package controller

import (
	"fmt"
	"math"
	"net/netip"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// The keys of client quotas (Kafka's QuotaConfig).
const (
	quotaProducerBytes  = "producer_byte_rate"
	quotaConsumerBytes  = "consumer_byte_rate"
	quotaRequestPercent = "request_percentage"
	quotaMutations      = "controller_mutation_rate"
	quotaConnections    = "connection_creation_rate"
)

// quotaAlteration is one entry of an AlterClientQuotas.
type quotaAlteration struct {
	entity metadata.QuotaEntity
	// parts are those named in the request, of which the last of a kind counts.
	parts []kmsg.AlterClientQuotasRequestEntryEntity
	err   error
}

// alterClientQuotas decides an AlterClientQuotas request, versions 0 and 1
// (ClientQuotaControlManager). Each entity is decided alone and answered once; one that is
// named again is refused, and what its first entry asked for happens all the same, as in
// Kafka.
func (s *state) alterClientQuotas(call Call) decision {
	req := call.Request.(*kmsg.AlterClientQuotasRequest)
	var records []metadata.Record
	var answers []*quotaAlteration
	known := map[string]*quotaAlteration{}
	for i := range req.Entries {
		a := newQuotaAlteration(&req.Entries[i])
		key := a.key()
		if first := known[key]; first != nil {
			first.err = kafkaerr.New(kafkaerr.InvalidRequest, "the request names this entity more than once")
			continue
		}
		known[key] = a
		answers = append(answers, a)
		var changes []metadata.Record
		changes, a.err = s.alterQuotas(a, req.Entries[i].Ops)
		records = append(records, changes...)
	}
	if len(records) > maxRecordsPerRequest {
		return decision{response: ErrorResponse(req, kafkaerr.New(kafkaerr.PolicyViolation, fmt.Sprintf("more than %d changes", maxRecordsPerRequest)))}
	}
	if req.ValidateOnly {
		records = nil
	}
	return decision{records: records, atomic: true, response: quotaAnswers(req, answers)}
}

func newQuotaAlteration(entry *kmsg.AlterClientQuotasRequestEntry) *quotaAlteration {
	a := &quotaAlteration{}
	at := map[string]int{}
	for _, part := range entry.Entity {
		if i, again := at[part.Type]; again {
			a.parts[i] = part
			continue
		}
		at[part.Type] = len(a.parts)
		a.parts = append(a.parts, part)
	}
	return a
}

// key is the same for the same entity, also for one that is refused.
func (a *quotaAlteration) key() string {
	parts := map[string]string{}
	for _, p := range a.parts {
		parts[p.Type] = "default"
		if p.Name != nil {
			parts[p.Type] = "=" + *p.Name
		}
	}
	return fmt.Sprintf("%q", parts) // sorted by key
}

// resolve gives the entity, if it may have quotas at all.
func (a *quotaAlteration) resolve() (metadata.QuotaEntity, error) {
	var e metadata.QuotaEntity
	refuse := func(why string) (metadata.QuotaEntity, error) {
		return e, kafkaerr.New(kafkaerr.InvalidRequest, why)
	}
	for _, p := range a.parts {
		name := metadata.QuotaForDefault()
		switch {
		case p.Name == nil:
		case *p.Name == "":
			return refuse("a name of the type " + p.Type + " is empty")
		case !utf8.ValidString(*p.Name):
			return refuse("a name of the type " + p.Type + " is not UTF-8")
		default:
			name = metadata.QuotaFor(*p.Name)
		}
		switch p.Type {
		case "user":
			e.User = name
		case "client-id":
			e.ClientID = name
		case "ip":
			e.IP = name
		default:
			return refuse("there are no quotas for the type " + p.Type)
		}
	}
	clients := e.User.Kind != metadata.QuotaNotGiven || e.ClientID.Kind != metadata.QuotaNotGiven
	switch address := e.IP.Kind != metadata.QuotaNotGiven; {
	case !clients && !address:
		return refuse("a quota needs somebody whom it is for")
	case clients && address:
		return refuse("a quota is for addresses, or for users and clients")
	case e.IP.Kind == metadata.QuotaNamed && !isAddress(e.IP.Name):
		return refuse(e.IP.Name + " is no address")
	}
	return e, nil
}

// isAddress takes addresses alone. Kafka asks a name server about anything else; here that
// would keep the controller waiting, and brokers could be told different addresses.
func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

// alterQuotas gives the records for one entity.
func (s *state) alterQuotas(a *quotaAlteration, ops []kmsg.AlterClientQuotasRequestEntryOp) (records []metadata.Record, err error) {
	seen := map[string]bool{}
	for _, op := range ops {
		if seen[op.Key] {
			return nil, kafkaerr.New(kafkaerr.InvalidRequest, "the key "+op.Key+" is given more than once")
		}
		seen[op.Key] = true
	}
	if a.entity, err = a.resolve(); err != nil {
		return nil, err
	}
	now := s.image.Quota(a.entity)
	for _, op := range ops {
		old, set := now[op.Key]
		if op.Remove {
			if set {
				records = append(records, metadata.QuotaRecord{Entity: a.entity, Key: op.Key})
			}
			continue
		}
		if err := checkQuota(a.entity, op.Key, op.Value); err != nil {
			return nil, err
		}
		if !set || math.Float64bits(old) != math.Float64bits(op.Value) {
			records = append(records, metadata.QuotaRecord{Entity: a.entity, Key: op.Key, Value: &op.Value})
		}
	}
	return records, nil
}

// checkQuota refuses keys that an entity does not have, and values that are none.
func checkQuota(e metadata.QuotaEntity, key string, value float64) error {
	refuse := func(why string) error { return kafkaerr.New(kafkaerr.InvalidRequest, why) }
	limit := math.Inf(1)
	switch forClients := e.IP.Kind == metadata.QuotaNotGiven; {
	case forClients && (key == quotaRequestPercent || key == quotaMutations):
	case forClients && (key == quotaProducerBytes || key == quotaConsumerBytes):
		limit = math.MaxInt64
	case !forClients && key == quotaConnections:
		limit = math.MaxInt32
	default:
		return refuse("there is no quota " + key + " for this entity")
	}
	switch {
	case math.IsNaN(value) || math.IsInf(value, 0):
		return refuse(key + " must be a number")
	case value <= 0:
		return refuse(key + " must be more than 0")
	case value > limit:
		return refuse(key + " is too large")
	case !math.IsInf(limit, 1) && math.Abs(math.Mod(value, 1)) > 1e-6:
		return refuse(key + " must be a whole number")
	}
	return nil
}

func quotaAnswers(req *kmsg.AlterClientQuotasRequest, answers []*quotaAlteration) *kmsg.AlterClientQuotasResponse {
	resp := req.ResponseKind().(*kmsg.AlterClientQuotasResponse)
	for _, a := range answers {
		resp.Entries = append(resp.Entries, quotaAnswer(a.parts, a.err))
	}
	return resp
}

func quotaAnswer(parts []kmsg.AlterClientQuotasRequestEntryEntity, err error) kmsg.AlterClientQuotasResponseEntry {
	answer := kmsg.NewAlterClientQuotasResponseEntry()
	answer.ErrorCode, answer.ErrorMessage = kafkaerr.Code(err), answerMessage(err)
	for _, p := range parts {
		e := kmsg.NewAlterClientQuotasResponseEntryEntity()
		e.Type, e.Name = p.Type, p.Name
		answer.Entity = append(answer.Entity, e)
	}
	return answer
}

// alterQuotasError has an answer for each entry.
func alterQuotasError(req *kmsg.AlterClientQuotasRequest, resp *kmsg.AlterClientQuotasResponse, err error) {
	for i := range req.Entries {
		resp.Entries = append(resp.Entries, quotaAnswer(req.Entries[i].Entity, err))
	}
}
