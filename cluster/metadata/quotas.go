package metadata

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"strings"
)

// QuotaEntity is whom a client quota is for: users, clients by their id, both together,
// or addresses alone. At least one part is given.
type QuotaEntity struct {
	User, ClientID, IP QuotaName
}

// QuotaName is one part of a QuotaEntity. The zero value: the part is not given.
type QuotaName struct {
	Kind QuotaNameKind
	Name string // of a QuotaNamed
}

// QuotaNameKind tells what a QuotaName stands for.
type QuotaNameKind int8

// Values of QuotaNameKind.
const (
	QuotaNotGiven QuotaNameKind = iota
	QuotaDefault                // everybody for whom there is no quota by name
	QuotaNamed
)

// QuotaFor names one user, client or address.
func QuotaFor(name string) QuotaName { return QuotaName{QuotaNamed, name} }

// QuotaForDefault stands for everybody who has no quota by name.
func QuotaForDefault() QuotaName { return QuotaName{Kind: QuotaDefault} }

// QuotaRecord sets or removes one quota of an entity.
type QuotaRecord struct {
	Entity QuotaEntity
	Key    string   // producer_byte_rate …
	Value  *float64 // nil: removed
}

// quotas are the values of one entity. Immutable once in an Image.
type quotas struct {
	entity QuotaEntity
	values map[string]float64
}

// Quota is what is set for an entity, by key; nil if nothing is.
func (i *Image) Quota(e QuotaEntity) map[string]float64 {
	q, _ := i.quotas.get(quotaKey(e))
	return q.get()
}

// Quotas yields every entity that has quotas: those of clients alone, of users, of users
// with clients and of addresses, each by name.
func (i *Image) Quotas() iter.Seq2[QuotaEntity, map[string]float64] {
	return func(yield func(QuotaEntity, map[string]float64) bool) {
		for q := range i.quotas.all() {
			if !yield(q.entity, q.values) {
				return
			}
		}
	}
}

func (q *quotas) get() map[string]float64 {
	if q == nil {
		return nil
	}
	return q.values
}

// quotaKey is unique: no name reaches into the next part.
func quotaKey(e QuotaEntity) []byte {
	var b []byte
	for _, part := range []QuotaName{e.IP, e.User, e.ClientID} {
		b = append(b, byte(part.Kind))
		b = append(b, strings.ReplaceAll(part.Name, "\x00", "\x00\x01")...)
		b = append(b, 0, 0)
	}
	return b
}

func (d *Delta) changeQuota(r QuotaRecord) error {
	if err := r.check(); err != nil {
		return err
	}
	key := quotaKey(r.Entity)
	old, _ := d.draft.quotas.get(key)
	values := maps.Clone(old.get())
	if values == nil {
		values = map[string]float64{}
	}
	if r.Value == nil {
		delete(values, r.Key)
	} else {
		values[r.Key] = *r.Value
	}
	if len(values) == 0 {
		d.draft.quotas.remove(key)
	} else {
		d.draft.quotas.set(key, &quotas{r.Entity, values})
	}
	d.touched.quotas[r.Entity] = struct{}{}
	return nil
}

func (r *QuotaRecord) check() error {
	e := r.Entity
	for _, part := range []QuotaName{e.User, e.ClientID, e.IP} {
		if part.Kind < QuotaNotGiven || part.Kind > QuotaNamed || (part.Kind != QuotaNamed && part.Name != "") {
			return invalid("quota for %+v", e)
		}
	}
	clients, address := e.User.Kind != QuotaNotGiven || e.ClientID.Kind != QuotaNotGiven, e.IP.Kind != QuotaNotGiven
	if clients == address || r.Key == "" {
		return invalid("quota %q for %+v", r.Key, e)
	}
	return nil
}

// QuotaChange is the quotas of one entity before and after; nil where it has none.
type QuotaChange struct {
	Entity   QuotaEntity
	Old, New map[string]float64
}

// Quotas yields the entities whose quotas differ, in no order.
func (d *Delta) Quotas() iter.Seq[QuotaChange] {
	return func(yield func(QuotaChange) bool) {
		for e := range d.touched.quotas {
			c := QuotaChange{e, d.base.Quota(e), d.next.Quota(e)}
			if !equalQuotas(c.Old, c.New) && !yield(c) {
				return
			}
		}
	}
}

// equalQuotas takes a value that is no number as equal to itself.
func equalQuotas(a, b map[string]float64) bool {
	return maps.EqualFunc(a, b, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) })
}

func equalQuota(a, b *quotas) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	return a.entity == b.entity && equalQuotas(a.values, b.values)
}

// String is for logs: user=a client-id=<default>.
func (e QuotaEntity) String() string {
	var parts []string
	for _, p := range []struct {
		kind string
		name QuotaName
	}{{"user", e.User}, {"client-id", e.ClientID}, {"ip", e.IP}} {
		switch p.name.Kind {
		case QuotaNamed:
			parts = append(parts, fmt.Sprintf("%s=%q", p.kind, p.name.Name))
		case QuotaDefault:
			parts = append(parts, p.kind+"=<default>")
		case QuotaNotGiven:
		}
	}
	return cmp.Or(strings.Join(parts, " "), "nobody")
}
