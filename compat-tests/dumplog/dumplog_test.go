package dumplog

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/compat-tests/harness"
	"github.com/klamm-mq/klamm/compat-tests/java"
)

// complaint is what DumpLogSegments prints about a file that it does not like. The
// values that are written here hold digits only, so none of them looks like one.
var complaint = regexp.MustCompile(`(?i)isvalid: false|mismatch|corrupt|exception|error|out of order|invalid bytes|not found|ignoring`)

// run runs DumpLogSegments and returns what it printed.
func run(files []string, args ...string) (string, error) {
	cmd, err := java.Quick("org.apache.kafka.tools.DumpLogSegments", append(args, "--files", strings.Join(files, ","))...)
	if err != nil {
		return "", err
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func complaints(out string) (lines []string) {
	for line := range strings.Lines(out) {
		if complaint.MatchString(line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// dump has files read and returns what the tool printed.
func dump(t *testing.T, files []string, args ...string) string {
	t.Helper()
	out := readable(t, files, args...)
	checkGaps(t, out)
	return out
}

// readable is dump for logs in which offsets need not follow each other.
func readable(t *testing.T, files []string, args ...string) string {
	t.Helper()
	out, err := run(files, args...)
	if err != nil {
		t.Fatalf("DumpLogSegments: %v\n%s", err, out)
	}
	for _, line := range complaints(out) {
		t.Errorf("DumpLogSegments complains: %s", line)
	}
	return out
}

// checkGaps looks at what DumpLogSegments calls non-consecutive offsets. It expects each
// file to begin at offset 0, so the first record of any other counts as one.
func checkGaps(t *testing.T, out string) {
	t.Helper()
	base := int64(-1)
	for line := range strings.Lines(out) {
		if file, found := strings.CutPrefix(strings.TrimSpace(line), "Non-consecutive offsets in "); found {
			name := strings.TrimSuffix(filepath.Base(file), ".log")
			first, err := strconv.ParseInt(name, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			base = first
			continue
		}
		var before, next int64
		if n, _ := fmt.Sscanf(line, " %d is followed by %d", &before, &next); n == 2 && (before != -1 || next != base) {
			t.Errorf("in the segment at %d, %s", base, strings.TrimSpace(line))
		}
	}
}

// write fills topics with several segments, codecs, keys, headers and producers.
func write(t *testing.T, addr string) (records int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for name, codec := range codecs {
		client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic("dump-"+name), kgo.ProducerBatchCompression(codec))
		if err != nil {
			t.Fatal(err)
		}
		small := "1048576"
		if _, err := kadm.NewClient(client).CreateTopic(ctx, 2, 1, map[string]*string{"segment.bytes": &small}, "dump-"+name); err != nil {
			t.Fatal(err)
		}
		for i := range 6000 {
			value := make([]byte, rng.IntN(1500))
			for j := range value {
				value[j] = byte('0' + rng.IntN(10))
			}
			r := &kgo.Record{Value: value, Headers: []kgo.RecordHeader{{Key: "n", Value: fmt.Append(nil, i)}}}
			if i%3 == 0 {
				r.Key = fmt.Append(nil, "key", i%17)
			}
			client.Produce(ctx, r, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Error(err)
				}
			})
			records++
		}
		if err := client.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		client.Close()
	}
	return records
}

func find(t *testing.T, root, suffix string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, suffix) && strings.Contains(filepath.Base(filepath.Dir(path)), "dump-") {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestKafkaReadsEveryFile(t *testing.T) {
	b := harness.Start(t)
	records := write(t, b.Addr)
	if code := b.Stop(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, b.Stderr())
	}
	checkDirectory(t, b.Dir, records)

	b.Start() // what a second run appends, and a kill leaves, is readable, too
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr), kgo.DefaultProduceTopic("dump-none"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i := range 100 {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Value: fmt.Append(nil, "after", i)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	b.Kill()
	b.Start()
	if code := b.Stop(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, b.Stderr())
	}
	checkDirectory(t, b.Dir, records+100)
}

func checkDirectory(t *testing.T, dir string, records int) {
	t.Helper()
	logs := find(t, dir, ".log")
	if len(logs) < 20 {
		t.Fatalf("only %d segments", len(logs))
	}
	out := dump(t, logs, "--deep-iteration", "--print-data-log")
	if got := strings.Count(out, "| offset: "); got != records {
		t.Errorf("DumpLogSegments sees %d records, %d were acknowledged", got, records)
	}
	dump(t, find(t, dir, ".index"), "--index-sanity-check")
	dump(t, find(t, dir, ".index"))
	dump(t, find(t, dir, ".timeindex"))
	if snapshots := find(t, dir, ".snapshot"); len(snapshots) == 0 {
		t.Error("no producer snapshots")
	} else if out := dump(t, snapshots); !strings.Contains(out, "producerId: ") {
		t.Errorf("no producer in the snapshots:\n%s", out)
	}
}

// What the tool says about damaged files, so that a change of its words is noticed.
func TestDamageIsSeen(t *testing.T) {
	b := harness.Start(t)
	write(t, b.Addr)
	if code := b.Stop(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, b.Stderr())
	}
	log := filepath.Join(b.Dir, "data", "dump-none-0", "00000000000000000000.log")
	bytes, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	damage := map[string][]byte{
		"a flipped bit": append(append(append([]byte{}, bytes[:200]...), bytes[200]^1), bytes[201:]...),
		"half a batch":  bytes[:len(bytes)-5],
	}
	for name, damaged := range damage {
		if err := os.WriteFile(log, damaged, 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := run([]string{log}); err == nil && len(complaints(out)) == 0 {
			t.Errorf("%s goes unseen:\n%s", name, out)
		}
	}
}
