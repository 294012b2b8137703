package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/klamm-mq/klamm/logstore/dump"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
)

func newLog(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Look into the files of a log directory, without a broker",
		Long: "Look into the files of a log directory, Klamm's or Kafka's. Nothing is changed, and no broker is needed;\n" +
			"beside one that runs, the end of a log may look unfinished.",
		Example: "  klamm log dump data/orders-0/00000000000000000000.log\n" +
			"  klamm log check data",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newLogDump(std), newLogCheck(std))
	return cmd
}

// errDamaged is the end of a command that has found damage, and has said where.
var errDamaged = errors.New("there is damage")

func newLogDump(std streams) *cobra.Command {
	var output string
	var raw, batchesOnly bool
	cmd := &cobra.Command{
		Use:   "dump FILE...",
		Short: "Show what is in segments, indexes, snapshots and checkpoints",
		Long: "Show what is in the files of a log directory, one thing a line: batches and records of .log, entries of\n" +
			".index, .timeindex and .txnindex, producers of .snapshot, lines of checkpoints, partition.metadata and\n" +
			"meta.properties. The name of a file says what it is. Records of __consumer_offsets and\n" +
			"__transaction_state are decoded. Damage appears in its place, and the exit code is 1.",
		Example: "  klamm log dump data/orders-0/00000000000000000000.log\n" +
			"  klamm log dump --batches data/orders-0/*.log\n" +
			"  klamm log dump --output json data/__consumer_offsets-17/00000000000000000000.log",
		Args: someArgs("file"),
		RunE: func(_ *cobra.Command, files []string) error {
			o := logOptions()
			o.BatchesOnly = batchesOnly
			if !raw {
				o.Decode = decodeInternal
			}
			return dumpFiles(std.out, o, output, files)
		},
	}
	registerOutput(cmd, &output)
	cmd.Flags().BoolVar(&batchesOnly, "batches", false, "the batches of a segment without their records")
	cmd.Flags().BoolVar(&raw, "raw", false, "keys and values of internal topics as bytes")
	return cmd
}

func logOptions() dump.Options {
	return dump.Options{FS: vfs.OS(), Codecs: batch.NewCodecs(batch.CodecsOptions{})}
}

// registerOutput adds --output for commands that print a table or lines, or JSON.
func registerOutput(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", "text", "text, or json: one object a line")
}

// isJSON reads --output.
func isJSON(output string) (bool, error) {
	switch output {
	case "text":
		return false, nil
	case "json":
		return true, nil
	}
	return false, usagef("--output %s: want text or json", output)
}

// entryPrinter prints entries as lines of text or JSON.
func entryPrinter(w io.Writer, output string) (func(dump.Entry) error, error) {
	asJSON, err := isJSON(output)
	if err != nil {
		return nil, err
	}
	if asJSON {
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		return func(e dump.Entry) error { return encoder.Encode(e) }, nil
	}
	return func(e dump.Entry) error {
		_, err := fmt.Fprintln(w, e.Text())
		return err
	}, nil
}

// dumpFiles shows each file that it can, and then says which it could not.
func dumpFiles(w io.Writer, o dump.Options, output string, files []string) error {
	out := bufio.NewWriter(w)
	show, err := entryPrinter(out, output)
	if err != nil {
		return err
	}
	var failed []error
	for _, file := range files {
		if len(files) > 1 {
			if err := show(dump.Entry{Kind: "file", Fields: []dump.Field{{Name: "name", Value: file}}}); err != nil {
				return err
			}
		}
		problems, err := dump.File(o, file, show)
		for _, p := range problems {
			failed = append(failed, p)
		}
		if err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(append(failed, out.Flush())...)
}

func newLogCheck(std streams) *cobra.Command {
	var output string
	var gaps bool
	cmd := &cobra.Command{
		Use:   "check DIR...",
		Short: "Check every file of a log directory, or of one partition",
		Long: "Check a log directory, or the directory of one partition: CRC and content of every batch, that offsets\n" +
			"and epochs rise, that indexes lead to what they say, that checkpoints and snapshots can be read, and that\n" +
			"nothing is missing that had reached the disk. Each damage is a line with file and position, and makes the\n" +
			"exit code 1. What a crash explains and the next start repairs is a note.",
		Example: "  klamm log check /var/lib/klamm\n" +
			"  klamm log check --gaps data/orders-0 data/orders-1",
		Args: someArgs("directory"),
		RunE: func(_ *cobra.Command, dirs []string) error {
			o := logOptions()
			o.GapsAreDamage = gaps
			return checkDirs(std.out, o, output, dirs)
		},
	}
	registerOutput(cmd, &output)
	cmd.Flags().BoolVar(&gaps, "gaps", false, "gaps between offsets are damage: the topics are not compacted")
	return cmd
}

func checkDirs(out io.Writer, o dump.Options, output string, dirs []string) error {
	show, err := entryPrinter(out, output)
	if err != nil {
		return err
	}
	var failed []error
	for _, dir := range dirs {
		report, err := dump.Check(o, dir)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		for _, e := range reportEntries(dir, report) {
			if err := show(e); err != nil {
				return err
			}
		}
		if n := len(report.Problems); n > 0 {
			failed = append(failed, fmt.Errorf("%s: %w: %d in all, the first: %w", dir, errDamaged, n, report.Problems[0]))
		}
	}
	return errors.Join(failed...)
}

// reportEntries are the findings of a check, and a summary.
func reportEntries(dir string, r dump.Report) []dump.Entry {
	var entries []dump.Entry
	found := func(kind string, problems []dump.Problem) {
		for _, p := range problems {
			place := dump.Field{Name: "pos", Value: p.Pos}
			if p.Line > 0 {
				place = dump.Field{Name: "line", Value: p.Line}
			}
			entries = append(entries, dump.Entry{Kind: kind, Fields: []dump.Field{
				{Name: "file", Value: p.File}, place, {Name: "reason", Value: p.Reason},
			}})
		}
	}
	found("damage", r.Problems)
	found("note", r.Notes)
	return append(entries, dump.Entry{Kind: "checked", Fields: []dump.Field{
		{Name: "dir", Value: dir},
		{Name: "partitions", Value: r.Partitions},
		{Name: "segments", Value: r.Segments},
		{Name: "batches", Value: r.Batches},
		{Name: "records", Value: r.Records},
		{Name: "bytes", Value: r.Bytes},
		{Name: "damaged", Value: len(r.Problems)},
		{Name: "notes", Value: len(r.Notes)},
	}})
}
