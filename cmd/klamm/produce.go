package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

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
	keySet    bool
	null      string
	nullSet   bool
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
		Long: "Send records, one per line of standard input or of a file, and wait until all are acknowledged.\n" +
			"A topic that does not exist is made if the cluster allows it.",
		Example: "  seq 1000 | klamm produce numbers\n" +
			"  klamm produce orders --file orders.tsv --key-separator '\\t'\n" +
			"  klamm produce blobs --file photo.jpg --whole --key photo --header type=image/jpeg\n" +
			"  echo 3q2+7w== | klamm produce bin --input base64\n" +
			"  echo 'user-7:-' | klamm produce users --key-separator : --null -    # a tombstone\n" +
			"  klamm consume a --from start --to-end -o json | klamm produce b --input json",
		Args: oneArg("topic"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.keySet, f.nullSet = cmd.Flags().Changed("key"), cmd.Flags().Changed("null")
			return runProduce(cmd.Context(), std, args[0], f)
		},
	}
	f.client.register(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "file", "f", "-", "read from this file; - is standard input")
	flags.StringVarP(&f.separator, "key-separator", "K", "", "split each line into key and value at the first occurrence; \\t is a tab")
	flags.StringVarP(&f.key, "key", "k", "", "key of every record")
	flags.StringArrayVarP(&f.headers, "header", "H", nil, "header name=value of every record; may be repeated")
	flags.StringVar(&f.null, "null", "", "a key or value that is exactly this text is null")
	flags.StringVar(&f.input, "input", "text", "how values are written: text, base64 or hex; or json, as consume prints whole records")
	flags.BoolVar(&f.whole, "whole", false, "the whole input is one value, newlines and all")
	flags.Int32VarP(&f.partition, "partition", "p", -1, "send to this partition; -1 lets key and load decide")
	flags.StringVarP(&f.codec, "compression", "z", "none", "none, gzip, snappy, lz4 or zstd")
	flags.StringVar(&f.acks, "acks", "all", "all, 1 or 0")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "no progress line")
	return cmd
}

func runProduce(ctx context.Context, std streams, topic string, f produceFlags) error {
	recipe, err := newRecipe(topic, f)
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
	defer func() { _ = in.Close() }() // it was only read
	client, err := f.client.connect(ctx, std, opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	typed := f.file == "-" && isTerminal(std.in)
	if typed && !f.quiet {
		fmt.Fprintln(std.err, "one record a line; Ctrl-D ends")
	}
	s := &sender{client: client, recipe: recipe, timeout: f.client.timeout, progress: newProgress(std.err, "sent", !f.quiet && !typed)}
	return s.sendAll(ctx, in, f.whole)
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
		return nil, usagef("--file: %w", err)
	}
	return f, nil
}

// sender sends the records of one input.
type sender struct {
	client  *kgo.Client
	recipe  *recipe
	timeout time.Duration

	mu       sync.Mutex
	progress *progress // counts what was acknowledged
}

// sendAll sends every record and waits for the last answer. The first failure stops it,
// and so does a cluster that leaves records unanswered for the timeout.
func (s *sender) sendAll(ctx context.Context, in io.Reader, whole bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(s.timeout, func() {
		if waiting := s.client.BufferedProduceRecords(); waiting > 0 {
			cancel(fmt.Errorf("nothing was acknowledged for %s, %d records are waiting", s.timeout, waiting))
		}
	})
	defer silence.Stop()
	send := func(n int, text string) error {
		rec, err := s.recipe.record(text)
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if s.client.BufferedProduceRecords() == 0 {
			silence.Reset(s.timeout) // nothing was due until now
		}
		s.client.Produce(ctx, rec, func(rec *kgo.Record, err error) {
			silence.Reset(s.timeout)
			s.answered(rec, err, cancel)
		})
		return context.Cause(ctx)
	}
	// A read from a terminal or a pipe cannot be called off, so it is left behind.
	read := make(chan error, 1)
	go func() { read <- eachInput(in, whole, send) }()
	var err error
	select {
	case err = <-read:
	case <-ctx.Done():
	}
	if flushErr := s.client.Flush(ctx); err == nil {
		err = flushErr
	}
	return s.outcome(ctx, err)
}

func (s *sender) answered(rec *kgo.Record, err error, cancel context.CancelCauseFunc) {
	if err != nil {
		cancel(topicError(rec.Topic, err))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress.add(len(rec.Key) + len(rec.Value))
}

// outcome is the error of the whole, with what was acknowledged in spite of it.
func (s *sender) outcome(ctx context.Context, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress.done()
	if reason := context.Cause(ctx); reason != nil {
		err = reason
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		err = errInterrupted
	}
	return fmt.Errorf("%w (%d records were acknowledged)", err, s.progress.records)
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
	n := 0
	for lines.Scan() {
		n++
		if err := fn(n, lines.Text()); err != nil {
			return err
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("line %d: longer than %d MiB", n+1, maxLineBytes>>20)
	}
	return lines.Err()
}
