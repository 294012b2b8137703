package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

// maxLineBytes bounds one input line: a record of this size is refused by any broker
// with usual settings.
const maxLineBytes = 64 << 20

type produceFlags struct {
	client    clientFlags
	file      string
	separator string
	headers   []string
	key       string
	input     string
	whole     bool
	partition int32
	codec     string
	acks      string
	quiet     bool
}

func newProduce(std streams) *cobra.Command {
	var f produceFlags
	cmd := &cobra.Command{
		Use:   "produce TOPIC",
		Short: "Send records, one per line of standard input or of a file",
		Example: "  seq 1000 | klamm produce numbers\n" +
			"  klamm produce orders --file orders.tsv --key-separator '\\t'\n" +
			"  klamm produce blobs --file photo.jpg --whole --key photo --header type=image/jpeg\n" +
			"  echo 3q2+7w== | klamm produce bin --input base64",
		Args: exactArgs(1, "one topic"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runProduce(cmd.Context(), std, args[0], f, cmd.Flags().Changed("key"))
		},
	}
	f.client.register(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "file", "f", "-", "read from this file; - is standard input")
	flags.StringVarP(&f.separator, "key-separator", "K", "", "split each line into key and value at the first occurrence; \\t is a tab")
	flags.StringVarP(&f.key, "key", "k", "", "key of every record")
	flags.StringArrayVarP(&f.headers, "header", "H", nil, "header name=value of every record; may be repeated")
	flags.StringVar(&f.input, "input", "text", "how values are written: text, base64 or hex")
	flags.BoolVar(&f.whole, "whole", false, "the whole input is one value, newlines and all")
	flags.Int32VarP(&f.partition, "partition", "p", -1, "send to this partition; -1 lets key and load decide")
	flags.StringVarP(&f.codec, "compression", "z", "none", "none, gzip, snappy, lz4 or zstd")
	flags.StringVar(&f.acks, "acks", "all", "all, 1 or 0")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "no progress line")
	return cmd
}

func runProduce(ctx context.Context, std streams, topic string, f produceFlags, keyed bool) error {
	recipe, err := newRecipe(topic, f, keyed)
	if err != nil {
		return err
	}
	opts, err := f.options()
	if err != nil {
		return err
	}
	in, err := openInput(f.file, std.in)
	if err != nil {
		return err
	}
	defer in.Close()
	client, err := f.client.connect(opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	return sendAll(ctx, client, recipe, in, f.whole, newProgress(std.err, "sent", f.quiet))
}

func (f produceFlags) options() ([]kgo.Opt, error) {
	opts := []kgo.Opt{kgo.AllowAutoTopicCreation()}
	codec, ok := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}[f.codec]
	if !ok {
		return nil, usagef("--compression %s: want none, gzip, snappy, lz4 or zstd", f.codec)
	}
	opts = append(opts, kgo.ProducerBatchCompression(codec))
	switch f.acks {
	case "all":
	case "1":
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	case "0":
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	default:
		return nil, usagef("--acks %s: want all, 1 or 0", f.acks)
	}
	if f.partition >= 0 {
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	return opts, nil
}

func openInput(name string, stdin io.Reader) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(stdin), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, usageError{err}
	}
	return f, nil
}

// recipe turns one piece of input into a record.
type recipe struct {
	topic     string
	partition int32
	separator string
	key       []byte
	headers   []kgo.RecordHeader
	decode    func(string) ([]byte, error)
}

func newRecipe(topic string, f produceFlags, keyed bool) (*recipe, error) {
	r := &recipe{topic: topic, partition: f.partition}
	if f.separator != "" {
		r.separator = strings.NewReplacer(`\t`, "\t", `\0`, "\x00").Replace(f.separator)
	}
	if keyed {
		r.key = []byte(f.key)
	}
	for _, h := range f.headers {
		name, value, ok := strings.Cut(h, "=")
		if !ok || name == "" {
			return nil, usagef("--header %q: want name=value", h)
		}
		r.headers = append(r.headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	switch f.input {
	case "text":
		r.decode = func(s string) ([]byte, error) { return []byte(s), nil }
	case "base64":
		r.decode = base64.StdEncoding.DecodeString
	case "hex":
		r.decode = hex.DecodeString
	default:
		return nil, usagef("--input %s: want text, base64 or hex", f.input)
	}
	return r, nil
}

func (r *recipe) record(text string) (*kgo.Record, error) {
	rec := &kgo.Record{Topic: r.topic, Partition: max(r.partition, 0), Key: r.key, Headers: r.headers}
	if r.separator != "" {
		if key, value, ok := strings.Cut(text, r.separator); ok {
			rec.Key, text = []byte(key), value
		}
	}
	value, err := r.decode(text)
	if err != nil {
		return nil, err
	}
	rec.Value = value
	return rec, nil
}

// sendAll sends every record and waits for the last answer. The first failure stops it.
func sendAll(ctx context.Context, client *kgo.Client, r *recipe, in io.Reader, whole bool, p *progress) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	acked := func(rec *kgo.Record, err error) {
		if err != nil {
			cancel(fmt.Errorf("send to %s: %w", rec.Topic, err))
			return
		}
		mu.Lock()
		defer mu.Unlock()
		p.add(len(rec.Key) + len(rec.Value))
	}
	err := eachInput(in, whole, func(n int, text string) error {
		rec, err := r.record(text)
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		client.Produce(ctx, rec, acked)
		return context.Cause(ctx)
	})
	if flushErr := client.Flush(ctx); err == nil {
		err = flushErr
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	mu.Lock()
	defer mu.Unlock()
	p.done()
	return err
}

// eachInput calls fn with each line (numbered from 1, without its line end), or once
// with everything.
func eachInput(in io.Reader, whole bool, fn func(n int, text string) error) error {
	if whole {
		all, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		return fn(1, string(all))
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), maxLineBytes)
	for n := 1; lines.Scan(); n++ {
		if err := fn(n, lines.Text()); err != nil {
			return err
		}
	}
	return lines.Err()
}
