package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

type consumeFlags struct {
	client    clientFlags
	from      string
	toEnd     bool
	count     int64
	partition int32
	format    string
	null      string
	output    string
	committed bool
	quiet     bool
}

func newConsume(std streams) *cobra.Command {
	var f consumeFlags
	cmd := &cobra.Command{
		Use:   "consume TOPIC",
		Short: "Read records and print one per line",
		Long: "Read records from all partitions of a topic, or from one, and print them.\n\n" +
			"--from takes start, end, an offset, -N (the last N of each partition), a time in RFC 3339 or @MS\n" +
			"(milliseconds since 1970). --format takes %t topic, %p partition, %o offset, %T timestamp in ms,\n" +
			"%k key, %v value, %h headers, %% and the escapes \\n \\t \\0 \\\\.",
		Example: "  klamm consume orders --from start --to-end\n" +
			"  klamm consume orders --from -10 --to-end\n" +
			"  klamm consume orders --from 2026-11-01T00:00:00Z --count 10\n" +
			"  klamm consume orders --partition 0 --from 4711 --output json\n" +
			"  klamm consume orders --format '%p:%o %k=%v\\n' --null '(null)'",
		Args: oneArg("topic"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runConsume(cmd.Context(), std, args[0], f)
		},
	}
	f.client.register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", "end", "where to begin: start, end, OFFSET, -N or a time")
	flags.BoolVarP(&f.toEnd, "to-end", "e", false, "stop at what is the end now")
	flags.Int64VarP(&f.count, "count", "c", 0, "stop after this many records; 0 means never")
	flags.Int32VarP(&f.partition, "partition", "p", -1, "read this partition only")
	flags.StringVar(&f.format, "format", `%v\n`, "how a record is printed with --output text")
	flags.StringVar(&f.null, "null", "", "how a key or value that is null is printed with --output text")
	flags.StringVarP(&f.output, "output", "o", "text", "text, json (one object per line), base64 or hex (values only)")
	flags.BoolVar(&f.committed, "read-committed", false, "leave out records of transactions that are open or aborted")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "no progress line")
	return cmd
}

func runConsume(ctx context.Context, std streams, topic string, f consumeFlags) error {
	start, err := parseStart(f.from)
	if err != nil {
		return err
	}
	print, err := newPrinter(f.output, f.format, f.null)
	if err != nil {
		return err
	}
	// Markers of transactions are records too, and may be the last ones that are due.
	opts := []kgo.Opt{kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.KeepControlRecords()}
	if f.committed {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	client, err := f.client.connect(ctx, std, opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	plan, err := planRead(ctx, kadm.NewClient(client), topic, f, start)
	if err != nil {
		return err
	}
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: plan.starts})
	out := bufio.NewWriter(std.out)
	r := &reader{client: client, plan: plan, timeout: f.client.timeout, left: f.count, flush: out.Flush}
	p := newProgress(std.err, "read", !f.quiet && !isTerminal(std.out))
	err = r.readAll(ctx, func(rec *kgo.Record) error {
		p.add(len(rec.Key) + len(rec.Value))
		return print(out, rec)
	})
	p.done()
	return errors.Join(err, out.Flush())
}

// startAt is a parsed --from: exactly one of its ways to say where.
type startAt struct {
	start, end bool
	last       int64 // > 0: the last N of each partition
	offset     int64 // if nothing else is set
	timeMs     int64
	byTime     bool
}

func parseStart(s string) (startAt, error) {
	switch s {
	case "start":
		return startAt{start: true}, nil
	case "end":
		return startAt{end: true}, nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		if n < 0 {
			return startAt{last: -n}, nil
		}
		return startAt{offset: n}, nil
	}
	ms, ok := parseTime(s)
	if !ok {
		return startAt{}, usagef("--from %s: want start, end, an offset, -N or a time such as 2026-11-01T00:00:00Z", s)
	}
	return startAt{byTime: true, timeMs: ms}, nil
}

// within is the offset where to begin in a partition that holds begin to end-1; atTime is
// where the time of the request falls. An offset whose record is gone means the first
// one that is left.
func (s startAt) within(begin, end, atTime int64) (int64, error) {
	switch {
	case s.start:
		return begin, nil
	case s.end:
		return end, nil
	case s.last > 0:
		return max(end-s.last, begin), nil
	case s.byTime:
		return atTime, nil
	case s.offset > end:
		return 0, fmt.Errorf("ends at offset %d", end)
	default:
		return max(s.offset, begin), nil
	}
}

// readPlan is where each partition begins and, with --to-end, where it is finished.
type readPlan struct {
	starts map[int32]kgo.Offset
	ends   map[int32]int64 // nil: read for ever
}

func planRead(ctx context.Context, admin *kadm.Client, topic string, f consumeFlags, start startAt) (readPlan, error) {
	begins, err := listed(topic)(admin.ListStartOffsets(ctx, topic))
	if err != nil {
		return readPlan{}, err
	}
	listEnds := admin.ListEndOffsets
	if f.committed {
		listEnds = admin.ListCommittedOffsets
	}
	ends, err := listed(topic)(listEnds(ctx, topic))
	if err != nil {
		return readPlan{}, err
	}
	times := ends
	if start.byTime {
		if times, err = listed(topic)(admin.ListOffsetsAfterMilli(ctx, start.timeMs, topic)); err != nil {
			return readPlan{}, err
		}
	}
	plan := readPlan{starts: map[int32]kgo.Offset{}}
	if f.toEnd {
		plan.ends = map[int32]int64{}
	}
	for partition, begin := range begins {
		if f.partition >= 0 && partition != f.partition {
			continue
		}
		end := ends[partition].Offset
		at, err := start.within(begin.Offset, end, times[partition].Offset)
		if err != nil {
			return readPlan{}, usagef("--from %s: partition %d of topic %s %w", f.from, partition, topic, err)
		}
		plan.starts[partition] = kgo.NewOffset().At(at)
		if f.toEnd && at < end {
			plan.ends[partition] = end
		}
	}
	if len(plan.starts) == 0 {
		return readPlan{}, usagef("--partition %d: topic %s has partitions 0 to %d", f.partition, topic, len(begins)-1)
	}
	return plan, nil
}

// listed takes the answer of a ListOffsets call apart.
func listed(topic string) func(kadm.ListedOffsets, error) (map[int32]kadm.ListedOffset, error) {
	return func(offsets kadm.ListedOffsets, err error) (map[int32]kadm.ListedOffset, error) {
		if err == nil {
			err = offsets.Error()
		}
		if err != nil {
			return nil, topicError(topic, err)
		}
		return offsets[topic], nil
	}
}

// reader reads what a plan asks for.
type reader struct {
	client  *kgo.Client
	plan    readPlan
	timeout time.Duration
	left    int64 // records to print; 0 or less: no limit
	flush   func() error
}

// readAll hands records to fn until the plan's ends, the count, the context's end or an
// error. Whoever waits for an end that does not come is told after the timeout.
func (r *reader) readAll(ctx context.Context, fn func(*kgo.Record) error) error {
	for !r.plan.finished() {
		fetches, err := r.poll(ctx)
		switch {
		case ctx.Err() != nil:
			return r.flush() // told to stop, which is no failure
		case err != nil:
			return err
		}
		for it := fetches.RecordIter(); !it.Done(); {
			rec := it.Next()
			if !r.plan.take(rec) {
				continue
			}
			if err := fn(rec); err != nil {
				return err
			}
			if r.left--; r.left == 0 {
				return nil
			}
		}
		if err := r.flush(); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) poll(ctx context.Context) (kgo.Fetches, error) {
	if r.plan.ends == nil {
		fetches := r.client.PollFetches(ctx)
		return fetches, fetches.Err()
	}
	limited, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	fetches := r.client.PollFetches(limited)
	err := fetches.Err()
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("nothing came for %s, although %d partition(s) are not at their end", r.timeout, len(r.plan.ends))
	}
	return fetches, err
}

func (p readPlan) finished() bool { return p.ends != nil && len(p.ends) == 0 }

// take reports whether rec is to be printed, and strikes its partition off once it is
// read to its end.
func (p readPlan) take(rec *kgo.Record) bool {
	if p.ends == nil {
		return !rec.Attrs.IsControl()
	}
	end, open := p.ends[rec.Partition]
	if open && rec.Offset >= end-1 {
		delete(p.ends, rec.Partition)
	}
	return open && rec.Offset < end && !rec.Attrs.IsControl()
}
