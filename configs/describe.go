package configs

import (
	"maps"
	"slices"
)

// Described is one key as DescribeConfigs answers it (ConfigHelper).
type Described struct {
	Name      string
	Type      Type    // 0: nobody knows
	Value     *string // nil: there is none, or it is sensitive
	Source    Source
	Sensitive bool
	ReadOnly  bool
	Synonyms  []SynonymValue // without values where Sensitive
	Doc       string
}

// Describe lists every broker key with the value that this broker has, sorted by name. Keys
// of ours are left out, but for those that were set while it ran.
func (b *Broker) Describe() []Described {
	var list []Described
	for i := range listedKeys {
		if key := &listedKeys[i]; !key.Internal {
			list = append(list, b.describe(key))
		}
	}
	for _, set := range []map[string]string{b.dynamic.All, b.dynamic.Own} {
		for name := range set {
			if find(listedKeys, name) == nil && !slices.ContainsFunc(list, func(d Described) bool { return d.Name == name }) {
				text, _ := b.set(name)
				list = append(list, b.describeSet(name, text))
			}
		}
	}
	sortDescribed(list)
	return list
}

// DescribeDefaults lists what was set on all brokers, sorted by name.
func (b *Broker) DescribeDefaults() []Described {
	var list []Described
	for _, name := range slices.Sorted(maps.Keys(b.dynamic.All)) {
		d := b.describeSet(name, b.dynamic.All[name])
		d.Synonyms = slices.DeleteFunc(d.Synonyms, func(s SynonymValue) bool { return s.Source != SourceDynamicDefault })
		list = append(list, d.settled())
	}
	return list
}

func sortDescribed(list []Described) {
	slices.SortFunc(list, func(a, b Described) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
}

// describe is a key of the table.
func (b *Broker) describe(key *Key) Described {
	d := Described{Name: key.Name, Type: key.Type, Doc: key.Doc, Sensitive: key.Sensitive(), ReadOnly: !IsDynamic(key.Name)}
	d.Value = b.value(key)
	d.Synonyms = b.synonyms(key.Name, brokerSynonyms(key.Name))
	return d.settled()
}

// value is the canonical text of a key's value.
func (b *Broker) value(key *Key) *string {
	if value, ok := b.raw[key.Name]; ok {
		if key.Name == "broker.id" {
			value = b.NodeID
		}
		text := format(value)
		return &text
	}
	text, ok := b.set(key.Name)
	if !ok {
		if key.Unset {
			return nil
		}
		text = key.Default
	}
	if value, err := key.Parse(text); err == nil {
		text = format(value)
	}
	return &text
}

// describeSet is a key that was set while the broker ran; of a name that nobody knows
// neither type nor value are told: it may be a password.
func (b *Broker) describeSet(name, text string) Described {
	d := Described{Name: name, Sensitive: true, ReadOnly: !IsDynamic(name), Value: &text}
	if key := describedKey(withoutListener(name)); key != nil {
		d.Type, d.Sensitive, d.Doc = key.Type, key.Sensitive(), key.Doc
	}
	d.Synonyms = b.synonyms(name, brokerSynonyms(name))
	return d.settled()
}

// settled hides what must not be seen, and takes the source from the synonyms.
func (d Described) settled() Described {
	d.Source = SourceDefault
	if len(d.Synonyms) > 0 {
		d.Source = d.Synonyms[0].Source
	}
	if d.Sensitive {
		d.Value = nil
	}
	return d
}

// DescribeTopic lists every topic key with the value of a topic with these settings, sorted
// by name. durability is the cluster's.
func DescribeTopic(overrides map[string]string, broker *Broker, durability string) []Described {
	entries := EffectiveTopic(overrides, broker)
	list := make([]Described, 0, len(entries))
	for _, e := range entries {
		d := Described{
			Name: e.Key.Name, Type: e.Key.Type, Doc: e.Key.Doc, Sensitive: e.Key.Sensitive(),
			Value: e.Canonical, Synonyms: e.Synonyms,
		}
		if e.Key.Name == "durability" {
			d.describeDurability(durability)
		}
		list = append(list, d.settled())
	}
	return list
}

// describeDurability hides from Kafka's tools what they cannot know. A topic that has the
// cluster's durability has its default, although each topic has it in writing. It is
// described as read-only, so that who copies a topic to another broker, as MirrorMaker does,
// leaves it out.
func (d *Described) describeDurability(cluster string) {
	d.ReadOnly = true
	fallback := SynonymValue{d.Name, cluster, SourceDefault}
	if *d.Value == cluster {
		d.Synonyms = []SynonymValue{fallback}
	} else {
		d.Synonyms = []SynonymValue{{d.Name, *d.Value, SourceTopic}, fallback}
	}
}

// DescribeGroup lists every group key with the value of a group with these settings,
// internal ones only where they are set.
func DescribeGroup(overrides map[string]string, broker *Broker) []Described {
	var list []Described
	for i := range groupKeys {
		key := &groupKeys[i]
		own, set := overrides[key.Name]
		if key.Internal && !set {
			continue
		}
		d := Described{Name: key.Name, Type: key.Type, Doc: key.Doc, Sensitive: key.Sensitive()}
		d.Value, d.Synonyms = groupValue(key, broker)
		if set {
			d.Value = canonical(key, own)
			d.Synonyms = slices.Insert(d.Synonyms, 0, SynonymValue{key.Name, *d.Value, SourceGroup})
		}
		list = append(list, d.settled())
	}
	return list
}

// groupValue is what a group has that sets nothing: the value of the broker's key of the
// same meaning, if there is one.
func groupValue(key *Key, broker *Broker) (*string, []SynonymValue) {
	if len(key.Synonyms) == 0 {
		if key.Unset {
			return nil, nil
		}
		text := key.Default
		return &text, []SynonymValue{{key.Name, text, SourceDefault}}
	}
	name := key.Synonyms[0].Name
	list := broker.synonyms(name, []string{name})
	if len(list) == 0 {
		return canonical(key, key.Default), nil
	}
	text := list[0].Value
	if own := describedKey(name); own != nil && own.Type == List && key.Type != List {
		text = splitList(text)[0] // the first of the assignors
	}
	return canonical(key, text), list
}

func canonical(key *Key, text string) *string {
	if value, err := key.Parse(text); err == nil {
		text = format(value)
	}
	return &text
}

// DescribeClientMetrics lists the keys of a subscription to clients' metrics.
func DescribeClientMetrics(overrides map[string]string) []Described {
	var list []Described
	for _, key := range ClientMetricsKeys() {
		d := Described{Name: key.Name, Type: key.Type, Doc: key.Doc}
		d.Value = canonical(&key, key.Default)
		if own, set := overrides[key.Name]; set {
			d.Value = canonical(&key, own)
			d.Synonyms = []SynonymValue{{key.Name, *d.Value, SourceClientMetrics}}
		}
		list = append(list, d.settled())
	}
	return list
}
