package controller

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// maxRegistrationBytes bounds the record of a registration: names, hosts, directories.
const maxRegistrationBytes = 64 << 10

// addressKnowledge is what a probe found out about the address of an earlier incarnation.
type addressKnowledge int8

const (
	addressNotProbed addressKnowledge = iota
	addressRefuses                    // nobody listens there any more
	addressSilent                     // somebody may
)

// registerBroker decides a BrokerRegistration request (ClusterControlManager.registerBroker
// and D19, D20, D22 of docs/architecture.md).
//
// The same incarnation again amends its registration. A new incarnation of a registered
// broker replaces the old one at once if the old one's session has ended, if its address is
// the newcomer's own or if that address refuses connections. Otherwise two processes may
// be alive: DUPLICATE_BROKER_REGISTRATION until the session ends. probe is set when the
// answer depends on whether the address refuses; the request is then decided again.
//
// An address that is the newcomer's own may only be what it advertises, as that of a second
// node with the configuration of the first. Then the replaced process is alive and registers
// again: it gets its place back, and the other one has to wait as others do.
func (s *state) registerBroker(now time.Time, call Call, known addressKnowledge) (d decision, probe *metadata.Endpoint) {
	req := call.Request.(*kmsg.BrokerRegistrationRequest)
	refuse := func(err error) (decision, *metadata.Endpoint) {
		s.refused(now, "broker", req.BrokerID, err)
		return decision{response: ErrorResponse(req, err)}, nil
	}
	if req.ClusterID != s.image.ClusterID() {
		return refuse(kafkaerr.New(kafkaerr.InconsistentClusterID, fmt.Sprintf(
			"this is cluster %s, broker %d belongs to cluster %s", s.image.ClusterID(), req.BrokerID, req.ClusterID)))
	}
	b := registrationOf(req)
	old := s.image.Broker(b.ID)
	same := old != nil && old.IncarnationID == b.IncarnationID
	assumedDead := uuid.Zero
	if n := s.sessions[b.ID]; old != nil && !same && s.sessionValid(now, n) && n.replaced != b.IncarnationID {
		at, own := s.oldAddress(old, b)
		switch {
		case own && !n.contested:
			assumedDead = old.IncarnationID
		case known == addressRefuses:
		case known == addressNotProbed:
			return decision{}, at
		default:
			return refuse(kafkaerr.New(kafkaerr.DuplicateBrokerRegistration, fmt.Sprintf(
				"another process is registered as broker %d at %s:%d and may be alive; if it is not, its session ends within %s",
				b.ID, at.Host, at.Port, s.opts.SessionTimeout)))
		}
	}
	if err := s.checkRegistration(b); err != nil {
		return refuse(err)
	}
	if same {
		return s.amend(now, req, old, b), nil
	}
	d = s.register(now, req, old, b)
	s.sessions[b.ID].replaced = assumedDead
	return d, nil
}

// registrationOf gives the registration that a request asks for, still without epoch.
func registrationOf(req *kmsg.BrokerRegistrationRequest) *metadata.Broker {
	b := &metadata.Broker{
		ID: req.BrokerID, IncarnationID: req.IncarnationID, Rack: req.Rack, Fenced: true,
	}
	for _, d := range req.LogDirs {
		b.LogDirs = append(b.LogDirs, d)
	}
	for i := range req.Listeners {
		l := &req.Listeners[i]
		b.Listeners = append(b.Listeners, metadata.Endpoint{
			Name: l.Name, Host: l.Host, Port: int32(l.Port), SecurityProtocol: l.SecurityProtocol, Unadvertised: isUnadvertised(l),
		})
	}
	for _, f := range req.Features {
		b.Features = append(b.Features, metadata.Feature{Name: f.Name, Min: f.MinSupportedVersion, Max: f.MaxSupportedVersion})
	}
	return b
}

// checkRegistration is why a registration cannot be had, whoever else has the id.
func (s *state) checkRegistration(b *metadata.Broker) error {
	for _, check := range []func(*metadata.Broker) error{s.checkForm, s.checkDirectories, s.checkAddresses, s.checkFeatures} {
		if err := check(b); err != nil {
			return err
		}
	}
	return nil
}

func (s *state) checkForm(b *metadata.Broker) error {
	if b.ID < 0 || len(b.Listeners) == 0 || b.IncarnationID.IsZero() {
		return registrationError("broker %d: a registration needs an id, an incarnation id and listeners", b.ID)
	}
	size, err := metadata.EncodeRecord(metadata.RegisterBrokerRecord{Broker: *b}, s.image.Feature(metadata.FeatureMetadata))
	if err != nil {
		return registrationError("broker %d: %v", b.ID, err)
	}
	if len(size) > maxRegistrationBytes {
		return registrationError("broker %d: %d bytes of registration, at most %d", b.ID, len(size), maxRegistrationBytes)
	}
	return nil
}

// checkDirectories refuses a directory that is another broker's: its disk was copied.
func (s *state) checkDirectories(b *metadata.Broker) error {
	if len(b.LogDirs) == 0 {
		return registrationError("broker %d has no log directory", b.ID)
	}
	seen := map[uuid.UUID]bool{}
	for _, d := range b.LogDirs {
		switch {
		case d == uuid.DirMigrating || d == uuid.DirUnassigned || d == uuid.DirLost:
			return registrationError("directory id %s of broker %d is reserved", d, b.ID)
		case seen[d]:
			return registrationError("broker %d has two log directories with id %s", b.ID, d)
		}
		seen[d] = true
	}
	for other := range s.image.Brokers() {
		for _, d := range other.LogDirs {
			if other.ID != b.ID && seen[d] {
				return registrationError("directory id %s of broker %d is that of broker %d", d, b.ID, other.ID)
			}
		}
	}
	return nil
}

// checkAddresses refuses a second broker while a host is only a guess (D22): as long as
// there is one broker, it answers clients with the address they came in on; between two,
// an address must be known.
func (s *state) checkAddresses(b *metadata.Broker) error {
	for other := range s.image.Brokers() {
		if other.ID == b.ID {
			continue
		}
		for _, of := range []*metadata.Broker{b, other} {
			if l := unadvertised(of); l != nil {
				return registrationError(
					"brokers %d and %d cannot be one cluster: listener %s of broker %d listens on every address and has no advertised.listeners entry",
					b.ID, other.ID, l.Name, of.ID)
			}
		}
	}
	return nil
}

func unadvertised(b *metadata.Broker) *metadata.Endpoint {
	i := slices.IndexFunc(b.Listeners, func(l metadata.Endpoint) bool { return l.Unadvertised })
	if i < 0 {
		return nil
	}
	return &b.Listeners[i]
}

// checkFeatures refuses a broker that does not support the finalized level of a feature.
func (s *state) checkFeatures(b *metadata.Broker) error {
	ranges := make(map[string]metadata.Feature, len(b.Features))
	for _, f := range b.Features {
		ranges[f.Name] = f
	}
	if _, ok := ranges[metadata.FeatureMetadata]; !ok {
		return registrationError("broker %d does not name its levels of %s", b.ID, metadata.FeatureMetadata)
	}
	levels := make(map[string]int16, len(ranges)) // finalized; 0 for those only the broker knows
	for name := range ranges {
		levels[name] = 0
	}
	for _, f := range s.image.Features() {
		levels[f.Name] = f.Level
	}
	for name, level := range levels {
		if r := ranges[name]; level < r.Min || level > r.Max {
			return kafkaerr.New(kafkaerr.UnsupportedVersion, fmt.Sprintf(
				"the cluster is at %s %d, broker %d supports %d to %d", name, level, b.ID, r.Min, r.Max))
		}
	}
	return nil
}

func registrationError(format string, args ...any) error {
	return kafkaerr.New(kafkaerr.InvalidRegistration, fmt.Sprintf(format, args...))
}

// oldAddress gives where the earlier incarnation listened for other brokers; own tells
// that the newcomer listens there now, so the earlier one cannot.
func (s *state) oldAddress(old, b *metadata.Broker) (at *metadata.Endpoint, own bool) {
	at = s.brokerListener(old)
	own = slices.ContainsFunc(b.Listeners, func(l metadata.Endpoint) bool {
		return l.Host == at.Host && l.Port == at.Port && l.Name == at.Name
	})
	return at, own
}

// brokerListener is the listener that brokers use among themselves, else the first one.
func (s *state) brokerListener(b *metadata.Broker) *metadata.Endpoint {
	i := slices.IndexFunc(b.Listeners, func(l metadata.Endpoint) bool { return l.Name == s.opts.InterBrokerListener })
	return &b.Listeners[max(i, 0)]
}

// amend renews the registration of a live process: its epoch and state stay. A directory
// that it does not name any more has failed since, as if a heartbeat had said so.
func (s *state) amend(now time.Time, req *kmsg.BrokerRegistrationRequest, old, b *metadata.Broker) decision {
	b.Epoch, b.Fenced, b.InControlledShutdown = old.Epoch, old.Fenced, old.InControlledShutdown
	n := s.sessions[b.ID]
	n.contact, n.heard = now, true
	var failed [][16]byte
	for _, dir := range old.LogDirs {
		if !slices.Contains(b.LogDirs, dir) {
			failed = append(failed, dir)
		}
	}
	return decision{
		records:  append(s.directoriesOffline(old, failed), metadata.RegisterBrokerRecord{Broker: *b}),
		response: registered(req, b.Epoch),
	}
}

// register makes a new incarnation a member, fenced until its first heartbeat that has
// caught up with this registration.
//
// One decision fences the old incarnation, takes the newcomer out of the ISRs and ELRs
// where its copy no longer counts, raises the leader epoch of every partition that it still
// leads, and registers it. Epochs rise although the leader stays the same: the process that
// led before may have written records above what the newcomer has on disk, and followers
// may hold them. Two different logs must not carry one epoch.
func (s *state) register(now time.Time, req *kmsg.BrokerRegistrationRequest, old, b *metadata.Broker) decision {
	b.Epoch = s.newBrokerEpoch()
	var records []metadata.Record
	if old != nil && !old.Fenced {
		records = append(records, metadata.BrokerChangeRecord{ID: old.ID, Epoch: old.Epoch, Fenced: metadata.Ptr(true)})
	}
	clean := old != nil && req.PreviousBrokerEpoch == old.Epoch
	records = append(records, s.restartedReplicas(now, old, b, clean)...)
	leads := s.after(records, func(s *state) []metadata.Record {
		if s.leadsAny(b.ID) {
			return []metadata.Record{metadata.BumpLeaderEpochsRecord{BrokerID: b.ID}}
		}
		return nil
	})
	records = append(leads, metadata.RegisterBrokerRecord{Broker: *b})
	s.opts.Logger.Info("broker registers", "broker", b.ID, "epoch", b.Epoch, "incarnation", b.IncarnationID.String(),
		"previous", old != nil, "clean", clean, "records", len(records))

	n := &session{epoch: b.Epoch, contact: now, heard: true, position: -1, caughtUpAt: notCommitted, shutdownAt: -1}
	if was := s.sessions[b.ID]; old != nil && was.replaced == b.IncarnationID {
		n.contested = true
		s.opts.Logger.Error("two processes are alive as one broker: the one that came later is refused", "broker", b.ID,
			"incarnation", b.IncarnationID.String(), "refused", old.IncarnationID.String())
	} else if old != nil {
		n.contested = was.contested && s.sessionValid(now, was)
	}
	s.sessions[b.ID] = n
	return decision{
		records:   records,
		response:  registered(req, b.Epoch),
		committed: func(at metadata.Position) { n.caughtUpAt = int64(at.Index) },
	}
}

func registered(req *kmsg.BrokerRegistrationRequest, epoch int64) *kmsg.BrokerRegistrationResponse {
	resp := req.ResponseKind().(*kmsg.BrokerRegistrationResponse)
	resp.BrokerEpoch = epoch
	return resp
}

// restartedReplicas decides what a new incarnation's copies are still worth. By partition:
//
//	A  its directory is not there: see leaveWithDirectory.
//	B  a live member of ISR or ELR can lead: it leaves the ISR, and fetches what it may
//	   have lost from that one.
//	C  otherwise it stays what it is, if its disk has every record that was acknowledged:
//	   always with durability fsync, after a clean stop with replicated. What is left,
//	   an unclean stop with replicated, is as in Kafka: out of ISR and ELR, to lead again
//	   only as the last known leader.
func (s *state) restartedReplicas(now time.Time, old, b *metadata.Broker, clean bool) []metadata.Record {
	var records []metadata.Record
	for tp := range s.partitions(func(p *metadata.Partition) bool {
		return slices.Contains(p.ISR, b.ID) || slices.Contains(p.ELR, b.ID) || slices.Contains(p.LastKnownELR, b.ID)
	}) {
		p := tp.partition
		acceptable := func(r int32) bool { return r != b.ID && s.mayLead(tp, r) }
		var record metadata.PartitionChangeRecord
		var changed bool
		switch {
		case directoryGone(old, b, directoryOf(p, b.ID)): // case A
			record, changed = changeRecord(tp.topic.ID, p, s.leaveWithDirectory(tp, b.ID, clean, acceptable))
		case !s.keepsRecords(tp.topic.Name, clean): // cases B and C
			record, changed = changeRecord(tp.topic.ID, p, s.change(tp, acceptable).lost(b.ID).build())
		case slices.Contains(p.ISR, b.ID): // cases B and C
			record, changed = s.handOver(tp, b.ID, func(r int32) bool { return acceptable(r) && s.isHeard(now, r) })
		}
		if changed {
			records = append(records, record)
		}
	}
	return records
}

// leaveWithDirectory takes a replica out of ISR and ELR whose directory was not registered:
// an empty copy must not make others truncate theirs (D19).
//
// If then nobody can lead, the directory may hold the only copy of what was acknowledged,
// and may only have failed to be mounted. So the replica stays eligible, or the last known
// leader where it may lack records, and leads again when its directory is back. No other
// copy can pass for that one meanwhile: a replica leads from the directory only that it is
// assigned to. One whose directory was never told has nothing to be recognised by.
func (s *state) leaveWithDirectory(tp topicPartition, broker int32, clean bool, acceptable func(int32) bool) *metadata.Partition {
	next := s.change(tp, acceptable).gone(broker).build()
	switch {
	case next.Leader >= 0 || !isAssigned(directoryOf(tp.partition, broker)):
		return next
	case s.keepsRecords(tp.topic.Name, clean):
		return s.change(tp, acceptable).without(broker).build()
	default:
		return s.change(tp, acceptable).lost(broker).build()
	}
}

// keepsRecords reports whether a restarted broker still has every record that a topic
// has acknowledged.
func (s *state) keepsRecords(topic string, clean bool) bool {
	durability := s.image.Durability()
	if d, err := metadata.ParseDurability(strings.TrimSpace(s.image.Config(topicResource(topic))[durabilityKey])); err == nil {
		durability = d
	}
	return clean || durability == metadata.DurabilityFsync
}

// directoryGone reports whether the directory of a replica is not among the newcomer's.
// A replica whose directory was never told may have been in any of the old ones.
func directoryGone(old, b *metadata.Broker, dir uuid.UUID) bool {
	if isAssigned(dir) {
		return !b.HasOnlineDir(dir)
	}
	return old == nil || slices.ContainsFunc(old.LogDirs, func(d uuid.UUID) bool { return !slices.Contains(b.LogDirs, d) })
}

func isAssigned(dir uuid.UUID) bool { return dir != uuid.DirUnassigned && dir != uuid.DirMigrating }
