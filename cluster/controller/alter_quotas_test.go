package controller

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

type (
	quotaPart = kmsg.AlterClientQuotasRequestEntryEntity
	quotaOp   = kmsg.AlterClientQuotasRequestEntryOp
)

// quotaPartOf is one part of an entity; "<default>" has no name.
func quotaPartOf(kind, name string) quotaPart {
	if name == "<default>" {
		return quotaPart{Type: kind}
	}
	return quotaPart{Type: kind, Name: &name}
}

func quotaEntry(ops []quotaOp, parts ...quotaPart) kmsg.AlterClientQuotasRequestEntry {
	return kmsg.AlterClientQuotasRequestEntry{Entity: parts, Ops: ops}
}

func setQuota(key string, value float64) quotaOp { return quotaOp{Key: key, Value: value} }

// alter decides a request, applies it, and gives the codes answered.
func (w *world) alter(only bool, entries ...kmsg.AlterClientQuotasRequestEntry) (codes []int16) {
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.Entries, req.ValidateOnly = entries, only
	d := w.alterClientQuotas(Call{Request: req})
	w.apply(d.records)
	for _, e := range d.response.(*kmsg.AlterClientQuotasResponse).Entries {
		codes = append(codes, e.ErrorCode)
	}
	return codes
}

func (w *world) quotas() string {
	var b strings.Builder
	for e, values := range w.image.Quotas() {
		fmt.Fprintln(&b, e, values)
	}
	return b.String()
}

func TestAlterClientQuotas(t *testing.T) {
	w := newWorld()
	bad := kafkaerr.InvalidRequest.Code
	rate := []quotaOp{setQuota(quotaProducerBytes, 10)}
	a, b := quotaPartOf("user", "a"), quotaPartOf("client-id", "b")
	for i, c := range []struct {
		only    bool
		entries []kmsg.AlterClientQuotasRequestEntry
		codes   []int16
		want    string
	}{
		{true, []kmsg.AlterClientQuotasRequestEntry{quotaEntry(rate, a)}, []int16{0}, ""},
		{
			false,
			[]kmsg.AlterClientQuotasRequestEntry{quotaEntry(rate, a), quotaEntry(rate, b, a), quotaEntry([]quotaOp{setQuota("x", 1)}, b)},
			[]int16{0, 0, bad},
			"user=\"a\" map[producer_byte_rate:10]\nuser=\"a\" client-id=\"b\" map[producer_byte_rate:10]\n",
		},
		// The order of the parts says nothing, and an entity that comes again is refused.
		{false, []kmsg.AlterClientQuotasRequestEntry{
			quotaEntry([]quotaOp{setQuota(quotaProducerBytes, 20)}, a, b), quotaEntry([]quotaOp{setQuota(quotaConsumerBytes, 1)}, b, a),
		}, []int16{bad}, "user=\"a\" map[producer_byte_rate:10]\nuser=\"a\" client-id=\"b\" map[producer_byte_rate:20]\n"},
		{
			false,
			[]kmsg.AlterClientQuotasRequestEntry{quotaEntry([]quotaOp{{Key: quotaProducerBytes, Remove: true}, {Key: "never set", Remove: true}}, a)},
			[]int16{0},
			"user=\"a\" client-id=\"b\" map[producer_byte_rate:20]\n",
		},
		{false, []kmsg.AlterClientQuotasRequestEntry{quotaEntry([]quotaOp{{Key: quotaProducerBytes, Remove: true}}, b, a), quotaEntry(nil, a)}, []int16{0, 0}, ""},
		{false, nil, nil, ""},
	} {
		if codes := w.alter(c.only, c.entries...); !cmp.Equal(codes, c.codes) {
			t.Errorf("case %d: %v", i, codes)
		}
		if diff := cmp.Diff(c.want, w.quotas()); diff != "" {
			t.Errorf("case %d: %s", i, diff)
		}
	}
}

func TestEntitiesThatHaveNoQuotas(t *testing.T) {
	w := newWorld()
	clients, addresses := []quotaOp{setQuota(quotaProducerBytes, 1)}, []quotaOp{setQuota(quotaConnections, 1)}
	for _, c := range []struct {
		entry kmsg.AlterClientQuotasRequestEntry
		good  bool
	}{
		{quotaEntry(clients), false},
		{quotaEntry(clients, quotaPartOf("group", "x")), false},
		{quotaEntry(clients, quotaPartOf("User", "x")), false},
		{quotaEntry(clients, quotaPartOf("user", "")), false},
		{quotaEntry(clients, quotaPartOf("user", "\xff")), false},
		{quotaEntry(clients, quotaPartOf("user", "x"), quotaPartOf("ip", "::1")), false},
		{quotaEntry(clients, quotaPartOf("ip", "::1")), false},
		{quotaEntry(addresses, quotaPartOf("user", "x")), false},
		{quotaEntry(addresses, quotaPartOf("ip", "300.1.1.1")), false},
		{quotaEntry([]quotaOp{setQuota(quotaProducerBytes, 1), setQuota(quotaProducerBytes, 2)}, quotaPartOf("user", "x")), false},
		{quotaEntry(clients, quotaPartOf("user", "x"), quotaPartOf("user", "y")), true}, // the last one counts
		{quotaEntry(clients, quotaPartOf("user", "<default>"), quotaPartOf("client-id", "<default>")), true},
		{quotaEntry(addresses, quotaPartOf("ip", "<default>")), true},
		{quotaEntry(addresses, quotaPartOf("ip", "203.0.113.7")), true},
	} {
		if codes := w.alter(true, c.entry); (codes[0] == 0) != c.good {
			t.Errorf("%+v: %v", c.entry, codes)
		}
	}
}

func TestValuesOfQuotas(t *testing.T) {
	user, address := metadata.QuotaEntity{User: metadata.QuotaFor("a")}, metadata.QuotaEntity{IP: metadata.QuotaForDefault()}
	for _, c := range []struct {
		entity metadata.QuotaEntity
		key    string
		value  float64
		good   bool
	}{
		{user, quotaProducerBytes, 1, true},
		{user, quotaProducerBytes, 0, false},
		{user, quotaProducerBytes, 1.5, false},
		{user, quotaProducerBytes, 1.0000000001, true},
		{user, quotaConsumerBytes, math.MaxInt64, true},
		{user, quotaConsumerBytes, 1e19, false},
		{user, quotaRequestPercent, 0.01, true},
		{user, quotaRequestPercent, math.MaxFloat64, true},
		{user, quotaRequestPercent, math.Inf(1), false},
		{user, quotaProducerBytes, math.NaN(), false},
		{user, quotaMutations, -1, false},
		{user, "no such", 1, false},
		{address, quotaConnections, math.MaxInt32, true},
		{address, quotaConnections, math.MaxInt32 + 1, false},
		{address, quotaProducerBytes, 1, false},
	} {
		if err := checkQuota(c.entity, c.key, c.value); (err == nil) != c.good {
			t.Errorf("%s=%v for %v: %v", c.key, c.value, c.entity, err)
		}
	}
}
