package disk

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/compat-tests/harness"
)

// user is a client that keeps count of what was acknowledged to it.
type user struct {
	t      *testing.T
	addr   string
	client *kgo.Client
	admin  *kadm.Client
	acked  map[string]int // by topic
}

func newUser(t *testing.T, addr string) *user {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr),
		// Each answer is for the test to see, and not for the client to try again.
		kgo.DisableIdempotentWrite(), kgo.RecordRetries(0), kgo.MaxProduceRequestsInflightPerBroker(1),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &user{t: t, addr: addr, client: client, admin: kadm.NewClient(client), acked: map[string]int{}}
}

func (u *user) create(topic string, settings map[string]string) error {
	configs := map[string]*string{}
	for name, value := range settings {
		configs[name] = &value
	}
	ctx, cancel := context.WithTimeout(u.t.Context(), 20*time.Second)
	defer cancel()
	made, err := u.admin.CreateTopic(ctx, 1, 1, configs, topic)
	if err != nil && made.ErrMessage != "" {
		err = fmt.Errorf("%w: %s", err, made.ErrMessage)
	}
	return err
}

// recordSize is large, so that a disk fills up within seconds.
const recordSize = 200_000

func value(n int) []byte {
	v := make([]byte, recordSize)
	copy(v, fmt.Sprintf("record %d ", n))
	return v
}

func (u *user) write(topic string) error {
	err := u.client.ProduceSync(u.t.Context(), &kgo.Record{Topic: topic, Value: value(u.acked[topic])}).FirstErr()
	if err == nil {
		u.acked[topic]++
	}
	return err
}

func (u *user) mustWrite(topic string, n int) {
	u.t.Helper()
	for range n {
		if err := u.write(topic); err != nil {
			u.t.Fatalf("record %d of %s: %v", u.acked[topic], topic, err)
		}
	}
}

// fillUp writes until the disk is full and returns the error of that.
func (u *user) fillUp(topic string) error {
	u.t.Helper()
	for range 10_000 {
		if err := u.write(topic); err != nil {
			return err
		}
	}
	u.t.Fatalf("%d records of %d bytes, and the disk is not full", u.acked[topic], recordSize)
	return nil
}

// mustRead reads what was acknowledged, and nothing else.
func (u *user) mustRead(topic string) {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(u.t.Context(), time.Minute)
	defer cancel()
	c, err := kgo.NewClient(kgo.SeedBrokers(u.addr), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		u.t.Fatal(err)
	}
	defer c.Close()
	for n := 0; n < u.acked[topic]; {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			u.t.Fatalf("%s: after %d of %d records: %v", topic, n, u.acked[topic], err)
		}
		for _, r := range fetches.Records() {
			if r.Offset != int64(n) || string(r.Value) != string(value(n)) {
				u.t.Fatalf("%s: offset %d holds %.20q when record %d was due", topic, r.Offset, r.Value, n)
			}
			n++
		}
	}
}

// eventually waits until try succeeds.
func eventually(t *testing.T, b *harness.Broker, what string, try func() error) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var err error
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-tick.C {
		if err = try(); err == nil {
			return
		}
	}
	t.Fatalf("%s: still %v\nbroker:\n%s", what, err, b.Stderr())
}

func startOn(t *testing.T, disk *harness.SmallDisk) *harness.Broker {
	t.Helper()
	b := harness.New(t, "log.dirs="+disk.Path("data"))
	b.Start()
	return b
}

// quick lets a deleted topic's room come back at once.
var quick = map[string]string{"file.delete.delay.ms": "0", "segment.bytes": "8388608"}

// A producer fills the disk: it gets KAFKA_STORAGE_ERROR, and what it was told before
// holds. Topics are still made and deleted, and a deletion makes the room to go on.
func TestProducerFillsTheDisk(t *testing.T) {
	disk := harness.MountSmall(t, 256)
	b := startOn(t, disk)
	u := newUser(t, b.Addr)
	for _, topic := range []string{"old", "new"} {
		if err := u.create(topic, quick); err != nil {
			t.Fatal(err)
		}
	}
	u.mustWrite("old", 300)
	if err := u.fillUp("new"); !errors.Is(err, kerr.KafkaStorageError) {
		t.Fatalf("a write to a full disk: %v", err)
	}
	for range 50 {
		if err := u.write("new"); !errors.Is(err, kerr.KafkaStorageError) {
			t.Fatalf("one more write to a full disk: %v", err)
		}
	}
	if lines := strings.Count(b.Stderr(), "is full"); lines != 1 {
		t.Errorf("the broker said %d times that its disk is full:\n%s", lines, b.Stderr())
	}
	if disk.Free() < 8<<20 {
		t.Errorf("only %d bytes are left for metadata and checkpoints", disk.Free())
	}
	u.mustRead("new")
	u.mustRead("old")
	if err := u.create("one-more", nil); err != nil {
		t.Errorf("create a topic: %v", err)
	}

	b.Kill() // a start finds a full disk and serves what is there
	b.Start()
	u = u.again(b)
	u.mustRead("new")
	if err := u.write("new"); !errors.Is(err, kerr.KafkaStorageError) {
		t.Errorf("a write after the start: %v", err)
	}

	if _, err := u.admin.DeleteTopic(t.Context(), "old"); err != nil {
		t.Fatal(err)
	}
	eventually(t, b, "write after room was made", func() error { return u.write("new") })
	u.mustWrite("new", 10)
	u.mustRead("new")
	stopCleanly(t, b)
}

// again is the same user of a restarted broker.
func (u *user) again(b *harness.Broker) *user {
	next := newUser(u.t, b.Addr)
	next.acked = u.acked
	return next
}

// Somebody else fills the disk to the last byte, twice: the first time the ballast makes
// room for metadata, the second time changes of metadata are refused. Reads go on, and
// everything else when there is room.
func TestSomebodyElseFillsTheDisk(t *testing.T) {
	disk := harness.MountSmall(t, 256)
	b := startOn(t, disk)
	u := newUser(t, b.Addr)
	if err := u.create("t", quick); err != nil {
		t.Fatal(err)
	}
	u.mustWrite("t", 50)

	disk.Fill("first", 0)
	eventually(t, b, "a write is refused", func() error {
		if err := u.write("t"); !errors.Is(err, kerr.KafkaStorageError) {
			return fmt.Errorf("answer %w", err)
		}
		return nil
	})
	if err := u.create("with-ballast", nil); err != nil {
		t.Errorf("create a topic on the ballast's room: %v", err)
	}
	if disk.Free() == 0 {
		t.Errorf("the ballast is still there")
	}

	disk.Fill("second", 0)
	if err := u.create("refused", nil); err == nil {
		t.Errorf("a topic was made on a full disk")
	} else {
		t.Logf("CreateTopics on a full disk: %v", err)
		if !strings.Contains(err.Error(), "full") && !strings.Contains(err.Error(), "room") {
			t.Errorf("the error does not say why: %v", err)
		}
	}
	u.mustRead("t")

	disk.Remove("first")
	disk.Remove("second")
	eventually(t, b, "write with room again", func() error { return u.write("t") })
	eventually(t, b, "create with room again", func() error { return u.create("again", nil) })
	u.mustRead("t")
	stopCleanly(t, b)
}

// The disk is full to the last byte when the broker starts. With its ballast it starts;
// without, it says why it does not, and does so without harm.
func TestStartOnAFullDisk(t *testing.T) {
	disk := harness.MountSmall(t, 256)
	b := startOn(t, disk)
	u := newUser(t, b.Addr)
	if err := u.create("t", quick); err != nil {
		t.Fatal(err)
	}
	u.mustWrite("t", 20)
	b.Kill()
	disk.Fill("first", 0)

	b.Start()
	u = u.again(b)
	u.mustRead("t")
	if err := u.write("t"); !errors.Is(err, kerr.KafkaStorageError) {
		t.Errorf("a write to a full disk: %v", err)
	}
	b.Kill()
	disk.Fill("second", 0)

	for range 3 {
		if err := b.TryStart(); err == nil {
			t.Fatal("a start without any room")
		} else if !strings.Contains(err.Error(), "no room for metadata") {
			t.Fatalf("the error does not say why: %v", err)
		}
	}
	disk.Remove("first")
	disk.Remove("second")
	b.Start()
	u = u.again(b)
	u.mustRead("t")
	u.mustWrite("t", 5)
	u.mustRead("t")
	stopCleanly(t, b)
}

// Kills while the disk fills up: nothing acknowledged is lost, and the same broker goes
// on when there is room.
func TestKillsOnAFillingDisk(t *testing.T) {
	disk := harness.MountSmall(t, 320)
	b := startOn(t, disk)
	u := newUser(t, b.Addr)
	if err := u.create("t", quick); err != nil {
		t.Fatal(err)
	}
	for round := range 6 {
		disk.Fill("other", 40<<20) // some MiB above what producers may use
		if err := u.fillUp("t"); !errors.Is(err, kerr.KafkaStorageError) {
			t.Fatalf("round %d: %v", round, err)
		}
		b.Kill()
		b.Start()
		u = u.again(b)
		u.mustRead("t")
		disk.Remove("other")
		eventually(t, b, "write with room again", func() error { return u.write("t") })
	}
	u.mustRead("t")
	stopCleanly(t, b)
}

func stopCleanly(t *testing.T, b *harness.Broker) {
	t.Helper()
	if code := b.Stop(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, b.Stderr())
	}
	if strings.Contains(b.Stderr(), "panic") || strings.Contains(b.Stderr(), "SIGBUS") {
		t.Errorf("the broker said:\n%s", b.Stderr())
	}
}
