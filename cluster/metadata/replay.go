package metadata

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/klamm-mq/klamm/protocol/uuid"
)

// imageDraft is an image that is being changed.
type imageDraft struct {
	image *Image // scalar fields, private to this draft

	brokers      draft[*Broker]
	controllers  draft[*Controller]
	topicsByID   draft[*Topic]
	topicsByName draft[*Topic]
	configs      draft[*settings]
	quotas       draft[*quotas]

	// owned are the topics whose partition list no image shares yet.
	owned map[uuid.UUID]*Topic

	// lone is the last configuration of one key that was made. It is never changed.
	lone map[string]string

	records int              // replayed so far
	bracket transactionState // where a group of entries (D25) stands
}

type transactionState int

const (
	noTransaction transactionState = iota
	transactionOpen
	transactionOver // ended or aborted; nothing may follow
)

func newDraft(base *Image) *imageDraft {
	image := *base
	return &imageDraft{
		image:        &image,
		brokers:      base.brokers.edit(),
		controllers:  base.controllers.edit(),
		topicsByID:   base.topicsByID.edit(),
		topicsByName: base.topicsByName.edit(),
		configs:      base.configs.edit(),
		quotas:       base.quotas.edit(),
	}
}

// Image is the image with everything that was replayed, at position pos. It panics while
// a transaction is open.
func (d *Delta) Image(pos Position) *Image {
	if d.InTransaction() {
		panic("metadata: image in the middle of a transaction")
	}
	w := d.draft
	image := *w.image
	image.pos = pos
	image.brokers = w.brokers.freeze()
	image.controllers = w.controllers.freeze()
	image.topicsByID = w.topicsByID.freeze()
	image.topicsByName = w.topicsByName.freeze()
	image.configs = w.configs.freeze()
	image.quotas = w.quotas.freeze()
	w.owned = nil
	d.next = &image
	return d.next
}

// InTransaction tells that a BeginTransactionRecord was replayed and its end was not.
func (d *Delta) InTransaction() bool { return d.draft.bracket == transactionOpen }

// Replay applies a record. An error wraps ErrInvalid if the record does not fit, and
// ErrUnsupported if this code does not know what it means; the delta is then of no
// further use. Replaying depends on nothing but the image and the records.
func (d *Delta) Replay(r Record) error {
	if d.draft.bracket == transactionOver {
		return fmt.Errorf("%s record after the end of a transaction: %w", Name(r), ErrInvalid)
	}
	err := d.replay(r)
	if err != nil {
		return fmt.Errorf("replay %s record: %w", Name(r), err)
	}
	d.draft.records++
	return nil
}

// ReplayAll applies records in order and stops at the first error.
func (d *Delta) ReplayAll(records ...Record) error {
	for _, r := range records {
		if err := d.Replay(r); err != nil {
			return err
		}
	}
	return nil
}

func (d *Delta) replay(r Record) error {
	switch r := r.(type) {
	case NoOpRecord:
		return nil
	case BootstrapRecord:
		return d.bootstrap(r)
	case FeatureLevelRecord:
		return d.featureLevel(r.FeatureLevel)
	case RegisterBrokerRecord:
		return d.registerBroker(r)
	case RegisterControllerRecord:
		return d.registerController(r)
	case UnregisterBrokerRecord:
		return d.unregisterBroker(r)
	case BrokerChangeRecord:
		return d.changeBroker(r)
	case BumpLeaderEpochsRecord:
		return d.bumpLeaderEpochs(r)
	case TopicRecord:
		return d.createTopic(r)
	case RemoveTopicRecord:
		return d.removeTopic(r)
	case PartitionRecord:
		return d.createPartition(r)
	case PartitionChangeRecord:
		return d.changePartition(r)
	case ConfigRecord:
		return d.changeConfig(r)
	case QuotaRecord:
		return d.changeQuota(r)
	case ProducerIDsRecord:
		return d.takeProducerIDs(r)
	case BeginTransactionRecord:
		return d.begin()
	case EndTransactionRecord:
		return d.end()
	case AbortTransactionRecord:
		return d.abort()
	default:
		return fmt.Errorf("type %T: %w", r, ErrUnsupported)
	}
}

func invalid(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, ErrInvalid)...)
}

func (d *Delta) bootstrap(r BootstrapRecord) error {
	image := d.draft.image
	switch {
	case image.clusterID != "":
		return invalid("cluster %s exists already", image.clusterID)
	case r.ClusterID == "":
		return invalid("no cluster id")
	case r.Durability != DurabilityFsync && r.Durability != DurabilityReplicated:
		return invalid("durability %d", r.Durability)
	}
	image.clusterID, image.durability, image.forOne = r.ClusterID, r.Durability, r.ForOne
	for _, f := range r.Features {
		if err := d.featureLevel(f); err != nil {
			return err
		}
	}
	if image.Feature(FeatureMetadata) == 0 {
		return invalid("no level of %s", FeatureMetadata)
	}
	return nil
}

func (d *Delta) featureLevel(f FeatureLevel) error {
	image := d.draft.image
	switch {
	case f.Name == "" || f.Level < 0:
		return invalid("feature %q level %d", f.Name, f.Level)
	case f.Name == FeatureMetadata && f.Level < MinMetadataLevel:
		return invalid("%s %d, lowest is %d", f.Name, f.Level, MinMetadataLevel)
	case f.Name == FeatureMetadata && f.Level > MaxMetadataLevel:
		return fmt.Errorf("%s %d, known up to %d: %w", f.Name, f.Level, MaxMetadataLevel, ErrUnsupported)
	}
	n, found := slices.BinarySearchFunc(image.features, f.Name, compareFeature)
	features := slices.Clone(image.features)
	switch {
	case found && f.Level == 0:
		features = slices.Delete(features, n, n+1)
	case found:
		features[n] = f
	case f.Level > 0:
		features = slices.Insert(features, n, f)
	}
	image.features = features
	return nil
}

func (d *Delta) registerBroker(r RegisterBrokerRecord) error {
	if r.ID < 0 || r.Epoch < 0 {
		return invalid("broker %d epoch %d", r.ID, r.Epoch)
	}
	old, ok := d.draft.brokers.get(int32Key(r.ID))
	amended := ok && old.IncarnationID == r.IncarnationID && old.Epoch == r.Epoch
	if ok && !amended && old.Epoch >= r.Epoch {
		return invalid("broker %d has epoch %d, not below %d", r.ID, old.Epoch, r.Epoch)
	}
	d.setBroker(&r.Broker)
	return nil
}

// registerController has no epochs to compare: of two processes with one id the last one
// counts, as in Kafka.
func (d *Delta) registerController(r RegisterControllerRecord) error {
	if r.ID < 0 {
		return invalid("controller %d", r.ID)
	}
	d.draft.controllers.set(int32Key(r.ID), &r.Controller)
	d.touched.controllers[r.ID] = struct{}{}
	return nil
}

func (d *Delta) unregisterBroker(r UnregisterBrokerRecord) error {
	if _, err := d.broker(r.ID, r.Epoch); err != nil {
		return err
	}
	d.draft.brokers.remove(int32Key(r.ID))
	d.touched.brokers[r.ID] = struct{}{}
	return nil
}

func (d *Delta) changeBroker(r BrokerChangeRecord) error {
	old, err := d.broker(r.ID, r.Epoch)
	if err != nil {
		return err
	}
	b := *old
	set(&b.Fenced, r.Fenced)
	set(&b.InControlledShutdown, r.InControlledShutdown)
	setList(&b.LogDirs, r.LogDirs)
	d.setBroker(&b)
	return nil
}

func (d *Delta) broker(id int32, epoch int64) (*Broker, error) {
	b, ok := d.draft.brokers.get(int32Key(id))
	switch {
	case !ok:
		return nil, invalid("broker %d is not registered", id)
	case b.Epoch != epoch:
		return nil, invalid("broker %d has epoch %d, not %d", id, b.Epoch, epoch)
	default:
		return b, nil
	}
}

func (d *Delta) setBroker(b *Broker) {
	d.draft.brokers.set(int32Key(b.ID), b)
	d.touched.brokers[b.ID] = struct{}{}
}

// set assigns *v if it is given.
func set[T any](to *T, v *T) {
	if v != nil {
		*to = *v
	}
}

func (d *Delta) createTopic(r TopicRecord) error {
	w := d.draft
	if r.Name == "" || r.ID.IsZero() {
		return invalid("topic %q id %s", r.Name, r.ID)
	}
	if t, ok := w.topicsByName.get([]byte(r.Name)); ok {
		return invalid("topic %s exists with id %s", t.Name, t.ID)
	}
	if t, ok := w.topicsByID.get(r.ID[:]); ok {
		return invalid("topic id %s is that of %s", t.ID, t.Name)
	}
	d.setTopic(&Topic{Name: r.Name, ID: r.ID})
	return nil
}

func (d *Delta) removeTopic(r RemoveTopicRecord) error {
	w := d.draft
	t, ok := w.topicsByID.get(r.ID[:])
	if !ok {
		return invalid("no topic with id %s", r.ID)
	}
	w.topicsByID.remove(r.ID[:])
	w.topicsByName.remove([]byte(t.Name))
	delete(w.owned, r.ID)
	w.image.partitions -= len(t.Partitions)
	d.touched.topics[r.ID] = struct{}{}
	d.removeConfigs(Resource{TopicResource, t.Name})
	return nil
}

func (d *Delta) createPartition(r PartitionRecord) error {
	t, ok := d.draft.topicsByID.get(r.TopicID[:])
	switch {
	case !ok:
		return invalid("no topic with id %s", r.TopicID)
	case int(r.Index) != len(t.Partitions):
		return invalid("partition %d of %s, which has %d", r.Index, t.Name, len(t.Partitions))
	}
	if err := checkPartition(&r.Partition); err != nil {
		return err
	}
	t = d.own(t)
	t.Partitions = append(t.Partitions, &r.Partition)
	d.draft.image.partitions++
	return nil
}

func (d *Delta) changePartition(r PartitionChangeRecord) error {
	t, ok := d.draft.topicsByID.get(r.TopicID[:])
	if !ok {
		return invalid("no topic with id %s", r.TopicID)
	}
	old := t.Partition(r.Index)
	if old == nil {
		return invalid("partition %d of %s, which has %d", r.Index, t.Name, len(t.Partitions))
	}
	p := old.apply(r)
	if err := checkPartition(p); err != nil {
		return err
	}
	d.touched.elections.note(old, p)
	d.own(t).Partitions[r.Index] = p
	return nil
}

// apply gives the partition after a change.
func (p *Partition) apply(r PartitionChangeRecord) *Partition {
	n := *p
	setList(&n.Replicas, r.Replicas)
	setList(&n.Directories, r.Directories)
	setList(&n.ISR, r.ISR)
	setList(&n.AddingReplicas, r.AddingReplicas)
	setList(&n.RemovingReplicas, r.RemovingReplicas)
	setList(&n.ELR, r.ELR)
	setList(&n.LastKnownELR, r.LastKnownELR)
	set(&n.RecoveryState, r.RecoveryState)
	n.PartitionEpoch++
	if r.Leader != nil {
		n.Leader = *r.Leader
		n.LeaderEpoch++
	}
	return &n
}

// setList assigns v if it is given; an empty list becomes nil, so that equal partitions
// have equal bytes.
func setList[T any](to *[]T, v []T) {
	if v != nil {
		*to = v
	}
	if len(*to) == 0 {
		*to = nil
	}
}

// checkPartition refuses what no reader of an image could make sense of.
func checkPartition(p *Partition) error {
	switch {
	case len(p.Replicas) == 0:
		return invalid("partition %d without replicas", p.Index)
	case len(p.Directories) != len(p.Replicas):
		return invalid("partition %d has %d replicas and %d directories", p.Index, len(p.Replicas), len(p.Directories))
	case p.Leader != NoLeader && !slices.Contains(p.Replicas, p.Leader):
		return invalid("partition %d: leader %d is not among the replicas %v", p.Index, p.Leader, p.Replicas)
	case !subset(p.ISR, p.Replicas):
		return invalid("partition %d: ISR %v is not among the replicas %v", p.Index, p.ISR, p.Replicas)
	case p.LeaderEpoch < 0 || p.PartitionEpoch < 0:
		return invalid("partition %d: leader epoch %d, partition epoch %d", p.Index, p.LeaderEpoch, p.PartitionEpoch)
	default:
		return nil
	}
}

func subset(some, all []int32) bool {
	return !slices.ContainsFunc(some, func(id int32) bool { return !slices.Contains(all, id) })
}

func (d *Delta) bumpLeaderEpochs(r BumpLeaderEpochsRecord) error {
	var led []*Topic
	for t := range d.draft.topicsByID.all() {
		if slices.ContainsFunc(t.Partitions, func(p *Partition) bool { return p.Leader == r.BrokerID }) {
			led = append(led, t)
		}
	}
	for _, t := range led {
		t = d.own(t)
		for i, p := range t.Partitions {
			if p.Leader == r.BrokerID {
				t.Partitions[i] = p.apply(PartitionChangeRecord{Leader: &r.BrokerID})
			}
		}
	}
	return nil
}

// own gives a topic whose partition list may be changed: t itself, or a copy that takes
// its place.
func (d *Delta) own(t *Topic) *Topic {
	if d.draft.owned[t.ID] == t {
		return t
	}
	// With room for what is likely to follow: partitions are created one by one.
	c := &Topic{Name: t.Name, ID: t.ID, Partitions: slices.Grow(slices.Clone(t.Partitions), 1)}
	d.setTopic(c)
	return c
}

// setTopic puts in a topic that no image shares yet.
func (d *Delta) setTopic(t *Topic) {
	w := d.draft
	w.topicsByID.set(slices.Clone(t.ID[:]), t)
	w.topicsByName.set([]byte(t.Name), t)
	if w.owned == nil {
		w.owned = map[uuid.UUID]*Topic{}
	}
	w.owned[t.ID] = t
	d.touched.topics[t.ID] = struct{}{}
}

func (d *Delta) changeConfig(r ConfigRecord) error {
	switch r.Type {
	case TopicResource, BrokerResource, ClientMetricsResource, GroupResource:
	default:
		return invalid("resource type %d", r.Type)
	}
	if r.Key == "" {
		return invalid("configuration of %s without key", r.Name)
	}
	old, _ := d.draft.configs.get(resourceKey(r.Resource))
	values := d.draft.changed(old.get(), r.Key, r.Value)
	if len(values) == 0 {
		d.removeConfigs(r.Resource)
		return nil
	}
	d.draft.configs.set(resourceKey(r.Resource), &settings{r.Resource, values})
	d.touched.configs[r.Resource] = struct{}{}
	return nil
}

// changed is a copy of a configuration with one key set, or removed. New topics begin with the
// same key and value, and share the map.
func (w *imageDraft) changed(values map[string]string, key string, value *string) map[string]string {
	if len(values) == 0 && value != nil {
		if had, ok := w.lone[key]; !ok || had != *value {
			w.lone = map[string]string{key: *value}
		}
		return w.lone
	}
	values = maps.Clone(values)
	if value == nil {
		delete(values, key)
	} else {
		values[key] = *value
	}
	return values
}

func (d *Delta) removeConfigs(r Resource) {
	if _, ok := d.draft.configs.get(resourceKey(r)); ok {
		d.draft.configs.remove(resourceKey(r))
		d.touched.configs[r] = struct{}{}
	}
}

func (d *Delta) takeProducerIDs(r ProducerIDsRecord) error {
	image := d.draft.image
	if r.Next <= image.nextProducerID || r.Next == math.MaxInt64 {
		return invalid("next producer id %d after %d", r.Next, image.nextProducerID)
	}
	image.nextProducerID = r.Next
	return nil
}

func (d *Delta) begin() error {
	if d.draft.records > 0 {
		return invalid("not the first record of its entry")
	}
	d.draft.bracket = transactionOpen
	return nil
}

func (d *Delta) end() error {
	if !d.InTransaction() {
		return invalid("no transaction is open")
	}
	d.draft.bracket = transactionOver
	return nil
}

func (d *Delta) abort() error {
	if err := d.end(); err != nil {
		return err
	}
	d.draft = newDraft(d.base)
	d.draft.bracket = transactionOver
	d.touched = newTouched()
	return nil
}
