package handlers

import (
	"container/list"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

const (
	// maxTelemetryClients bounds the clients that are remembered; beyond it the one that
	// was quiet for the longest time is forgotten (Kafka's ClientMetricsManager).
	maxTelemetryClients = 16384
	// telemetryInterval is the pause between two pushes if no subscription says less.
	telemetryInterval = 5 * time.Minute
	// minTelemetryMemory is for how long a quiet client is remembered at least; otherwise
	// for three of its intervals.
	minTelemetryMemory = time.Minute
	// allMetrics in a subscription stands for every metric.
	allMetrics = "*"
)

// telemetry remembers what clients asked and pushed (KIP-714): each has to keep its
// interval, and to push what it was told last. A client is forgotten with its connection.
// Safe for concurrent use.
type telemetry struct {
	mu      sync.Mutex
	clients map[uuid.UUID]*list.Element // of *telemetryState
	byUse   list.List                   // the one used last is in front

	image         *metadata.Image // that subscriptions were read from
	subscriptions []telemetrySubscription
	version       int // of subscriptions
}

func newTelemetry() *telemetry { return &telemetry{clients: map[uuid.UUID]*list.Element{}} }

// telemetryClient is who asks.
type telemetryClient struct {
	id         uuid.UUID
	connection context.Context // ends with the connection
	attributes map[string]string
}

// telemetryState is what is remembered of a client.
type telemetryState struct {
	id      uuid.UUID
	told    telemetryAnswer
	version int // of the subscriptions that told was made from
	expires time.Time
	unwatch func() bool // of the connection

	lastGet, lastPush time.Time
	terminating       bool
	lastError         error
}

// telemetryAnswer is what a client is told to push.
type telemetryAnswer struct {
	id       int32 // names metrics and interval
	metrics  []string
	interval time.Duration
}

// telemetrySubscription is the configuration of one client metrics resource.
type telemetrySubscription struct {
	values   map[string]string
	metrics  []string
	interval time.Duration
	match    map[string]*regexp.Regexp
}

// telemetryPush is what is checked of a PushTelemetry.
type telemetryPush struct {
	subscription int32
	terminating  bool
	compression  int8
	tooLarge     bool
}

func telemetryClientOf(ctx context.Context, c call, id uuid.UUID) telemetryClient {
	name, version := c.request.Conn.ClientSoftware()
	attributes := map[string]string{
		"client_instance_id": id.String(), "client_id": c.request.ClientID,
		"client_software_name": name, "client_software_version": version,
	}
	if c.request.Conn.Remote != nil {
		if host, port, err := net.SplitHostPort(c.request.Conn.Remote.String()); err == nil {
			attributes["client_source_address"], attributes["client_source_port"] = host, port
		}
	}
	return telemetryClient{id, ctx, attributes}
}

// get answers what a client shall push, THROTTLING_QUOTA_EXCEEDED if it asks before its
// interval is over without a reason.
func (t *telemetry) get(now time.Time, image *metadata.Image, client telemetryClient) (telemetryAnswer, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.state(now, image, client)
	last := s.lastGet
	if s.lastPush.After(last) {
		last = s.lastPush
	}
	switch {
	case now.Sub(last) >= s.told.interval:
		s.lastGet = now
	case errors.Is(s.lastError, kafkaerr.UnknownSubscriptionID), errors.Is(s.lastError, kafkaerr.UnsupportedCompressionType):
	default:
		return telemetryAnswer{}, kafkaerr.ThrottlingQuotaExceeded
	}
	s.lastError = nil
	return s.told, nil
}

// push checks what a client pushes. The first push after a get may come at any time, since
// clients draw the moment of it.
func (t *telemetry) push(now time.Time, image *metadata.Image, client telemetryClient, p telemetryPush) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.state(now, image, client)
	s.lastError = s.check(now, p)
	s.terminating = p.terminating
	return s.lastError
}

func (s *telemetryState) check(now time.Time, p telemetryPush) error {
	if s.terminating {
		return kafkaerr.InvalidRequest
	}
	inTime := s.lastGet.After(s.lastPush) || now.Sub(s.lastPush) >= s.told.interval
	if inTime {
		s.lastPush = now
	}
	switch {
	case !inTime && !p.terminating:
		return kafkaerr.ThrottlingQuotaExceeded
	case p.subscription != s.told.id:
		return kafkaerr.UnknownSubscriptionID
	case p.compression < 0 || p.compression > 4:
		return kafkaerr.UnsupportedCompressionType
	case p.tooLarge:
		return kafkaerr.TelemetryTooLarge
	default:
		return nil
	}
}

// state finds a client, or begins anew with one that is not known, was quiet for too long,
// or whose subscriptions have changed.
func (t *telemetry) state(now time.Time, image *metadata.Image, client telemetryClient) *telemetryState {
	t.refresh(image)
	e := t.clients[client.id]
	if e != nil {
		if s := e.Value.(*telemetryState); s.version != t.version || now.After(s.expires) {
			t.remove(e)
			e = nil
		}
	}
	if e == nil {
		e = t.add(client)
	}
	t.byUse.MoveToFront(e)
	s := e.Value.(*telemetryState)
	s.expires = now.Add(max(minTelemetryMemory, 3*s.told.interval))
	return s
}

func (t *telemetry) add(client telemetryClient) *list.Element {
	s := &telemetryState{id: client.id, told: t.tell(client), version: t.version}
	e := t.byUse.PushFront(s)
	t.clients[client.id] = e
	s.unwatch = context.AfterFunc(client.connection, func() { t.forget(e) })
	if len(t.clients) > maxTelemetryClients {
		t.remove(t.byUse.Back())
	}
	return e
}

// forget drops a client whose connection has closed.
func (t *telemetry) forget(e *list.Element) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.clients[e.Value.(*telemetryState).id] == e {
		t.remove(e)
	}
}

func (t *telemetry) remove(e *list.Element) {
	s := t.byUse.Remove(e).(*telemetryState)
	delete(t.clients, s.id)
	s.unwatch()
}

// tell puts the subscriptions that match a client together.
func (t *telemetry) tell(client telemetryClient) telemetryAnswer {
	told := telemetryAnswer{interval: telemetryInterval}
	for _, s := range t.subscriptions {
		if s.matches(client.attributes) {
			told.metrics = append(told.metrics, s.metrics...)
			told.interval = min(told.interval, s.interval)
		}
	}
	slices.Sort(told.metrics)
	told.metrics = slices.Compact(told.metrics)
	if slices.Contains(told.metrics, allMetrics) {
		told.metrics = []string{allMetrics}
	}
	text := "[" + strings.Join(told.metrics, ", ") + "]" + strconv.Itoa(int(told.interval/time.Millisecond))
	sum := crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli))
	half := binary.BigEndian.Uint64(client.id[:8]) ^ binary.BigEndian.Uint64(client.id[8:])
	told.id = int32(sum ^ uint32(half>>32) ^ uint32(half))
	return told
}

// refresh takes the subscriptions of a newer image.
func (t *telemetry) refresh(image *metadata.Image) {
	if image == t.image {
		return
	}
	t.image = image
	var next []telemetrySubscription
	for r, values := range image.Configs() {
		if r.Type == metadata.ClientMetricsResource {
			next = append(next, newTelemetrySubscription(values))
		}
	}
	same := slices.EqualFunc(t.subscriptions, next, func(a, b telemetrySubscription) bool { return maps.Equal(a.values, b.values) })
	if !same {
		t.subscriptions = next
		t.version++
	}
}

// newTelemetrySubscription reads values that were checked when they were set.
func newTelemetrySubscription(values map[string]string) telemetrySubscription {
	s := telemetrySubscription{values: values, interval: telemetryInterval, match: map[string]*regexp.Regexp{}}
	s.metrics = commaSeparated(values["metrics"])
	if ms, err := strconv.Atoi(values["interval.ms"]); err == nil {
		s.interval = time.Duration(ms) * time.Millisecond
	}
	for _, m := range commaSeparated(values["match"]) {
		attribute, pattern, _ := strings.Cut(m, "=")
		re, err := regexp.Compile(`^(?:` + strings.TrimSpace(pattern) + `)$`)
		if err != nil { // Java's, and not Go's: it matches nobody
			re = regexp.MustCompile(`a^`)
		}
		s.match[strings.TrimSpace(attribute)] = re
	}
	return s
}

func commaSeparated(text string) (list []string) {
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}

func (s *telemetrySubscription) matches(attributes map[string]string) bool {
	for name, re := range s.match {
		if value, known := attributes[name]; !known || !re.MatchString(value) {
			return false
		}
	}
	return true
}

// randomBytes reads from the handlers' source of randomness.
type randomBytes struct{ h *Handlers }

func (r randomBytes) Read(p []byte) (int, error) {
	r.h.randMu.Lock()
	defer r.h.randMu.Unlock()
	for i := range p {
		p[i] = byte(r.h.rand.Uint32())
	}
	return len(p), nil
}
