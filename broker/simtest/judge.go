package simtest

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/broker/simtest/check"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// judgePatience bounds each reading of a topic: nothing befalls the broker meanwhile.
const judgePatience = time.Minute

// judgeSilence is how long nothing comes when nothing more is there.
const judgeSilence = 5 * time.Second

// judgePause follows an answer that is to be asked for again.
const judgePause = 100 * time.Millisecond

// Judge compares what the broker serves with what was promised: as it is, after a last
// crash, and after an orderly stop and start. In between it looks at the files.
func (c *Cluster) Judge() {
	c.tracef("judge")
	c.readAll()
	c.broker.crashSomehow()
	c.broker.Start()
	c.readAll()
	c.broker.Stop()
	c.checkFiles()
	c.broker.Start()
	c.readAll()
	if c.over.Err() != nil {
		panic(stopped{})
	}
}

// readAll reads every topic that must be there, whole.
func (c *Cluster) readAll() {
	ctx, cancel := context.WithTimeout(c.over, judgePatience)
	defer cancel()
	client := c.client()
	defer client.Close()
	admin := kadm.NewClient(client)
	details, err := admin.ListTopics(ctx)
	c.require("list topics", err)
	c.mu.Lock()
	topics := make(map[string]topic, len(c.topics))
	for name, t := range c.topics {
		topics[name] = t
	}
	groups := slices.Clone(c.groups)
	c.mu.Unlock()
	for _, g := range groups {
		g.judge(ctx, admin)
	}
	for name, t := range topics {
		if t.deleted {
			continue
		}
		if found, ok := details[name]; !ok || uuid.UUID(found.ID) != t.id || len(found.Partitions) != int(t.partitions) {
			c.violated("MetadataKept", "topic %s was %+v and is %+v", name, t, found)
			panic(stopped{})
		}
		c.readTopic(ctx, admin, name, t.partitions)
	}
	for name := range details {
		if _, known := topics[name]; !known {
			c.violated("MetadataKept", "topic %s was deleted and is there", name)
		}
	}
}

// bounds are what clients are told of a partition.
type bounds struct{ start, stable, end int64 }

func (c *Cluster) readTopic(ctx context.Context, admin *kadm.Client, name string, partitions int32) {
	starts := c.offsets(ctx, "list start offsets", name, admin.ListStartOffsets)
	stable := c.offsets(ctx, "list last stable offsets", name, admin.ListCommittedOffsets)
	ends := c.offsets(ctx, "list end offsets", name, admin.ListEndOffsets)
	all := map[check.Partition]bounds{}
	for i := range partitions {
		all[check.Partition{Topic: name, Index: i}] = bounds{starts[name][i].Offset, stable[name][i].Offset, ends[name][i].Offset}
	}
	records := c.read(ctx, all, c.isCompacted(name))
	for at, b := range all {
		c.history.Served(at, b.start, b.stable, b.end, records[at])
	}
}

// offsets asks until every partition has an answer: leaders may change, and a new one does not
// know its latest offset at once.
func (c *Cluster) offsets(ctx context.Context, doing, topic string, ask func(context.Context, ...string) (kadm.ListedOffsets, error)) kadm.ListedOffsets {
	for {
		listed, err := ask(ctx, topic)
		c.require(doing, err)
		if err = listed.Error(); err == nil {
			return listed
		}
		if !kerr.IsRetriable(err) || !c.sleep(judgePause) {
			c.require(doing, err)
		}
	}
}

// read reads partitions from start to end, or, where the last records may have been replaced,
// until nothing comes any more.
func (c *Cluster) read(ctx context.Context, all map[check.Partition]bounds, compacted bool) map[check.Partition][]check.Record {
	from := map[string]map[int32]kgo.Offset{}
	left := 0
	for at, b := range all {
		if b.end > b.start {
			left++
		}
		if from[at.Topic] == nil {
			from[at.Topic] = map[int32]kgo.Offset{}
		}
		from[at.Topic][at.Index] = kgo.NewOffset().At(b.start)
	}
	client := c.client(kgo.ConsumePartitions(from), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	defer client.Close()
	records := map[check.Partition][]check.Record{}
	for left > 0 {
		fetches, over := c.poll(ctx, client, compacted)
		if over {
			return records
		}
		c.require("read everything", fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			at := check.Partition{Topic: r.Topic, Index: r.Partition}
			if r.Offset >= all[at].end {
				return // produced since
			}
			records[at] = append(records[at], check.Record{Offset: r.Offset, Value: valueOf(r)})
			if r.Offset == all[at].end-1 {
				left--
			}
		})
	}
	return records
}

// poll tells of a compacted topic that nothing came for a while.
func (c *Cluster) poll(ctx context.Context, client *kgo.Client, compacted bool) (fetches kgo.Fetches, over bool) {
	if !compacted {
		return client.PollFetches(ctx), false
	}
	short, cancel := context.WithTimeout(ctx, judgeSilence)
	defer cancel()
	fetches = client.PollFetches(short)
	return fetches, short.Err() != nil && ctx.Err() == nil
}

// known is what may lie in a data directory after an orderly stop. A -stray is a
// partition directory whose creation a power cut has torn; a .tmp is a file that a crash
// caught while it was written, one of each at most, since the next writing uses it again.
var known = regexp.MustCompile(`^((\.lock|meta\.properties|\.kafka_cleanshutdown` +
	`|(flushed-offset|recovery-point-offset|log-start-offset|replication-offset|segment|cleaner-offset)-checkpoint)(\.tmp)?` +
	`|klamm-metadata(/.*)?` +
	`|[a-z0-9_]+-\d+(\.[0-9a-f]{32}-(stray|delete))?(/(\d{20}\.(log|index|timeindex|txnindex|snapshot)(\.tmp)?|(leader-epoch-checkpoint|partition\.metadata)(\.tmp)?))?)$`)

// checkFiles looks at every name in the data directory.
func (c *Cluster) checkFiles() {
	for _, name := range c.listFiles("") {
		if !known.MatchString(name) {
			c.violated("NoUnknownFiles", "%s", name)
		}
	}
}

const dataDir = "/data/"

func (c *Cluster) listFiles(below string) (names []string) {
	entries, err := c.broker.disk.ReadDir(dataDir + below)
	if err != nil {
		c.violated("NoUnknownFiles", "%v", err)
		return nil
	}
	for _, e := range entries {
		name := below + e.Name()
		names = append(names, name)
		if e.IsDir() {
			names = append(names, c.listFiles(name+"/")...)
		}
	}
	slices.SortFunc(names, cmp.Compare[string])
	return names
}
