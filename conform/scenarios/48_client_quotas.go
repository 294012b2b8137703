package scenarios

import (
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func clientQuotas() []conform.Scenario {
	return []conform.Scenario{
		{Name: "clientquotas/set-and-describe", Key: 49, Needs: []int16{48}, Run: quotasSetAndDescribe},
		{Name: "clientquotas/keys-and-values", Key: 49, Run: quotasKeysAndValues},
		{Name: "clientquotas/entities", Key: 49, Run: quotasEntities},
		{Name: "clientquotas/several", Key: 49, Needs: []int16{48}, Run: quotasSeveral},
		{Name: "clientquotas/filters", Key: 48, Run: quotasFilters},
		{Name: "clientquotas/defaults", Key: 49, Needs: []int16{48}, Invasive: true, Alone: true, Run: quotasDefaults},
	}
}

// part is one part of an entity; a nil name is the default of its type.
type part struct {
	kind string
	name *string
}

type quotaOp = kmsg.AlterClientQuotasRequestEntryOp

func setQuota(key string, value float64) quotaOp { return quotaOp{Key: key, Value: value} }
func removeQuota(key string) quotaOp             { return quotaOp{Key: key, Remove: true} }

// quotas is an AlterClientQuotas of one entity.
func quotas(version int16, parts []part, ops ...quotaOp) *kmsg.AlterClientQuotasRequest {
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.Version = version
	entry := kmsg.NewAlterClientQuotasRequestEntry()
	entry.Ops = ops
	for _, p := range parts {
		e := kmsg.NewAlterClientQuotasRequestEntryEntity()
		e.Type, e.Name = p.kind, p.name
		entry.Entity = append(entry.Entity, e)
	}
	req.Entries = append(req.Entries, entry)
	return req
}

func quotasOnlyAsk(version int16, parts []part, ops ...quotaOp) *kmsg.AlterClientQuotasRequest {
	req := quotas(version, parts, ops...)
	req.ValidateOnly = true
	return req
}

// filter is one component of a DescribeClientQuotas: 0 a name, 1 the default, 2 any.
type filter struct {
	kind  string
	how   kmsg.QuotasMatchType
	match *string
}

func quotasOf(version int16, strict bool, filters ...filter) *kmsg.DescribeClientQuotasRequest {
	req := kmsg.NewPtrDescribeClientQuotasRequest()
	req.Version, req.Strict = version, strict
	for _, f := range filters {
		c := kmsg.NewDescribeClientQuotasRequestComponent()
		c.EntityType, c.MatchType, c.Match = f.kind, f.how, f.match
		req.Components = append(req.Components, c)
	}
	return req
}

// awaitQuotas waits until a filter finds so many entities.
func awaitQuotas(r *conform.R, n int, filters ...filter) {
	ask := func() kmsg.Request { return quotasOf(1, true, filters...) }
	r.Until(fmt.Sprintf("%d quotas", n), ask, func(resp kmsg.Response) bool {
		return len(resp.(*kmsg.DescribeClientQuotasResponse).Entries) == n
	})
}

func quotasSetAndDescribe(r *conform.R) {
	user, client := r.Name("user"), r.Name("client")
	for _, v := range conform.Versions(49) {
		for _, e := range []struct {
			title   string
			parts   []part
			filters []filter
			key     string
		}{
			{"user", []part{{"user", &user}}, []filter{{"user", 0, &user}}, "producer_byte_rate"},
			{"client", []part{{"client-id", &client}}, []filter{{"client-id", 0, &client}}, "consumer_byte_rate"},
			{"user and client", []part{{"user", &user}, {"client-id", &client}}, []filter{{"user", 0, &user}, {"client-id", 0, &client}}, "request_percentage"},
			{"client and user", []part{{"client-id", &client}, {"user", &user}}, []filter{{"user", 0, &user}, {"client-id", 0, &client}}, "controller_mutation_rate"},
			{"user and any client", []part{{"user", &user}, {"client-id", nil}}, []filter{{"user", 0, &user}, {"client-id", 1, nil}}, "producer_byte_rate"},
			{"address", []part{{"ip", of("203.0.113.7")}}, []filter{{"ip", 0, of("203.0.113.7")}}, "connection_creation_rate"},
		} {
			r.Send(label(v, "%s: only validated", e.title), quotasOnlyAsk(v, e.parts, setQuota(e.key, 1000)))
			r.Send(label(v, "%s: set", e.title), quotas(v, e.parts, setQuota(e.key, 1000)))
			awaitQuotas(r, 1, e.filters...)
			r.Send(label(v, "%s: describe", e.title), quotasOf(v, true, e.filters...))
			r.Send(label(v, "%s: set to the same", e.title), quotas(v, e.parts, setQuota(e.key, 1000)))
			r.Send(label(v, "%s: remove", e.title), quotas(v, e.parts, removeQuota(e.key)))
			awaitQuotas(r, 0, e.filters...)
			r.Send(label(v, "%s: remove again", e.title), quotas(v, e.parts, removeQuota(e.key)))
			r.Send(label(v, "%s: describe none", e.title), quotasOf(v, true, e.filters...))
		}
	}
}

func quotasKeysAndValues(r *conform.R) {
	user := []part{{"user", of(r.Name("user"))}}
	address := []part{{"ip", of("203.0.113.8")}}
	values := []float64{1, 0, -1, 0.5, 1.5, 1e-9, 1000.0000001, math.MaxInt32, math.MaxInt64, 1e19, math.MaxFloat64, math.Inf(1), math.Inf(-1), math.NaN()}
	for _, key := range []string{
		"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate", "connection_creation_rate", "no_such", "", "SCRAM-SHA-256",
	} {
		for _, value := range values {
			r.Send(fmt.Sprintf("user's %s = %g", key, value), quotasOnlyAsk(1, user, setQuota(key, value)))
		}
		r.Send(fmt.Sprintf("address's %s = 1", key), quotasOnlyAsk(1, address, setQuota(key, 1)))
		r.Send(fmt.Sprintf("user's %s removed", key), quotasOnlyAsk(1, user, removeQuota(key)))
	}
	for _, value := range values {
		r.Send(fmt.Sprintf("address's rate = %g", value), quotasOnlyAsk(1, address, setQuota("connection_creation_rate", value)))
	}
	r.Send("a key twice", quotasOnlyAsk(1, user, setQuota("producer_byte_rate", 1), setQuota("producer_byte_rate", 2)))
	r.Send("a key set and removed", quotasOnlyAsk(1, user, setQuota("producer_byte_rate", 1), removeQuota("producer_byte_rate")))
	r.Send("a good and a bad key", quotasOnlyAsk(1, user, setQuota("producer_byte_rate", 1), setQuota("no_such", 2)))
	r.Send("removed with a value", quotasOnlyAsk(1, user, quotaOp{Key: "producer_byte_rate", Value: 7, Remove: true}))
	r.Send("no operations", quotasOnlyAsk(1, user))
}

func quotasEntities(r *conform.R) {
	one := setQuota("producer_byte_rate", 1)
	rate := setQuota("connection_creation_rate", 1)
	for _, v := range conform.Versions(49) {
		for _, c := range []struct {
			title string
			parts []part
			op    quotaOp
		}{
			{"none", nil, one},
			{"unknown type", []part{{"group", of("x")}}, one},
			{"empty type", []part{{"", of("x")}}, one},
			{"type of other case", []part{{"User", of("x")}}, one},
			{"empty user", []part{{"user", of("")}}, one},
			{"empty client", []part{{"client-id", of("")}}, one},
			{"client id of any kind", []part{{"client-id", of("a b/ä\x00")}}, one},
			{"user twice", []part{{"user", of("x")}, {"user", of("y")}}, one},
			{"user and address", []part{{"user", of("x")}, {"ip", of("203.0.113.9")}}, one},
			{"client and address", []part{{"client-id", of("x")}, {"ip", of("203.0.113.9")}}, rate},
			{"address, key of users", []part{{"ip", of("203.0.113.9")}}, one},
			{"user, key of addresses", []part{{"user", of("x")}}, rate},
			{"address of version 6", []part{{"ip", of("2001:db8::1")}}, rate},
			{"address that is none", []part{{"ip", of("300.1.1.1")}}, rate},
			{"empty address", []part{{"ip", of("")}}, rate},
			{"default user", []part{{"user", nil}}, one},
			{"default of both", []part{{"user", nil}, {"client-id", nil}}, one},
			{"default address", []part{{"ip", nil}}, rate},
			{"known and unknown type", []part{{"user", of("x")}, {"group", of("y")}}, one},
		} {
			r.Send(label(v, "%s", c.title), quotasOnlyAsk(v, c.parts, c.op))
		}
	}
	tagged := quotasOnlyAsk(1, []part{{"user", of("x")}}, one)
	unknownTags(&tagged.UnknownTags)
	unknownTags(&tagged.Entries[0].UnknownTags)
	unknownTags(&tagged.Entries[0].Entity[0].UnknownTags)
	unknownTags(&tagged.Entries[0].Ops[0].UnknownTags)
	r.Send("unknown tags", tagged)
}

func quotasSeveral(r *conform.R) {
	a, b := []part{{"user", of(r.Name("a"))}}, []part{{"user", of(r.Name("b"))}}
	one := setQuota("producer_byte_rate", 1)
	join := func(reqs ...*kmsg.AlterClientQuotasRequest) *kmsg.AlterClientQuotasRequest {
		for _, other := range reqs[1:] {
			reqs[0].Entries = append(reqs[0].Entries, other.Entries...)
		}
		return reqs[0]
	}
	for _, v := range conform.Versions(49) {
		r.Send(label(v, "good and bad"), join(quotas(v, a, one), quotas(v, b, setQuota("no_such", 1))))
		awaitQuotas(r, 1, filter{"user", 0, of(r.Name("a"))})
		r.Send(label(v, "the same entity twice"), join(quotas(v, a, setQuota("producer_byte_rate", 2)), quotas(v, a, setQuota("consumer_byte_rate", 3))))
		r.Send(label(v, "what is there of b"), quotasOf(v, false, filter{"user", 0, of(r.Name("b"))}))
		r.Quiet(quotas(v, b, setQuota("consumer_byte_rate", 1))) // when it is there, so is what was sent before
		awaitQuotas(r, 1, filter{"user", 0, of(r.Name("b"))})
		r.Send(label(v, "what is there of a"), quotasOf(v, false, filter{"user", 0, of(r.Name("a"))}))
		r.Send(label(v, "remove"), quotas(v, a, removeQuota("producer_byte_rate"), removeQuota("consumer_byte_rate")))
		r.Quiet(quotas(v, b, removeQuota("consumer_byte_rate")))
		awaitQuotas(r, 0, filter{"user", 0, of(r.Name("b"))})
		none := quotas(v, a)
		none.Entries = nil
		r.Send(label(v, "none"), none)
	}
}

func quotasFilters(r *conform.R) {
	nobody := of(r.Name("nobody"))
	for _, v := range conform.Versions(48) {
		for _, c := range []struct {
			title   string
			filters []filter
		}{
			{"nobody", []filter{{"user", 0, nobody}}},
			{"nobody's clients", []filter{{"user", 0, nobody}, {"client-id", 2, nil}}},
			{"exact without a name", []filter{{"user", 0, nil}}},
			{"default with a name", []filter{{"user", 1, nobody}, {"client-id", 0, nobody}}},
			{"any with a name", []filter{{"user", 2, nobody}, {"client-id", 0, nobody}}},
			{"match type 3", []filter{{"user", 3, nobody}}},
			{"match type -1", []filter{{"user", -1, nobody}}},
			{"unknown type", []filter{{"group", 0, nobody}}},
			{"empty type", []filter{{"", 0, nobody}}},
			{"user twice", []filter{{"user", 0, nobody}, {"user", 0, nobody}}},
			{"address and user", []filter{{"ip", 0, of("203.0.113.10")}, {"user", 0, nobody}}},
			{"address and client", []filter{{"ip", 2, nil}, {"client-id", 0, nobody}}},
			{"unknown address", []filter{{"ip", 0, of("203.0.113.10")}}},
			{"no address", []filter{{"ip", 0, of("x y")}}},
			{"empty user", []filter{{"user", 0, of("")}}},
		} {
			r.Send(label(v, "%s", c.title), quotasOf(v, false, c.filters...))
			r.Send(label(v, "%s, strict", c.title), quotasOf(v, true, c.filters...))
		}
		r.Send(label(v, "none, strict"), quotasOf(v, true))
	}
	tagged := quotasOf(1, true, filter{"user", 0, nobody})
	unknownTags(&tagged.UnknownTags)
	unknownTags(&tagged.Components[0].UnknownTags)
	r.Send("unknown tags", tagged)
}

// quotasDefaults sets the defaults of users and clients so high that they bind no one,
// and removes them.
func quotasDefaults(r *conform.R) {
	for _, e := range []struct {
		title   string
		parts   []part
		filters []filter
		key     string
	}{
		{"user", []part{{"user", nil}}, []filter{{"user", 1, nil}}, "producer_byte_rate"},
		{"client", []part{{"client-id", nil}}, []filter{{"client-id", 1, nil}}, "producer_byte_rate"},
		{"both", []part{{"user", nil}, {"client-id", nil}}, []filter{{"user", 1, nil}, {"client-id", 1, nil}}, "producer_byte_rate"},
		{"address", []part{{"ip", nil}}, []filter{{"ip", 1, nil}}, "connection_creation_rate"},
	} {
		r.Send(e.title+": before", quotasOf(1, true, e.filters...))
		r.Send(e.title+": set", quotas(1, e.parts, setQuota(e.key, 1e9)))
		awaitQuotas(r, 1, e.filters...)
		r.Send(e.title+": describe", quotasOf(1, true, e.filters...))
		r.Send(e.title+": remove", quotas(1, e.parts, removeQuota(e.key)))
		awaitQuotas(r, 0, e.filters...)
	}
}
