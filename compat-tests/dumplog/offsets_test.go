package dumplog

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/compat-tests/harness"
	"github.com/klamm-mq/klamm/compat-tests/java"
)

// written is what writeGroups leaves behind: committed offsets by group and partition of
// the topic orders.
var written = map[string]int64{
	"readers 0": 5, "readers 1": 5,
	"admin 0": 3,
}

// newClient is a client of either broker.
func newClient(t *testing.T, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(100 * time.Millisecond), kgo.AlwaysRetryEOF(),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func produceTo(t *testing.T, ctx context.Context, client *kgo.Client, values ...string) {
	t.Helper()
	for i, v := range values {
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: "orders", Partition: int32(i % 2), Value: []byte(v)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func numbered(what string, n int) (values []string) {
	for i := range n {
		values = append(values, fmt.Sprint(what, i))
	}
	return values
}

// writeGroups makes three groups: one whose member has read ten records of two partitions
// and left, one that was only committed for, and one that was deleted.
func writeGroups(t *testing.T, ctx context.Context, addr string) {
	t.Helper()
	client := newClient(t, addr)
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, 2, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	produceTo(t, ctx, client, numbered("old", 10)...)
	readers(t, ctx, addr, 10)
	for _, group := range []string{"admin", "deleted"} {
		var offsets kadm.Offsets
		offsets.Add(kadm.Offset{Topic: "orders", Partition: 0, At: 3, LeaderEpoch: -1, Metadata: "by an administrator"})
		if err := admin.CommitAllOffsets(ctx, group, offsets); err != nil {
			t.Fatal(err)
		}
	}
	if gone, err := admin.DeleteGroups(ctx, "deleted"); err != nil || gone.Error() != nil {
		t.Fatal(err, gone.Error())
	}
}

// readers has one member of the group read so many records, commit and leave.
func readers(t *testing.T, ctx context.Context, addr string, n int, opts ...kgo.Opt) (values []string) {
	t.Helper()
	member := newClient(t, addr, append([]kgo.Opt{
		kgo.ConsumerGroup("readers"), kgo.ConsumeTopics("orders"), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}, opts...)...)
	for len(values) < n {
		fetches := member.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("after %d of %d records: %v", len(values), n, fetches.Err())
		}
		fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	if err := member.CommitUncommittedOffsets(ctx); err != nil {
		t.Fatal(err)
	}
	member.Close()
	return values
}

// offsetsLogs are the segments of __consumer_offsets that are not empty.
func offsetsLogs(t *testing.T, dir string) (files []string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "__consumer_offsets-*", "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		if info, err := os.Stat(file); err == nil && info.Size() > 0 {
			files = append(files, file)
		}
	}
	if len(files) < 2 {
		t.Fatalf("%d of %d segments of __consumer_offsets hold anything", len(files), len(all))
	}
	return files
}

// What DumpLogSegments and OffsetsMessageFormatter print about one committed offset.
var (
	dumped    = regexp.MustCompile(`key: \{"type":"1","data":\{"group":"([a-z]+)","topic":"orders","partition":(\d)\}\} payload: (?:\{"version":"\d","data":\{"offset":(\d+),|<DELETE>)`)
	dumpedOf  = regexp.MustCompile(`key: \{"type":"2","data":\{"group":"([a-z]+)"\}\} payload: (?:\{"version":"\d","data":\{"protocolType":"([a-z]*)",|<DELETE>)`)
	formatted = regexp.MustCompile(`\{"key":\{"type":1,"data":\{"group":"([a-z]+)","topic":"orders","partition":(\d)\}\},"value":(?:\{"version":\d,"data":\{"offset":(\d+),|null)`)
)

// last is the newest of what a tool printed, by group and partition.
func last(t *testing.T, pattern *regexp.Regexp, out string) map[string]int64 {
	t.Helper()
	found := map[string]int64{}
	for _, m := range pattern.FindAllStringSubmatch(out, -1) {
		key := m[1] + " " + m[2]
		delete(found, key)
		if m[3] != "" {
			var offset int64
			if _, err := fmt.Sscan(m[3], &offset); err != nil {
				t.Fatal(err)
			}
			found[key] = offset
		}
	}
	return found
}

func same(a, b map[string]int64) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

// Kafka's tools understand what our groups leave in __consumer_offsets.
func TestKafkaReadsGroups(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	b := harness.Start(t)
	writeGroups(t, ctx, b.Addr)

	consumer, err := java.Quick("org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", b.Addr,
		"--topic", "__consumer_offsets", "--from-beginning", "--timeout-ms", "20000",
		"--formatter", "org.apache.kafka.tools.consumer.OffsetsMessageFormatter")
	if err != nil {
		t.Fatal(err)
	}
	out, err := consumer.CombinedOutput()
	if got := last(t, formatted, string(out)); !same(got, written) {
		t.Errorf("the console consumer says %v (%v), committed is %v:\n%s", got, err, written, out)
	}

	if code := b.Stop(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, b.Stderr())
	}
	text := dump(t, offsetsLogs(t, filepath.Join(b.Dir, "data")), "--offsets-decoder")
	if got := last(t, dumped, text); !same(got, written) {
		t.Errorf("DumpLogSegments says %v, committed is %v:\n%s", got, written, text)
	}
	kinds := map[string]string{}
	for _, m := range dumpedOf.FindAllStringSubmatch(text, -1) {
		kinds[m[1]] = m[2]
	}
	if kinds["readers"] != "consumer" || kinds["deleted"] != "" {
		t.Errorf("DumpLogSegments says of groups %v:\n%s", kinds, text)
	}
}

// topicID is the id of the topic orders.
func topicID(t *testing.T, ctx context.Context, addr string) []byte {
	t.Helper()
	topics, err := kadm.NewClient(newClient(t, addr)).ListTopics(ctx, "orders")
	id := topics["orders"].ID
	if err != nil || id == (kadm.TopicID{}) {
		t.Fatalf("orders is %+v, %v", topics["orders"], err)
	}
	return id[:]
}

// adopt puts one topic id in the place of another in a segment, as if the topic had been
// taken over with its offsets.
func adopt(segment, theirs, ours []byte) []byte {
	segment = bytes.ReplaceAll(segment, theirs, ours)
	for rest := segment; len(rest) > 0; {
		size := 12 + binary.BigEndian.Uint32(rest[8:])
		sum := crc32.Checksum(rest[21:size], crc32.MakeTable(crc32.Castagnoli))
		binary.BigEndian.PutUint32(rest[17:], sum)
		rest = rest[size:]
	}
	return segment
}

func awaitFile(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		if _, err := os.Stat(name); err == nil {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("%s is not made", name)
		}
	}
}

// Groups of Apache Kafka go on here: its segments of __consumer_offsets are put in the
// place of ours, of the same 50 partitions. Offsets count for the topic of that id alone,
// not for another of its name, so the id is made ours.
func TestGroupsOfKafkaGoOn(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	theirs := java.StartBroker(t, harness.FreePort(t), harness.FreePort(t))
	writeGroups(t, ctx, theirs.Addr)
	theirID := topicID(t, ctx, theirs.Addr)
	theirs.Kill()

	ours := harness.Start(t)
	client := newClient(t, ours.Addr)
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, 2, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	produceTo(t, ctx, client, numbered("old", 10)...)
	ourID := topicID(t, ctx, ours.Addr)
	var none kadm.Offsets
	none.Add(kadm.Offset{Topic: "orders", At: 1, LeaderEpoch: -1})
	if err := admin.CommitAllOffsets(ctx, "makes-the-topic", none); err != nil {
		t.Fatal(err)
	}
	place := func(file string) string {
		return filepath.Join(ours.Dir, "data", filepath.Base(filepath.Dir(file)), filepath.Base(file))
	}
	for _, file := range offsetsLogs(t, theirs.Logs) {
		awaitFile(t, ctx, place(file)) // those of new partitions come within a second
	}
	ours.Kill()
	for _, file := range offsetsLogs(t, theirs.Logs) {
		segment, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(place(file), adopt(segment, theirID, ourID), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	client.Close()
	ours.Start()
	client = newClient(t, ours.Addr)
	admin = kadm.NewClient(client)

	got := map[string]int64{}
	for _, group := range []string{"readers", "admin", "deleted"} {
		fetched, err := admin.FetchOffsets(ctx, group)
		if err != nil {
			t.Fatalf("%v\n%s", err, ours.Stderr())
		}
		fetched.Each(func(o kadm.OffsetResponse) { got[fmt.Sprint(group, " ", o.Partition)] = o.At })
		if o, _ := fetched.Lookup("orders", 0); group == "admin" && o.Metadata != "by an administrator" {
			t.Errorf("admin's metadata is %q", o.Metadata)
		}
	}
	if !same(got, written) {
		t.Errorf("loaded %v, Kafka had %v\n%s", got, written, ours.Stderr())
	}
	described, err := admin.DescribeGroups(ctx, "readers")
	if g := described["readers"]; err != nil || g.State != "Empty" || g.ProtocolType != "consumer" {
		t.Errorf("readers are %+v, %v", g, err)
	}
	produceTo(t, ctx, client, numbered("new", 4)...)
	if values := readers(t, ctx, ours.Addr, 4); strings.Contains(fmt.Sprint(values), "old") {
		t.Errorf("the readers go on with %v", values)
	}
}
