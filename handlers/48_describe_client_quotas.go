package handlers

import (
	"context"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// How a component of a DescribeClientQuotas matches the part of an entity.
const (
	quotaMatchName    kmsg.QuotasMatchType = 0
	quotaMatchDefault kmsg.QuotasMatchType = 1
	quotaMatchAny     kmsg.QuotasMatchType = 2
)

// quotaFilter is a DescribeClientQuotas: what each type that it names must be.
type quotaFilter struct {
	parts  map[string]quotaMatch
	strict bool // and the entity has no other type
}

type quotaMatch struct {
	any  bool // of this type, by name or as the default
	name metadata.QuotaName
}

// DescribeClientQuotas (key 48), versions 0–1: the quotas of the entities that match
// (KIP-546).
//
//	v1  flexible
func (h *Handlers) describeClientQuotas(_ context.Context, _ call, req *kmsg.DescribeClientQuotasRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.DescribeClientQuotasResponse)
	filter, err := newQuotaFilter(req)
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = kafkaerr.Code(err), kafkaerr.Message(err)
		return resp, nil
	}
	none := "" // where there is no error, Kafka says so with a text that is empty
	resp.ErrorMessage = &none
	resp.Entries = []kmsg.DescribeClientQuotasResponseEntry{}
	for entity, values := range h.image().Quotas() {
		if parts := quotaParts(entity); filter.matches(parts) {
			resp.Entries = append(resp.Entries, describedQuota(parts, values))
		}
	}
	return resp, nil
}

// newQuotaFilter follows Kafka's order of checks.
func newQuotaFilter(req *kmsg.DescribeClientQuotasRequest) (quotaFilter, error) {
	f := quotaFilter{parts: map[string]quotaMatch{}, strict: req.Strict}
	refuse := func(why string) (quotaFilter, error) { return f, kafkaerr.New(kafkaerr.InvalidRequest, why) }
	for _, c := range req.Components {
		if c.EntityType == "" {
			return refuse("a component names no type")
		}
		if _, again := f.parts[c.EntityType]; again {
			return refuse("the type " + c.EntityType + " is filtered more than once")
		}
		if c.EntityType != "user" && c.EntityType != "client-id" && c.EntityType != "ip" {
			return f, kafkaerr.New(kafkaerr.UnsupportedVersion, "there are no quotas for the type "+c.EntityType)
		}
		switch {
		case c.MatchType == quotaMatchName && c.Match == nil:
			return refuse("a component matches a name and gives none")
		case c.MatchType == quotaMatchName:
			f.parts[c.EntityType] = quotaMatch{name: metadata.QuotaFor(*c.Match)}
		case c.MatchType != quotaMatchDefault && c.MatchType != quotaMatchAny:
			return refuse("there is no such match type")
		case c.Match != nil:
			return refuse("a component matches no name and gives one")
		default:
			f.parts[c.EntityType] = quotaMatch{any: c.MatchType == quotaMatchAny, name: metadata.QuotaForDefault()}
		}
	}
	if _, address := f.parts["ip"]; address && len(f.parts) > 1 {
		return refuse("no entity has an address and something else")
	}
	return f, nil
}

// quotaPart is one part of an entity, as requests and answers name it.
type quotaPart struct {
	kind string
	name metadata.QuotaName
}

func quotaParts(e metadata.QuotaEntity) (parts []quotaPart) {
	for _, p := range [...]quotaPart{{"client-id", e.ClientID}, {"user", e.User}, {"ip", e.IP}} {
		if p.name.Kind != metadata.QuotaNotGiven {
			parts = append(parts, p)
		}
	}
	return parts
}

func (f *quotaFilter) matches(parts []quotaPart) bool {
	matched := 0
	for _, p := range parts {
		want, named := f.parts[p.kind]
		switch {
		case named && (want.any || want.name == p.name):
			matched++
		case named || f.strict:
			return false
		}
	}
	return matched == len(f.parts)
}

func describedQuota(parts []quotaPart, values map[string]float64) kmsg.DescribeClientQuotasResponseEntry {
	entry := kmsg.NewDescribeClientQuotasResponseEntry()
	for _, p := range parts {
		part := kmsg.NewDescribeClientQuotasResponseEntryEntity()
		part.Type = p.kind
		if p.name.Kind == metadata.QuotaNamed {
			part.Name = &p.name.Name
		}
		entry.Entity = append(entry.Entity, part)
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		value := kmsg.NewDescribeClientQuotasResponseEntryValue()
		value.Key, value.Value = key, values[key]
		entry.Values = append(entry.Values, value)
	}
	return entry
}
