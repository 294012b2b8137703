package metadata

import (
	"bytes"
	"errors"
	"maps"
	"math"
	"testing"
)

func TestQuotasOfEntities(t *testing.T) {
	user, both := QuotaEntity{User: QuotaFor("a")}, QuotaEntity{User: QuotaForDefault(), ClientID: QuotaFor("a")}
	address := QuotaEntity{IP: QuotaFor("::1")}
	d := NewDelta(nil)
	err := d.ReplayAll(
		QuotaRecord{user, "producer_byte_rate", Ptr(1.0)}, QuotaRecord{user, "consumer_byte_rate", Ptr(math.NaN())},
		QuotaRecord{both, "request_percentage", Ptr(0.5)}, QuotaRecord{address, "connection_creation_rate", Ptr(3.0)},
	)
	if err != nil {
		t.Fatal(err)
	}
	first := d.Image(Position{Index: 1})
	if got := first.Quota(user); len(got) != 2 || got["producer_byte_rate"] != 1 {
		t.Errorf("%v", got)
	}
	n := 0
	for range first.Quotas() {
		n++
	}
	if n != 3 {
		t.Errorf("%d entities", n)
	}

	next := NewDelta(first)
	err = next.ReplayAll(
		QuotaRecord{user, "producer_byte_rate", Ptr(2.0)}, QuotaRecord{user, "consumer_byte_rate", nil},
		QuotaRecord{address, "connection_creation_rate", nil},
		QuotaRecord{both, "request_percentage", Ptr(0.7)}, QuotaRecord{both, "request_percentage", Ptr(0.5)}, // as it was
	)
	if err != nil {
		t.Fatal(err)
	}
	second := next.Image(Position{Index: 2})
	if !maps.Equal(second.Quota(user), map[string]float64{"producer_byte_rate": 2}) || second.Quota(address) != nil {
		t.Errorf("%v %v", second.Quota(user), second.Quota(address))
	}
	for _, delta := range []*Delta{next, Between(first, second)} {
		changes := map[QuotaEntity]QuotaChange{}
		for c := range delta.Quotas() {
			changes[c.Entity] = c
		}
		if len(changes) != 2 || changes[address].New != nil || changes[user].New["producer_byte_rate"] != 2 {
			t.Errorf("%v", changes)
		}
	}
}

// No two entities are taken for one, whatever they are called.
func TestQuotaKeysDiffer(t *testing.T) {
	seen := map[string]QuotaEntity{}
	names := []QuotaName{{}, QuotaForDefault(), QuotaFor(""), QuotaFor("a"), QuotaFor("\x00"), QuotaFor("\x00\x00"), QuotaFor("\x00\x01"), QuotaFor("a\x00\x00\x02")}
	for _, user := range names {
		for _, client := range names {
			e := QuotaEntity{User: user, ClientID: client}
			if other, taken := seen[string(quotaKey(e))]; taken {
				t.Errorf("%v and %v", e, other)
			}
			seen[string(quotaKey(e))] = e
		}
	}
}

func TestQuotaRecordsThatDoNotFit(t *testing.T) {
	for _, r := range []QuotaRecord{
		{QuotaEntity{}, "k", Ptr(1.0)},
		{QuotaEntity{User: QuotaFor("a")}, "", Ptr(1.0)},
		{QuotaEntity{User: QuotaFor("a"), IP: QuotaFor("::1")}, "k", Ptr(1.0)},
		{QuotaEntity{User: QuotaName{Kind: 3}}, "k", Ptr(1.0)},
		{QuotaEntity{User: QuotaName{Name: "a"}, ClientID: QuotaFor("b")}, "k", Ptr(1.0)},
	} {
		if err := NewDelta(nil).Replay(r); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

func TestQuotasSurviveASnapshot(t *testing.T) {
	d := NewDelta(nil)
	for _, e := range []QuotaEntity{{User: QuotaFor("a")}, {ClientID: QuotaForDefault()}, {IP: QuotaForDefault()}} {
		if err := d.ReplayAll(QuotaRecord{e, "x", Ptr(math.Inf(1))}, QuotaRecord{e, "y", Ptr(1.5)}); err != nil {
			t.Fatal(err)
		}
	}
	image := d.Image(Position{Index: 7})
	var b bytes.Buffer
	if err := WriteSnapshot(&b, Snapshot{Image: image}); err != nil {
		t.Fatal(err)
	}
	read, err := ReadSnapshot(&b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := DiffImages(image, read.Image); diff != "" {
		t.Error(diff)
	}
}
