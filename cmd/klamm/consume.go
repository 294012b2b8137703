package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

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
	output    string
	committed bool
	quiet     bool
}

func newConsume(std streams) *cobra.Command {
	var f consumeFlags
	cmd := &cobra.Command{
		Use:   "consume TOPIC",
		Short: "Read records and print one per line",
		Example: "  klamm consume orders --from start --to-end\n" +
			"  klamm consume orders --from 2026-11-01T00:00:00Z --count 10\n" +
			"  klamm consume orders --partition 0 --from 4711 --output json\n" +
			"  klamm consume orders --format '%p:%o %k=%v\\n'",
		Long: "Read records from all partitions of a topic, or from one, and print them.\n\n" +
			"--from takes start, end, an offset, -N (the last N of each partition) or a time in RFC 3339.\n" +
			"--format takes %t topic, %p partition, %o offset, %T timestamp in ms, %k key, %v value,\n" +
			"%h headers, %% and the escapes \\n \\t \\0.",
		Args: exactArgs(1, "one topic"),
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
	print, err := newPrinter(f.output, f.format)
	if err != nil {
		return err
	}
	client, err := f.client.connect()
	if err != nil {
		return err
	}
	defer client.Close()
	plan, err := planRead(ctx, kadm.NewClient(client), topic, f, start)
	if err != nil {
		return err
	}
	opts := []kgo.Opt{kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: plan.starts})}
	if f.committed {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	reader, err := f.client.connect(opts...)
	if err != nil {
		return err
	}
	defer reader.Close()
	out := bufio.NewWriter(std.out)
	p := newProgress(std.err, "read", f.quiet)
	err = readAll(ctx, reader, plan, f.count, func(rec *kgo.Record) error {
		p.add(len(rec.Key) + len(rec.Value))
		return print(out, rec)
	}, out.Flush)
	p.done()
	return errors.Join(err, out.Flush())
}

// startAt is a parsed --from.
type startAt struct {
	offset kgo.Offset
	last   int64 // > 0: the last N of each partition
}

func parseStart(s string) (startAt, error) {
	switch s {
	case "start":
		return startAt{offset: kgo.NewOffset().AtStart()}, nil
	case "end":
		return startAt{offset: kgo.NewOffset().AtEnd()}, nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		if n < 0 {
			return startAt{last: -n}, nil
		}
		return startAt{offset: kgo.NewOffset().At(n)}, nil
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return startAt{}, usagef("--from %s: want start, end, an offset, -N or a time such as 2026-11-01T00:00:00Z", s)
	}
	return startAt{offset: kgo.NewOffset().AfterMilli(at.UnixMilli())}, nil
}

// readPlan is where each partition begins and, with --to-end, where it is finished.
type readPlan struct {
	starts map[int32]kgo.Offset
	ends   map[int32]int64 // nil: read for ever
}

func planRead(ctx context.Context, admin *kadm.Client, topic string, f consumeFlags, start startAt) (readPlan, error) {
	begins, err := admin.ListStartOffsets(ctx, topic)
	if err == nil {
		err = begins.Error()
	}
	if err != nil {
		return readPlan{}, fmt.Errorf("start offsets of %s: %w", topic, err)
	}
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return readPlan{}, fmt.Errorf("end offsets of %s: %w", topic, err)
	}
	plan := readPlan{starts: map[int32]kgo.Offset{}}
	if f.toEnd {
		plan.ends = map[int32]int64{}
	}
	begins.Each(func(begin kadm.ListedOffset) {
		end, known := ends.Lookup(topic, begin.Partition)
		if !known || f.partition >= 0 && begin.Partition != f.partition {
			return
		}
		at := start.offset
		if start.last > 0 {
			at = kgo.NewOffset().At(max(end.Offset-start.last, begin.Offset))
		}
		plan.starts[begin.Partition] = at
		if f.toEnd && begin.Offset < end.Offset {
			plan.ends[begin.Partition] = end.Offset
		}
	})
	if len(plan.starts) == 0 {
		return readPlan{}, usagef("--partition %d: topic %s has %d partition(s)", f.partition, topic, len(begins[topic]))
	}
	return plan, nil
}

// readAll hands records to fn until the plan's ends, the count, the context's end or an error.
func readAll(ctx context.Context, reader *kgo.Client, plan readPlan, count int64, fn func(*kgo.Record) error, flush func() error) error {
	for seen := int64(0); !plan.finished(); {
		fetches := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil // interrupted by the user
		}
		if err := fetches.Err(); err != nil {
			return err
		}
		for it := fetches.RecordIter(); !it.Done(); {
			rec := it.Next()
			if !plan.take(rec) {
				continue
			}
			if err := fn(rec); err != nil {
				return err
			}
			if seen++; seen == count {
				return nil
			}
		}
		if err := flush(); err != nil {
			return err
		}
	}
	return nil
}

func (p readPlan) finished() bool { return p.ends != nil && len(p.ends) == 0 }

// take reports whether rec is wanted, and strikes its partition off once it is read to its end.
func (p readPlan) take(rec *kgo.Record) bool {
	if p.ends == nil {
		return true
	}
	end, open := p.ends[rec.Partition]
	if open && rec.Offset >= end-1 {
		delete(p.ends, rec.Partition)
	}
	return open && rec.Offset < end
}

// printer writes one record.
type printer func(w io.Writer, rec *kgo.Record) error

func newPrinter(output, format string) (printer, error) {
	switch output {
	case "text":
		return textPrinter(format), nil
	case "json":
		return printJSON, nil
	case "base64":
		return func(w io.Writer, rec *kgo.Record) error {
			_, err := fmt.Fprintln(w, base64.StdEncoding.EncodeToString(rec.Value))
			return err
		}, nil
	case "hex":
		return func(w io.Writer, rec *kgo.Record) error {
			_, err := fmt.Fprintln(w, hex.EncodeToString(rec.Value))
			return err
		}, nil
	}
	return nil, usagef("--output %s: want text, json, base64 or hex", output)
}

func textPrinter(format string) printer {
	format = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\0`, "\x00").Replace(format)
	return func(w io.Writer, rec *kgo.Record) error {
		headers := make([]string, 0, len(rec.Headers))
		for _, h := range rec.Headers {
			headers = append(headers, h.Key+"="+string(h.Value))
		}
		_, err := strings.NewReplacer("%%", "%", "%t", rec.Topic, "%p", strconv.Itoa(int(rec.Partition)),
			"%o", strconv.FormatInt(rec.Offset, 10), "%T", strconv.FormatInt(rec.Timestamp.UnixMilli(), 10),
			"%k", string(rec.Key), "%v", string(rec.Value), "%h", strings.Join(headers, ",")).WriteString(w, format)
		return err
	}
}

// jsonRecord is the shape of a line with --output json. Bytes that are not UTF-8 appear
// in the …_base64 field instead of the plain one; null stays null.
type jsonRecord struct {
	Topic       string       `json:"topic"`
	Partition   int32        `json:"partition"`
	Offset      int64        `json:"offset"`
	Timestamp   int64        `json:"timestamp"`
	Key         *string      `json:"key"`
	KeyBase64   string       `json:"key_base64,omitempty"`
	Value       *string      `json:"value"`
	ValueBase64 string       `json:"value_base64,omitempty"`
	Headers     []jsonHeader `json:"headers,omitempty"`
}

type jsonHeader struct {
	Key         string  `json:"key"`
	Value       *string `json:"value"`
	ValueBase64 string  `json:"value_base64,omitempty"`
}

func printJSON(w io.Writer, rec *kgo.Record) error {
	line := jsonRecord{Topic: rec.Topic, Partition: rec.Partition, Offset: rec.Offset, Timestamp: rec.Timestamp.UnixMilli()}
	line.Key, line.KeyBase64 = textOrBase64(rec.Key)
	line.Value, line.ValueBase64 = textOrBase64(rec.Value)
	for _, h := range rec.Headers {
		header := jsonHeader{Key: h.Key}
		header.Value, header.ValueBase64 = textOrBase64(h.Value)
		line.Headers = append(line.Headers, header)
	}
	return json.NewEncoder(w).Encode(line)
}

func textOrBase64(b []byte) (text *string, encoded string) {
	if b == nil {
		return nil, ""
	}
	if !utf8.Valid(b) {
		return nil, base64.StdEncoding.EncodeToString(b)
	}
	s := string(b)
	return &s, ""
}
