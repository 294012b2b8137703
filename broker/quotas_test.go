package broker_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/broker/brokertest"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// setQuota sets one quota of an entity, "client-id" of "" is the default; 0 removes it.
func setQuota(t *testing.T, m *brokertest.Machine, kind, name, key string, limit float64) {
	t.Helper()
	admin := kadm.NewClient(newClient(t, m))
	defer admin.Close()
	entity := kadm.ClientQuotaEntity{{Type: kind}}
	if name != "" {
		entity[0].Name = &name
	}
	altered, err := admin.AlterClientQuotas(t.Context(), []kadm.AlterClientQuotaEntry{
		{Entity: entity, Ops: []kadm.AlterClientQuotaOp{{Key: key, Value: limit, Remove: limit == 0}}},
	})
	if err != nil || altered[0].Err != nil {
		t.Fatalf("quota %s of %s %q: %v %+v", key, kind, name, err, altered)
	}
}

// blunt is a client that does not honour throttle times: it sends its next request as soon
// as it has an answer.
type blunt struct {
	t      *testing.T
	conn   net.Conn
	format *kmsg.RequestFormatter
}

func newBlunt(t *testing.T, m *brokertest.Machine, clientID string) *blunt {
	t.Helper()
	conn, err := m.Dial(t.Context(), "tcp", m.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &blunt{t, conn, kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID))}
}

func (b *blunt) send(req kmsg.Request) {
	b.t.Helper()
	if _, err := b.conn.Write(b.format.AppendRequest(nil, req, 1)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *blunt) ask(req kmsg.Request) kmsg.Response {
	b.t.Helper()
	b.send(req)
	body, err := readFrame(b.conn)
	if err != nil {
		b.t.Fatal(err)
	}
	resp := req.ResponseKind()
	body = body[4:]
	if resp.IsFlexible() && req.Key() != 18 {
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		b.t.Fatal(err)
	}
	return resp
}

func produceTo(topic string, acks int16, size int) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, acks, 10_000
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{
		Records: batch.New(batch.BuilderOptions{}, batch.NewRecord{TimestampMs: time.Now().UnixMilli(), Value: make([]byte, size)}),
	}}}}
	return req
}

func fetchFrom(topic string, offset int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxBytes, req.MinBytes, req.MaxWaitMillis, req.ReplicaID, req.SessionEpoch = 11, 50<<20, 1, 500, -1, -1
	part := kmsg.NewFetchRequestTopicPartition()
	part.FetchOffset, part.PartitionMaxBytes, part.CurrentLeaderEpoch = offset, 50_000, -1
	req.Topics = []kmsg.FetchRequestTopic{{Topic: topic, Partitions: []kmsg.FetchRequestTopicPartition{part}}}
	return req
}

const (
	quotaRate = 100_000 // bytes in a second
	quotaTime = 2 * time.Minute
)

// withinQuota checks how much went through in quotaTime. As in Kafka, whose rate is one of
// ten windows at least, ten seconds' worth may come at once, and then hardly anything until
// these are over: that costs some, and a burst in the end of the time is too much.
func withinQuota(t *testing.T, what string, bytes int) {
	t.Helper()
	const due = quotaRate * int(quotaTime/time.Second)
	if bytes < due*3/4 || bytes > due+10*quotaRate {
		t.Errorf("%s of %d bytes in %v, with a quota of %d a second", what, bytes, quotaTime, quotaRate)
	}
}

// A real client that produces as fast as it can is held to its quota, and so is one of the
// same name that does not honour its throttle time, with and without answers.
func TestProduceQuota(t *testing.T) {
	inBubble(t, func(t *testing.T, m *brokertest.Machine) {
		m.Start(t)
		createTopic(t, m, "t", 1)
		setQuota(t, m, "client-id", "", "producer_byte_rate", quotaRate)

		ctx, cancel := context.WithTimeout(t.Context(), quotaTime)
		defer cancel()
		client, sent := newClient(t, m, kgo.ClientID("polite"), kgo.ProducerBatchCompression(kgo.NoCompression())), 0
		for {
			err := client.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: make([]byte, 10_000)}).FirstErr()
			if err != nil {
				break
			}
			sent += 10_000
		}
		withinQuota(t, "produced records", sent)

		for _, acks := range []int16{1, 0} {
			blunt, begin, sent := newBlunt(t, m, fmt.Sprint("blunt", acks)), time.Now(), 0
			_ = blunt.conn.SetDeadline(begin.Add(quotaTime))
			for time.Since(begin) < quotaTime {
				frame := blunt.format.AppendRequest(nil, produceTo("t", acks, 10_000), 1)
				if _, err := blunt.conn.Write(frame); err != nil {
					break
				}
				if acks != 0 {
					if _, err := readFrame(blunt.conn); err != nil {
						break
					}
				}
				sent += len(frame)
			}
			withinQuota(t, fmt.Sprintf("requests with acks=%d", acks), sent)
		}
	})
}

// A consumer gets what its quota lets through, in answers that it does not have to pause for;
// a pause comes with an empty answer, and mutes whoever does not honour it.
func TestFetchQuota(t *testing.T) {
	inBubble(t, func(t *testing.T, m *brokertest.Machine) {
		m.Start(t)
		createTopic(t, m, "t", 1)
		filler := newBlunt(t, m, "filler")
		for range 1000 {
			filler.ask(produceTo("t", 1, 20_000))
		}
		setQuota(t, m, "client-id", "", "consumer_byte_rate", quotaRate)

		ctx, cancel := context.WithTimeout(t.Context(), quotaTime)
		defer cancel()
		got := 0
		client := newClient(t, m, kgo.ClientID("polite"), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxPartitionBytes(50_000))
		for ctx.Err() == nil {
			client.PollFetches(ctx).EachRecord(func(r *kgo.Record) { got += len(r.Value) })
		}
		withinQuota(t, "consumed records", got)

		blunt, begin, got, throttled := newBlunt(t, m, "blunt"), time.Now(), 0, 0
		for offset := int64(0); time.Since(begin) < quotaTime; {
			resp := blunt.ask(fetchFrom("t", offset)).(*kmsg.FetchResponse)
			if resp.ThrottleMillis > 0 {
				throttled++
				if len(resp.Topics) > 0 {
					t.Fatalf("a throttled answer has topics: %+v", resp)
				}
				continue
			}
			got += len(resp.Topics[0].Partitions[0].RecordBatches)
			offset += 2
		}
		withinQuota(t, "fetched batches", got)
		if throttled == 0 || throttled > 200 {
			t.Errorf("%d answers were empty: the mute is not honoured", throttled)
		}
	})
}

// The answer that says for how long to pause leaves at once; what comes within that time is
// answered after it, whatever it is.
func TestMuteAfterTheAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, m *brokertest.Machine) {
		m.Start(t)
		createTopic(t, m, "t", 1)
		setQuota(t, m, "user", "ANONYMOUS", "producer_byte_rate", 1000)
		blunt := newBlunt(t, m, "")
		begin := time.Now()
		resp := blunt.ask(produceTo("t", -1, 20_000)).(*kmsg.ProduceResponse)
		pause := time.Duration(resp.ThrottleMillis) * time.Millisecond
		if pause < 9*time.Second || pause > 11*time.Second || time.Since(begin) > time.Second || resp.Topics[0].Partitions[0].ErrorCode != 0 {
			t.Fatalf("after %v: %+v", time.Since(begin), resp)
		}
		meta := kmsg.NewPtrMetadataRequest()
		meta.Version = 7
		if ms := blunt.ask(meta).(*kmsg.MetadataResponse).ThrottleMillis; ms != 0 {
			t.Errorf("a request without bytes is throttled for %d ms", ms)
		}
		if waited := time.Since(begin); waited < pause || waited > pause+time.Second {
			t.Errorf("the next answer came after %v, the pause was %v", waited, pause)
		}
		create := kmsg.NewPtrCreateTopicsRequest() // its timeout begins with the end of the mute
		create.Version, create.TimeoutMillis = 7, 5000
		create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "late", NumPartitions: 1, ReplicationFactor: 1}}
		blunt.ask(produceTo("t", -1, 20_000))
		if code := blunt.ask(create).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode; code != 0 {
			t.Errorf("a request that was muted for longer than its timeout: %d", code)
		}
	})
}

// Partitions made and deleted have a quota of their own.
func TestMutationQuota(t *testing.T) {
	inBubble(t, func(t *testing.T, m *brokertest.Machine) {
		m.Start(t)
		setQuota(t, m, "client-id", "maker", "controller_mutation_rate", 1)
		admin := kadm.NewClient(newClient(t, m, kgo.ClientID("maker")))
		defer admin.Close()
		made, err := admin.CreateTopics(t.Context(), 8, 1, nil, "a", "b", "c")
		if err != nil {
			t.Fatal(err)
		}
		refused := 0
		for _, topic := range made {
			if errors.Is(topic.Err, kerr.ThrottlingQuotaExceeded) {
				refused++
			} else if topic.Err != nil {
				t.Error(topic.Err)
			}
		}
		if refused != 1 {
			t.Errorf("%d of three topics of eight partitions were refused", refused)
		}
		other := kadm.NewClient(newClient(t, m, kgo.ClientID("other")))
		defer other.Close()
		if deleted, err := other.DeleteTopics(t.Context(), "a"); err != nil || deleted.Error() != nil {
			t.Errorf("another client: %v %v", err, deleted.Error())
		}
	})
}

// Connections of an address with a quota are served at its rate, ten seconds' worth at once;
// the others are closed.
func TestConnectionQuotaOfAnAddress(t *testing.T) {
	inBubble(t, func(t *testing.T, m *brokertest.Machine) {
		m.Start(t)
		setQuota(t, m, "ip", "", "connection_creation_rate", 1)
		versions := kmsg.NewPtrApiVersionsRequest()
		served := 0
		for range 30 {
			b := newBlunt(t, m, "x")
			b.send(versions)
			_ = b.conn.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
			if _, err := readFrame(b.conn); err == nil {
				served++
			}
		}
		if served < 10 || served > 25 { // 15 s at most went by
			t.Errorf("%d of 30 connections were served", served)
		}
	})
}

// listener.name.<name>.max.connection.creation.rate holds for one listener, and can be changed.
func TestConnectionRateOfAListener(t *testing.T) {
	inBubble(t, func(t *testing.T, m *brokertest.Machine) {
		m.Settings = append(m.Settings, "listeners=PLAINTEXT://broker-1:9092,SLOW://broker-1:9093",
			"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SLOW:PLAINTEXT", "listener.name.slow.max.connection.creation.rate=1")
		m.Start(t)
		connect := func(n int) time.Duration {
			begin := time.Now()
			for range n {
				conn, err := m.Dial(t.Context(), "tcp", "broker-1:9093")
				if err != nil {
					t.Fatal(err)
				}
				b := &blunt{t, conn, kmsg.NewRequestFormatter()}
				meta := kmsg.NewPtrMetadataRequest()
				b.ask(meta)
				_ = conn.Close()
			}
			return time.Since(begin)
		}
		if took := connect(10); took > time.Second {
			t.Errorf("ten at once took %v", took)
		}
		if took := connect(10); took < 8*time.Second {
			t.Errorf("ten more took %v", took)
		}
		admin := kadm.NewClient(newClient(t, m))
		defer admin.Close()
		_, err := admin.AlterBrokerConfigs(t.Context(), []kadm.AlterConfig{
			{Op: kadm.SetConfig, Name: "listener.name.slow.max.connection.creation.rate", Value: kadm.StringPtr("1000")},
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if took := connect(10); took > time.Second {
			t.Errorf("ten with another limit took %v", took)
		}
	})
}

// Quotas are in metadata: a broker that starts again keeps them from its first request on,
// and connections from its first one.
func TestQuotasAfterARestart(t *testing.T) {
	inBubble(t, func(t *testing.T, m *brokertest.Machine) {
		first := m.Start(t)
		createTopic(t, m, "t", 1)
		setQuota(t, m, "client-id", "c", "producer_byte_rate", 1000)
		setQuota(t, m, "ip", "", "connection_creation_rate", 1)
		brokertest.Stop(t, first)
		m.Start(t)
		b := newBlunt(t, m, "c")
		if ms := b.ask(produceTo("t", -1, 20_000)).(*kmsg.ProduceResponse).ThrottleMillis; ms < 9000 {
			t.Errorf("throttled for %d ms", ms)
		}
		served := 0
		for range 20 {
			b := newBlunt(t, m, "x")
			b.send(kmsg.NewPtrApiVersionsRequest())
			_ = b.conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
			if _, err := readFrame(b.conn); err == nil {
				served++
			}
		}
		if served > 10 {
			t.Errorf("%d of 20 connections were served at once", served)
		}
	})
}
