package handlers

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// subscription is the configuration of one client metrics resource.
func subscription(name string, settings ...string) (records []metadata.Record) {
	for i := 0; i < len(settings); i += 2 {
		records = append(records, metadata.ConfigRecord{
			Resource: metadata.Resource{Type: metadata.ClientMetricsResource, Name: name}, Key: settings[i], Value: &settings[i+1],
		})
	}
	return records
}

// The number of a subscription is the one that Kafka 4.4 gives the same client.
func TestTelemetrySubscriptionID(t *testing.T) {
	client := telemetryClient{id: uuid.UUID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, connection: t.Context()}
	told, err := newTelemetry().get(time.Unix(1000, 0), testImage(t), client)
	if err != nil || told.id != -725132338 {
		t.Errorf("%+v %v", told, err)
	}
}

func TestTelemetryKeepsTheInterval(t *testing.T) {
	tel, image, now := newTelemetry(), testImage(t), time.Unix(1000, 0)
	client := telemetryClient{id: uuid.UUID{1}, connection: t.Context()}
	first, err := tel.get(now, image, client)
	if err != nil || first.interval != 5*time.Minute || len(first.metrics) != 0 {
		t.Fatalf("%+v %v", first, err)
	}
	if _, err := tel.get(now.Add(time.Second), image, client); !errors.Is(err, kafkaerr.ThrottlingQuotaExceeded) {
		t.Errorf("second question at once: %v", err)
	}
	push := telemetryPush{subscription: first.id, compression: 4}
	steps := []struct {
		after time.Duration
		edit  func(*telemetryPush)
		want  error
	}{
		{2 * time.Second, func(*telemetryPush) {}, nil}, // the first one may come at any time
		{3 * time.Second, func(*telemetryPush) {}, kafkaerr.ThrottlingQuotaExceeded},
		{6 * time.Minute, func(p *telemetryPush) { p.subscription++ }, kafkaerr.UnknownSubscriptionID},
		{12 * time.Minute, func(p *telemetryPush) { p.compression = 5 }, kafkaerr.UnsupportedCompressionType},
		{18 * time.Minute, func(p *telemetryPush) { p.tooLarge = true }, kafkaerr.TelemetryTooLarge},
		{18*time.Minute + 1, func(p *telemetryPush) { p.terminating = true }, nil}, // the last one may come early
		{24 * time.Minute, func(*telemetryPush) {}, kafkaerr.InvalidRequest},       // nothing follows the last one
	}
	for i, step := range steps {
		p := push
		step.edit(&p)
		if err := tel.push(now.Add(step.after), image, client, p); !errors.Is(err, step.want) {
			t.Errorf("step %d: %v, want %v", i, err, step.want)
		}
	}
}

// A client that was told off for an old subscription may ask again at once.
func TestTelemetryAsksAgainAfterAnUnknownSubscription(t *testing.T) {
	tel, image, now := newTelemetry(), testImage(t), time.Unix(1000, 0)
	client := telemetryClient{id: uuid.UUID{1}, connection: t.Context()}
	told, _ := tel.get(now, image, client)
	if err := tel.push(now, image, client, telemetryPush{subscription: told.id + 1}); !errors.Is(err, kafkaerr.UnknownSubscriptionID) {
		t.Fatal(err)
	}
	if again, err := tel.get(now, image, client); err != nil || again.id != told.id {
		t.Errorf("%+v %v", again, err)
	}
}

func TestTelemetrySubscriptionsThatMatch(t *testing.T) {
	image := changed(t, testImage(t), slices.Concat(
		subscription("java", "metrics", "b.,a.", "interval.ms", "1000", "match", "client_software_name=apache-.*"),
		subscription("all", "metrics", "a.,c.", "interval.ms", "60000"),
		subscription("one", "metrics", "*", "match", "client_id=one,client_source_port=7"),
	)...)
	tel, now := newTelemetry(), time.Unix(1000, 0)
	for i, c := range []struct {
		attributes map[string]string
		metrics    []string
		interval   time.Duration
	}{
		{map[string]string{"client_software_name": "other"}, []string{"a.", "c."}, time.Minute},
		{map[string]string{"client_software_name": "apache-kafka-java"}, []string{"a.", "b.", "c."}, time.Second},
		{map[string]string{"client_id": "one", "client_source_port": "7"}, []string{"*"}, time.Minute},
		{map[string]string{"client_id": "one"}, []string{"a.", "c."}, time.Minute},
	} {
		got, err := tel.get(now, image, telemetryClient{uuid.UUID{byte(i + 1)}, t.Context(), c.attributes})
		if err != nil || !slices.Equal(got.metrics, c.metrics) || got.interval != c.interval {
			t.Errorf("%v: %+v %v", c.attributes, got, err)
		}
	}
}

// When subscriptions change, clients are told at once; when a connection closes, its client
// is forgotten; and there are never more than the bound.
func TestTelemetryForgets(t *testing.T) {
	tel, image, now := newTelemetry(), testImage(t), time.Unix(1000, 0)
	connection, hangUp := context.WithCancel(t.Context())
	client := telemetryClient{id: uuid.UUID{1}, connection: connection}
	told, _ := tel.get(now, image, client)
	image = changed(t, image, subscription("s", "metrics", "a.")...)
	if next, err := tel.get(now, image, client); err != nil || next.id == told.id {
		t.Errorf("after a change: %+v %v", next, err)
	}
	gone := make(chan struct{})
	context.AfterFunc(connection, func() { close(gone) })
	hangUp()
	<-gone
	for { // the two functions run at the same time
		tel.mu.Lock()
		n := len(tel.clients)
		tel.mu.Unlock()
		if n == 0 {
			break
		}
	}
	for i := range maxTelemetryClients + 3 {
		id := uuid.UUID{byte(i), byte(i >> 8), 9}
		if _, err := tel.get(now, image, telemetryClient{id: id, connection: t.Context()}); err != nil {
			t.Fatal(err)
		}
	}
	if len(tel.clients) != maxTelemetryClients || tel.byUse.Len() != maxTelemetryClients {
		t.Errorf("%d clients, %d in the list", len(tel.clients), tel.byUse.Len())
	}
}

func TestTelemetryRequests(t *testing.T) {
	f := newFixture(t)
	f.h.config.TelemetryMaxBytes = 10
	got := ask[*kmsg.GetTelemetrySubscriptionsResponse](t, f, kmsg.NewPtrGetTelemetrySubscriptionsRequest())
	if got.ErrorCode != 0 || got.ClientInstanceID == uuid.Zero || got.PushIntervalMillis != 300_000 || got.TelemetryMaxBytes != 10 || !slices.Equal(got.AcceptedCompressionTypes, []int8{4, 3, 1, 2}) {
		t.Fatalf("%+v", got)
	}
	again := kmsg.NewPtrGetTelemetrySubscriptionsRequest()
	again.ClientInstanceID = got.ClientInstanceID
	if got := ask[*kmsg.GetTelemetrySubscriptionsResponse](t, f, again); got.ErrorCode != kafkaerr.ThrottlingQuotaExceeded.Code {
		t.Errorf("%+v", got)
	}
	push := kmsg.NewPtrPushTelemetryRequest()
	push.Metrics = make([]byte, 11)
	if got := ask[*kmsg.PushTelemetryResponse](t, f, push); got.ErrorCode != kafkaerr.InvalidRequest.Code {
		t.Errorf("%+v", got)
	}
	push.ClientInstanceID, push.SubscriptionID = got.ClientInstanceID, got.SubscriptionID
	if got := ask[*kmsg.PushTelemetryResponse](t, f, push); got.ErrorCode != kafkaerr.TelemetryTooLarge.Code {
		t.Errorf("%+v", got)
	}
}
