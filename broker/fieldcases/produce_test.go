package fieldcases

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/broker/brokertest"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// KafScale/platform#28, tektite#200, kop#2008: default clients are idempotent, and could
// not send to a broker without InitProducerId.
func TestDefaultProducersAreIdempotent(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1)
		client := w.client()
		if err := client.ProduceSync(w.within(time.Minute), &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
			t.Error(err)
		}
		ids := map[int64]bool{}
		for version := int16(0); version <= 5; version++ {
			req := kmsg.NewPtrInitProducerIDRequest()
			req.Version = version
			resp := ask[*kmsg.InitProducerIDResponse](w.conn, req)
			if resp.ErrorCode != 0 || resp.ProducerEpoch != 0 || ids[resp.ProducerID] {
				t.Errorf("version %d: %+v", version, resp)
			}
			ids[resp.ProducerID] = true
		}
	})
}

// redpanda#626: append times lay in January 1970.
func TestAppendTimeIsTheBrokersClock(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1, "message.timestamp.type=LogAppendTime")
		p := w.must("t", records(batch.BuilderOptions{}, 5, 7))
		if p.LogAppendTime != nowMs() {
			t.Errorf("append time %d, now is %d", p.LogAppendTime, nowMs())
		}
		for _, r := range readAll(t, w.fetch("t", 0)) {
			if r.TimestampMs != p.LogAppendTime {
				t.Errorf("record %+v, appended at %d", r, p.LogAppendTime)
			}
		}
	})
}

// redpanda#11922: timestamps from the far future kept segments for ever, although the
// topic counts by append time.
func TestFutureTimestampsDoNotBlockRetentionByAppendTime(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1, "message.timestamp.type=LogAppendTime", "retention.ms=1000", "segment.ms=500")
		future := nowMs() + (10 * 365 * 24 * time.Hour).Milliseconds()
		w.must("t", records(batch.BuilderOptions{}, future))
		time.Sleep(2 * time.Second)
		w.must("t", records(batch.BuilderOptions{}, future)) // rolls
		w.eventually("the first segment is deleted", 10*time.Minute, func() bool { return w.list("t", earliest).Offset >= 1 })
	})
}

// redpanda PR #4010: a batch older than its segment's first timestamp made a largest
// timestamp weeks ahead.
func TestBatchOlderThanTheOneBefore(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1)
		w.must("t", records(batch.BuilderOptions{}, 1000))
		w.must("t", records(batch.BuilderOptions{}, 1))
		for timestamp, want := range map[int64]at{
			largestTime: {Offset: 0, TimestampMs: 1000}, 1: {Offset: 0, TimestampMs: 1000},
			1000: {Offset: 0, TimestampMs: 1000}, 1001: {Offset: -1, TimestampMs: -1, Epoch: -1},
		} {
			if got := w.list("t", timestamp); got != want {
				t.Errorf("at %d: %+v, want %+v", timestamp, got, want)
			}
		}
	})
}

// kop#1839: timestamp 0 made the request hang; kop#1888: all records of a batch got one
// timestamp.
func TestEachRecordKeepsItsTimestamp(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1)
		w.must("t", records(batch.BuilderOptions{}, 0, 1, 2, 3))
		for i, r := range readAll(t, w.fetch("t", 0)) {
			if r.TimestampMs != int64(i) {
				t.Errorf("record %d: %+v", i, r)
			}
		}
	})
}

// kop#1992: old message sets moved the offset wrongly. Kafka 4 takes none: versions that
// carried them close the connection although ApiVersions names them (KAFKA-18659), and in
// a later version they are an error.
func TestOldMessageFormatsAreRefused(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1)
		for _, magic := range []byte{0, 1} {
			old := records(batch.BuilderOptions{}, nowMs())
			old[16] = magic
			if p := w.produce("t", old); p.ErrorCode != kafkaerr.InvalidRecord.Code {
				t.Errorf("magic %d: error %d", magic, p.ErrorCode)
			}
		}
		if end := w.list("t", latest); end.Offset != 0 {
			t.Errorf("the log ends at %d", end.Offset)
		}
		for version := int16(0); version <= 2; version++ {
			c := w.dial()
			req := produceRequest("t", -1, records(batch.BuilderOptions{}, nowMs()))
			req.Version = version
			c.send(req)
			if err := c.receive(req.ResponseKind()); !errors.Is(err, io.EOF) {
				t.Errorf("version %d: %v", version, err)
			}
		}
	})
}

// kop#1875, kop#1898: acks=0 was answered, or nothing was answered any more afterwards.
func TestAcks0IsNotAnsweredAndWhatFollowsIs(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1)
		for i := range 3 {
			w.send(produceRequest("t", 0, records(batch.BuilderOptions{}, nowMs())))
			if end := w.list("t", latest); end.Offset != int64(i+1) {
				t.Errorf("round %d: the log ends at %d", i, end.Offset)
			}
		}
		failing := w.dial()
		failing.send(produceRequest("unknown", 0, records(batch.BuilderOptions{}, nowMs())))
		if _, err := failing.receiveRaw(); !errors.Is(err, io.EOF) {
			t.Errorf("a failure is told by closing, not %v", err)
		}
	})
}

// redpanda#1109, #3897, PR #31362, librdkafka#1716: the limit counts the compressed batch.
func TestSizeLimitIsThatOfTheCompressedBatch(t *testing.T) {
	codecs := batch.NewCodecs(batch.CodecsOptions{})
	gzipped := func(value []byte) []byte {
		b := batch.NewBuilder(batch.BuilderOptions{Codec: batch.Gzip})
		b.Append(batch.NewRecord{TimestampMs: nowMs(), Value: value})
		v, err := b.Build(codecs)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	random := make([]byte, 2<<20)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(random)
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1)
		w.create("recoded", 1, "compression.type=uncompressed", "max.message.bytes=3000000")
		w.create("grown", 1, "compression.type=uncompressed")
		for _, c := range []struct {
			topic string
			value []byte
			want  int16
		}{
			{"t", make([]byte, 2<<20), 0},
			{"t", random, kafkaerr.MessageTooLarge.Code},
			{"recoded", make([]byte, 2<<20), 0},
			{"grown", make([]byte, 2<<20), kafkaerr.MessageTooLarge.Code}, // what is stored counts too
		} {
			if p := w.produce(c.topic, gzipped(c.value)); p.ErrorCode != c.want {
				t.Errorf("%s: error %d, want %d", c.topic, p.ErrorCode, c.want)
			}
		}
	})
}

// nisshi#67, nisshi#666: a batch was unpacked but kept its compression flag.
func TestEveryCodecRoundTrips(t *testing.T) {
	client := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	run(t, func(t *testing.T, w *world) {
		for _, stored := range []string{"producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"} {
			for sent, codec := range client {
				topic := stored + "-" + sent
				w.create(topic, 1, "compression.type="+stored)
				producer := w.client(kgo.ProducerBatchCompression(codec))
				var want []string
				for i := range 50 {
					want = append(want, fmt.Sprintf("a value that can be compressed, and again: a value %d", i))
					producer.Produce(t.Context(), &kgo.Record{Topic: topic, Value: []byte(want[i])}, nil)
				}
				if err := producer.Flush(w.within(time.Minute)); err != nil {
					t.Fatal(err)
				}
				producer.Close()
				var got []string
				for _, r := range readAll(t, w.fetch(topic, 0)) {
					got = append(got, r.Value)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", topic, diff)
				}
			}
		}
	})
}

// redpanda#22670: after ten idle minutes the next send was out of order. Whoever the broker
// has forgotten may go on with any sequence.
func TestForgottenProducersMayGoOn(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1)
		send := func(sequence int32) int16 {
			return w.produce("t", records(batch.BuilderOptions{Producer: &batch.Producer{ID: 7, BaseSequence: sequence}}, nowMs())).ErrorCode
		}
		if code := send(0); code != 0 {
			t.Fatalf("error %d", code)
		}
		if code := send(5); code != kafkaerr.OutOfOrderSequenceNumber.Code {
			t.Errorf("a gap: error %d", code)
		}
		time.Sleep(30 * time.Minute)
		w.conn = w.dial() // the old one has been idle for too long
		if code := send(5); code != 0 {
			t.Errorf("after it was forgotten: error %d", code)
		}
	}, "producer.id.expiration.ms=2000")
}

// klite ceb71a9 (KIP-360): a new epoch that begins at sequence 0 was refused;
// franz-go cf861a0e, klite 52fbcfa: an old epoch got a code that clients retry for ever.
func TestProducerEpochs(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1)
		for _, c := range []struct {
			epoch    int16
			sequence int32
			want     int16
		}{
			{0, 0, 0},
			{0, 1, 0},
			{1, 2, kafkaerr.OutOfOrderSequenceNumber.Code},
			{1, 0, 0},
			{0, 2, kafkaerr.InvalidProducerEpoch.Code},
			{1, 1, 0},
		} {
			o := batch.BuilderOptions{Producer: &batch.Producer{ID: 7, Epoch: c.epoch, BaseSequence: c.sequence}}
			if p := w.produce("t", records(o, nowMs())); p.ErrorCode != c.want {
				t.Errorf("epoch %d, sequence %d: error %d, want %d", c.epoch, c.sequence, p.ErrorCode, c.want)
			}
		}
	})
}

// smallDisk is a file system that can be short of room.
type smallDisk struct {
	vfs.FS
	full atomic.Bool
}

func (d *smallDisk) Space(dir string) (vfs.Space, error) {
	s, err := d.FS.Space(dir)
	if d.full.Load() {
		s.AvailBytes = 32 << 20 // room for metadata, which has to go on
	}
	return s, err
}

// redpanda#24492: with a disk nearly full clients only hung. They get an error, what is
// there can be read and deleted, and with room again writing goes on by itself.
func TestNearlyFullDisk(t *testing.T) {
	disk := &smallDisk{}
	runOn(t, func(m *brokertest.Machine) { disk.FS, m.FS = m.FS, disk }, func(t *testing.T, w *world) {
		w.create("t", 1)
		w.create("other", 1)
		w.must("t", records(batch.BuilderOptions{}, nowMs()))
		disk.full.Store(true)
		w.eventually("produce is refused", 10*time.Second, func() bool {
			return w.produce("t", records(batch.BuilderOptions{}, nowMs())).ErrorCode == kafkaerr.KafkaStorageError.Code
		})
		if p := w.fetch("t", 0); p.ErrorCode != 0 || len(p.RecordBatches) == 0 {
			t.Errorf("reading: %+v", p)
		}
		w.delete("other")
		disk.full.Store(false)
		w.eventually("produce goes on", 10*time.Second, func() bool {
			return w.produce("t", records(batch.BuilderOptions{}, nowMs())).ErrorCode == 0
		})
	})
}
