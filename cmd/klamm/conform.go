package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"sync"

	"github.com/spf13/cobra"

	"github.com/klamm-mq/klamm/conform"
	"github.com/klamm-mq/klamm/conform/scenarios"
	"github.com/klamm-mq/klamm/conform/transcripts"
)

// conformFlags are the flags of klamm conform.
type conformFlags struct {
	bootstrap, reference string
	run, json, record    string
	list                 bool
	invasive, explained  bool
	parallel, limit      int
}

func newConform(std streams) *cobra.Command {
	var f conformFlags
	cmd := &cobra.Command{
		Use:   "conform",
		Short: "Compare any Kafka-compatible broker with Apache Kafka 4.4, answer by answer",
		Long: "Sends the same requests to a broker as were sent to Apache Kafka 4.4, or are sent now to a second broker,\n" +
			"and compares the answers field by field. Topics and groups have names of their own that begin with \"conform-\",\n" +
			"and are deleted again, also after Ctrl-C. The exit code is 0 if nothing differs.\n\n" +
			"APIs that the broker does not advertise are listed, not judged.",
		Example: "  klamm conform --bootstrap localhost:9092\n" +
			"  klamm conform --bootstrap localhost:9092 --reference localhost:19092 --run '^fetch/'\n" +
			"  klamm conform --bootstrap localhost:9092 --json report.json",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runConform(cmd.Context(), std, f) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.bootstrap, "bootstrap", "b", "127.0.0.1:9092", "broker to judge, `host:port`")
	flags.StringVar(&f.reference, "reference", "", "broker to compare with, `host:port`; without it the answers recorded from Apache Kafka 4.4")
	flags.StringVar(&f.run, "run", "", "run only scenarios whose name matches this `regexp`")
	flags.BoolVar(&f.list, "list", false, "print the names of the scenarios and do nothing else")
	flags.StringVar(&f.json, "json", "", "write the report as JSON to this `file`, too; - for standard output in place of the table")
	flags.StringVar(&f.record, "record", "", "write what the broker answers into this `directory` instead of judging it")
	flags.BoolVar(&f.invasive, "invasive", false, "run scenarios that change the cluster's configuration, too")
	flags.BoolVar(&f.explained, "explained", false, "accept the differences that Klamm means")
	flags.IntVar(&f.parallel, "parallel", 4, "scenarios that run at a time")
	flags.IntVar(&f.limit, "limit", 100, "differences to print")
	return cmd
}

func runConform(ctx context.Context, std streams, f conformFlags) error {
	chosen, err := choose(f.run)
	if err != nil {
		return err
	}
	if f.list {
		for _, s := range chosen {
			fmt.Fprintln(std.out, s.Name)
		}
		return nil
	}
	target, err := conform.Connect(ctx, f.bootstrap)
	if err != nil {
		return err
	}
	if f.record != "" {
		return record(ctx, std, target, chosen, f)
	}
	outcomes, reference, err := runBoth(ctx, std, target, chosen, f)
	if ctx.Err() != nil {
		return errors.Join(errInterrupted, err)
	}
	if err != nil {
		return err
	}
	report, err := judge(target, outcomes, reference, f)
	if err != nil {
		return err
	}
	if err := writeReport(std, report, f); err != nil {
		return err
	}
	if !report.Passed {
		return fmt.Errorf("%s differs from %s", f.bootstrap, report.Reference)
	}
	return nil
}

func choose(pattern string) (chosen []conform.Scenario, err error) {
	want, err := regexp.Compile(pattern)
	if err != nil {
		return nil, usagef("--run: %v", err)
	}
	for _, s := range scenarios.All() {
		if want.MatchString(s.Name) {
			chosen = append(chosen, s)
		}
	}
	if len(chosen) == 0 {
		return nil, usagef("--run %s: no scenario has such a name", pattern)
	}
	return chosen, nil
}

func record(ctx context.Context, std streams, target *conform.Target, chosen []conform.Scenario, f conformFlags) error {
	outcomes, err := conform.Run(ctx, target, chosen, f.options(std))
	failed := []error{err, ctx.Err()}
	for _, o := range outcomes {
		failed = append(failed, o.Err)
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	return transcripts.Write(f.record, outcomes)
}

func (f conformFlags) options(std streams) conform.Options {
	o := conform.Options{Parallel: f.parallel, Invasive: f.invasive}
	if isTerminal(std.err) {
		o.Progress = func(done, of int, s *conform.Scenario, _ error) {
			fmt.Fprintf(std.err, "\r\x1b[K%d of %d  %s", done, of, s.Name)
			if done == of {
				fmt.Fprint(std.err, "\r\x1b[K")
			}
		}
	}
	return o
}

// runBoth runs the scenarios against the broker and, if there is one, the reference.
func runBoth(ctx context.Context, std streams, target *conform.Target, chosen []conform.Scenario, f conformFlags) ([]conform.Outcome, map[string]conform.Transcript, error) {
	if f.reference == "" {
		reference, err := transcripts.Load()
		if err != nil {
			return nil, nil, err
		}
		outcomes, err := conform.Run(ctx, target, chosen, f.options(std))
		return outcomes, reference, err
	}
	other, err := conform.Connect(ctx, f.reference)
	if err != nil {
		return nil, nil, err
	}
	var outcomes, others []conform.Outcome
	var failed, otherFailed error
	var wg sync.WaitGroup
	wg.Go(func() { outcomes, failed = conform.Run(ctx, target, chosen, f.options(std)) })
	wg.Go(func() {
		others, otherFailed = conform.Run(ctx, other, chosen, conform.Options{Parallel: f.parallel, Invasive: f.invasive})
	})
	wg.Wait()
	reference := map[string]conform.Transcript{}
	for _, o := range others {
		if o.Err != nil {
			fmt.Fprintf(std.err, "reference: %v\n", o.Err)
		}
		if o.Skipped == "" {
			reference[o.Scenario.Name] = o.Transcript
		}
	}
	return outcomes, reference, errors.Join(failed, otherFailed)
}

func judge(target *conform.Target, outcomes []conform.Outcome, reference map[string]conform.Transcript, f conformFlags) (report conform.Report, err error) {
	var why conform.Explanations
	if f.explained {
		if why, err = transcripts.Explanations(); err != nil {
			return report, err
		}
	}
	report = conform.Judge(target, outcomes, reference, why)
	report.Reference = cmp.Or(f.reference, transcripts.Reference)
	if f.run != "" || !f.invasive {
		report.Forgive() // explanations of scenarios that did not run
	}
	return report, nil
}

// writeReport writes the table, and JSON where that is wanted.
func writeReport(std streams, report conform.Report, f conformFlags) error {
	raw, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	if raw = append(raw, '\n'); f.json == "-" {
		_, err := std.out.Write(raw)
		return err
	}
	if err := report.WriteText(std.out, f.limit); err != nil || f.json == "" {
		return err
	}
	return os.WriteFile(f.json, raw, 0o644)
}
