package broker_test

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/broker"
	"github.com/klamm-mq/klamm/broker/brokertest"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/countfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/wire"
	"github.com/klamm-mq/klamm/protocol/wire/countconn"
)

// meterTopic has a name as long as names are.
const meterTopic = "measurements.of.the.budget"

// meter is a whole broker in real time, behind a socket and on a file system that count,
// and one connection to it.
type meter struct {
	t      testing.TB
	fs     *countfs.FS
	socket *countconn.Listener
	conn   net.Conn
	format *kmsg.RequestFormatter
}

// newMeter starts one on a disk, counted or not, since counting allocates.
func newMeter(t testing.TB, disk vfs.FS, dir string, counted bool) *meter {
	m := &meter{t: t, format: kmsg.NewRequestFormatter(kmsg.FormatterClientID("meter"))}
	machine := brokertest.NewMachine(t)
	env := machine.Env()
	if env.FS = disk; counted {
		m.fs = countfs.Wrap(disk)
		env.FS = m.fs
	}
	env.Listen = func(ctx context.Context, _ string, o wire.ListenOptions) (net.Listener, error) {
		ln, err := wire.Listen(ctx, "127.0.0.1:0", o)
		if err == nil {
			m.socket = countconn.Listen(ln)
			ln = m.socket
		}
		return ln, err
	}
	cfg := brokertest.Config(t, "listeners=PLAINTEXT://127.0.0.1:0", "log.dirs="+dir, "admin.listener=")
	b, err := broker.Start(t.Context(), cfg, env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { brokertest.Stop(t, b) })
	if m.conn, err = net.Dial("tcp", m.socket.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.conn.Close() })
	m.create(meterTopic)
	return m
}

func (m *meter) create(name string) {
	m.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 5, 10_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	req.Topics = append(req.Topics, topic)
	m.exchange(m.frame(req))
}

func (m *meter) frame(req kmsg.Request) []byte { return m.format.AppendRequest(nil, req, 1) }

// exchange sends a frame and reads its answer, whose size it returns.
func (m *meter) exchange(frame []byte) int { return m.exchangeInto(frame, make([]byte, 2<<20)) }

func (m *meter) exchangeInto(frame, answer []byte) int {
	if _, err := m.conn.Write(frame); err != nil {
		m.t.Fatal(err)
	}
	if _, err := io.ReadFull(m.conn, answer[:4]); err != nil {
		m.t.Fatal(err)
	}
	n := int(answer[0])<<24 | int(answer[1])<<16 | int(answer[2])<<8 | int(answer[3])
	if _, err := io.ReadFull(m.conn, answer[:n]); err != nil {
		m.t.Fatal(err)
	}
	return n
}

// counts is what has been called so far.
type counts struct{ socketReads, socketWrites, fileReads, fileWrites, syncs int64 }

func (m *meter) counts() counts {
	of := func(op hookfs.Op) int64 { return int64(m.fs.Of(op).Calls) }
	return counts{m.socket.Counts.Reads.Load(), m.socket.Counts.Writes.Load(), of(hookfs.Read), of(hookfs.Write), of(hookfs.SyncAll)}
}

func (c counts) since(before counts) counts {
	return counts{
		c.socketReads - before.socketReads, c.socketWrites - before.socketWrites,
		c.fileReads - before.fileReads, c.fileWrites - before.fileWrites, c.syncs - before.syncs,
	}
}

func produceFrame(m *meter, version int16, value []byte) []byte {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, -1, 30_000
	part := kmsg.NewProduceRequestTopicPartition()
	part.Records = batch.New(batch.BuilderOptions{}, batch.NewRecord{Value: value})
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic, topic.Partitions = meterTopic, append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	return m.frame(req)
}

// What a broker does by the clock meanwhile (heartbeats, checkpoints, Raft) is in these
// figures, as far less than one per request.
const (
	runs       = 1000
	background = 50 // calls

	// maxProduceAllocs counts, in order: request, decoded body with topic, name and
	// partition, the handler's call, two of the flush, the goroutine that sends the
	// answer; and one for what happens by the clock.
	maxProduceAllocs = 10
)

// A steady produce that waits for its flush: one read, one file write, one socket write,
// and its share of a sync.
func TestCallsOfAProduce(t *testing.T) {
	m := newMeter(t, vfs.NewMem(), "/data", true)
	frame, answer := produceFrame(m, 9, make([]byte, 500)), make([]byte, 1<<10)
	m.exchangeInto(frame, answer)
	before := m.counts()
	for range runs {
		m.exchangeInto(frame, answer)
	}
	got := m.counts().since(before)
	if got.socketReads != runs || got.socketWrites != runs || got.fileReads > background ||
		got.syncs > runs+background || got.fileWrites < runs || got.fileWrites > runs+background {
		t.Errorf("%d produces took %+v", runs, got)
	}
}

// fetchFrame asks for everything from the start.
func fetchFrame(m *meter, version int16) []byte {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxBytes, req.MinBytes, req.MaxWaitMillis, req.ReplicaID, req.SessionEpoch = version, 50<<20, 1, 10_000, -1, -1
	part := kmsg.NewFetchRequestTopicPartition()
	part.PartitionMaxBytes, part.CurrentLeaderEpoch = 1<<20, -1
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.Partitions = meterTopic, append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	return m.frame(req)
}

// A fetch of a partition takes two calls to answer: a read and one write up to 64 KiB, or
// where tags follow the records (from version 12 on) up to 1 MiB, which clients ask for;
// the head of the answer and sendfile else.
func TestCallsOfAFetch(t *testing.T) {
	for _, c := range []struct {
		name         string
		disk         vfs.FS
		dir          string
		version      int16
		size         int
		reads, sends int64
	}{
		{"large, from a file", vfs.OS(), t.TempDir(), 11, 200_000, 0, 2},
		{"large, from a file, with tags behind", vfs.OS(), t.TempDir(), 12, 200_000, 1, 1},
		{"1 MiB, from a file, with tags behind", vfs.OS(), t.TempDir(), 12, 1<<20 - 100, 1, 1},
		{"middling, from a file", vfs.OS(), t.TempDir(), 12, 60_000, 1, 1},
		{"small, from a file", vfs.OS(), t.TempDir(), 12, 500, 1, 1},
		{"small, from memory", vfs.NewMem(), "/data", 12, 500, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMeter(t, c.disk, c.dir, true)
			m.exchange(produceFrame(m, 9, make([]byte, c.size)))
			frame, answer := fetchFrame(m, c.version), make([]byte, 2<<20)
			if n := m.exchangeInto(frame, answer); n < c.size {
				t.Fatalf("answered %d bytes", n)
			}
			before := m.counts()
			for range runs {
				m.exchangeInto(frame, answer)
			}
			got := m.counts().since(before)
			if got.socketReads != runs || got.socketWrites > runs*c.sends+background || got.fileReads > runs*c.reads+background {
				t.Errorf("%d fetches took %+v", runs, got)
			}
		})
	}
}

func TestAllocationsOfAProduce(t *testing.T) {
	m := newMeter(t, vfs.NewMem(), "/data", false)
	for version := int16(3); version <= 12; version += 3 {
		frame, answer := produceFrame(m, version, make([]byte, 500)), make([]byte, 1<<10)
		m.exchangeInto(frame, answer)
		if allocs := testing.AllocsPerRun(runs, func() { m.exchangeInto(frame, answer) }); allocs > maxProduceAllocs && !raceEnabled {
			t.Errorf("version %d: %v allocations per produce, budget %d", version, allocs, maxProduceAllocs)
		}
	}
}

// maxFetchAllocs is of a fetch of one partition that finds records: request, decoded body,
// the handler's call and the session's, the reader and the region; and one for what
// happens by the clock.
const maxFetchAllocs = 13

func TestAllocationsOfAFetch(t *testing.T) {
	m := newMeter(t, vfs.NewMem(), "/data", false)
	m.exchange(produceFrame(m, 9, make([]byte, 500)))
	for version := int16(4); version <= 12; version += 4 {
		frame, answer := fetchFrame(m, version), make([]byte, 1<<20)
		m.exchangeInto(frame, answer)
		if allocs := testing.AllocsPerRun(runs, func() { m.exchangeInto(frame, answer) }); allocs > maxFetchAllocs && !raceEnabled {
			t.Errorf("version %d: %v allocations per fetch, budget %d", version, allocs, maxFetchAllocs)
		}
	}
}
