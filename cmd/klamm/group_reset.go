package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// resetFlags are named like those of Kafka's kafka-consumer-groups --reset-offsets.
type resetFlags struct {
	client    clientFlags
	topics    []string
	allTopics bool
	allGroups bool
	execute   bool
	dryRun    bool
	export    bool
	output    string

	toEarliest, toLatest, toCurrent bool
	toOffset, shiftBy               int64
	toDatetime, byDuration          string
	fromFile                        string
}

func newGroupReset(std streams) *cobra.Command {
	var f resetFlags
	cmd := &cobra.Command{
		Use:   "reset GROUP...",
		Short: "Change where groups go on reading",
		Long: "Change where groups without members go on reading. Nothing is changed without --execute: the command\n" +
			"prints what it would do. One flag says which partitions (--topic or --all-topics), one says where to.\n" +
			"An offset that lies outside of its partition becomes the nearest one that exists.",
		Example: "  klamm group reset billing --topic orders --to-earliest            # shows what would happen\n" +
			"  klamm group reset billing --topic orders --to-earliest --execute  # does it\n" +
			"  klamm group reset billing --topic orders:0,1 --shift-by -10 --execute\n" +
			"  klamm group reset billing --all-topics --to-datetime 2026-11-01T00:00:00Z --execute\n" +
			"  klamm group reset billing --all-topics --by-duration 2h --execute\n" +
			"  klamm group reset billing --all-topics --to-current --export > offsets.csv\n" +
			"  klamm group reset billing --from-file offsets.csv --execute",
		RunE: func(cmd *cobra.Command, groups []string) error {
			target, err := f.check(cmd, groups)
			if err != nil {
				return err
			}
			return withGroups(cmd.Context(), std, f.client, groups, func(ctx context.Context, admin *kadm.Client) error {
				return resetGroups(ctx, std, admin, f, groups, target)
			})
		},
	}
	f.client.register(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&f.topics, "topic", nil, "partitions to reset: TOPIC or TOPIC:PARTITION,PARTITION; may be repeated")
	flags.BoolVar(&f.allTopics, "all-topics", false, "every partition for which the group has committed")
	flags.BoolVar(&f.allGroups, "all-groups", false, "every group of the cluster")
	flags.BoolVar(&f.execute, "execute", false, "do it")
	flags.BoolVar(&f.dryRun, "dry-run", false, "only show what would be done; the default")
	registerOutput(cmd, &f.output)
	flags.BoolVar(&f.export, "export", false, "print as CSV, for --from-file")
	flags.BoolVar(&f.toEarliest, "to-earliest", false, "to the first record")
	flags.BoolVar(&f.toLatest, "to-latest", false, "to the end")
	flags.BoolVar(&f.toCurrent, "to-current", false, "to what is committed; to the end where nothing is")
	flags.Int64Var(&f.toOffset, "to-offset", 0, "to an offset")
	flags.Int64Var(&f.shiftBy, "shift-by", 0, "by so many records, back if negative")
	flags.StringVar(&f.toDatetime, "to-datetime", "", "to the first record at or after a time: 2026-11-01T00:00:00Z or @MS")
	flags.StringVar(&f.byDuration, "by-duration", "", "to the first record of the last so long: 2h30m or PT2H30M")
	flags.StringVar(&f.fromFile, "from-file", "", "to what a file says: lines TOPIC,PARTITION,OFFSET or GROUP,TOPIC,PARTITION,OFFSET")
	return cmd
}

// check finds contradictions in the flags, and says where to reset.
func (f *resetFlags) check(cmd *cobra.Command, groups []string) (resetTarget, error) {
	if _, err := isJSON(f.output); err != nil {
		return resetTarget{}, err
	}
	switch {
	case f.allGroups == (len(groups) > 0):
		return resetTarget{}, usagef("want names of groups or --all-groups")
	case f.execute && f.dryRun:
		return resetTarget{}, usagef("--execute and --dry-run exclude each other")
	}
	var named []string
	for _, name := range []string{"to-earliest", "to-latest", "to-current", "to-offset", "shift-by", "to-datetime", "by-duration", "from-file"} {
		if cmd.Flags().Changed(name) {
			named = append(named, name)
		}
	}
	if len(named) != 1 {
		return resetTarget{}, usagef("want one of --to-earliest, --to-latest, --to-current, --to-offset, --shift-by, --to-datetime, --by-duration, --from-file")
	}
	if scopes := btoi(len(f.topics) > 0) + btoi(f.allTopics); scopes != btoi(f.fromFile == "") {
		if f.fromFile != "" {
			return resetTarget{}, usagef("--from-file says which partitions; leave --topic and --all-topics out")
		}
		return resetTarget{}, usagef("want either --topic or --all-topics")
	}
	return f.target(named[0], groups)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (f *resetFlags) target(flag string, groups []string) (resetTarget, error) {
	target := resetTarget{to: flag, n: f.toOffset}
	switch flag {
	case "shift-by":
		target.n = f.shiftBy
	case "to-datetime":
		ms, ok := parseDatetime(f.toDatetime)
		if !ok {
			return target, usagef("--to-datetime %s: want a time such as 2026-11-01T00:00:00Z or @MS", f.toDatetime)
		}
		target.timeMs = ms
	case "by-duration":
		d, err := parsePeriod(f.byDuration)
		if err != nil {
			return target, err
		}
		target.timeMs = time.Now().Add(-d).UnixMilli()
	case "from-file":
		plan, err := readResetFile(f.fromFile, groups)
		if err != nil {
			return target, err
		}
		target.plan = plan
	}
	return target, nil
}

// resetRow is what happens to one partition of one group.
type resetRow struct {
	group string
	topicPartition
	before, after int64 // before is -1 where nothing was committed
}

func resetGroups(ctx context.Context, std streams, admin *kadm.Client, f resetFlags, groups []string, target resetTarget) error {
	if f.allGroups {
		listed, err := admin.ListGroupsByType(ctx, describedKinds())
		if err != nil {
			return err
		}
		groups = listed.Groups()
	}
	named, err := namedPartitions(ctx, admin, f.topics)
	if err != nil {
		return err
	}
	var rows []resetRow
	var failed []error
	for _, name := range groups {
		more, err := resetGroup(ctx, std, admin, f, name, named, target)
		rows, failed = append(rows, more...), append(failed, err)
	}
	if err := f.printResets(std.out, len(groups) == 1, rows); err != nil {
		return err
	}
	if !f.execute && len(rows) > 0 {
		fmt.Fprintln(std.err, "nothing was changed; add --execute to do it")
	}
	return errors.Join(failed...)
}

// resetGroup resets one group, or only says what it would do. What could not be
// committed is an error and no row.
func resetGroup(ctx context.Context, std streams, admin *kadm.Client, f resetFlags, name string, named []topicPartition, target resetTarget) ([]resetRow, error) {
	if err := mustBeInactive(ctx, admin, name); err != nil {
		return nil, err
	}
	rows, warnings, err := planReset(ctx, admin, name, named, f.allTopics, target)
	if err != nil {
		return nil, groupError(name, err)
	}
	for _, warning := range warnings {
		fmt.Fprintf(std.err, "group %s: %s\n", name, warning)
	}
	if !f.execute || len(rows) == 0 {
		return rows, nil
	}
	offsets := kadm.Offsets{}
	for _, row := range rows {
		offsets.Add(kadm.Offset{Topic: row.topic, Partition: row.partition, At: row.after, LeaderEpoch: -1})
	}
	done, err := admin.CommitOffsets(ctx, name, offsets)
	if err != nil {
		return nil, groupError(name, err)
	}
	var failed []error
	rows = slices.DeleteFunc(rows, func(row resetRow) bool {
		err := orNoAnswer(nil)
		if answer, found := done.Lookup(row.topic, row.partition); found {
			err = answer.Err
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("group %s: %s: %w", name, row.topicPartition, err))
		}
		return err != nil
	})
	return rows, errors.Join(failed...)
}

// mustBeInactive refuses a group with members: their next commit would undo the reset.
func mustBeInactive(ctx context.Context, admin *kadm.Client, name string) error {
	listed, err := admin.DescribeGroups(ctx, name)
	if err != nil && len(listed) == 0 {
		return groupError(name, err)
	}
	state, err := listed[name].State, listed[name].Err
	if errors.Is(err, kerr.GroupIDNotFound) {
		groups, _ := describeConsumerGroups(ctx, admin, []string{name}) // an error means that there is none
		if len(groups) == 0 {
			return nil
		}
		state, err = groups[0].state, nil
	}
	switch {
	case err != nil:
		return groupError(name, err)
	case state == "Empty" || state == "Dead":
		return nil
	}
	return fmt.Errorf("group %s is %s; stop its members first", name, state)
}

// printResets prints a table, or what --from-file reads: without the group if there is
// only one, as Kafka's tool does.
func (f *resetFlags) printResets(out io.Writer, oneGroup bool, rows []resetRow) error {
	if f.export {
		w := csv.NewWriter(out)
		for _, row := range rows {
			record := []string{row.group, row.topic, strconv.Itoa(int(row.partition)), strconv.FormatInt(row.after, 10)}
			if oneGroup {
				record = record[1:]
			}
			if err := w.Write(record); err != nil {
				return err
			}
		}
		w.Flush()
		return w.Error()
	}
	table, err := newTable(out, f.output, "GROUP", "TOPIC", "PARTITION", "BEFORE", "AFTER")
	if err != nil {
		return err
	}
	for _, row := range rows {
		if err := table.row(row.group, row.topic, row.partition, committedCell(row.before), row.after); err != nil {
			return err
		}
	}
	return table.flush()
}

// readResetFile reads the file of --from-file into offsets by group and partition.
func readResetFile(name string, groups []string) (map[string]map[topicPartition]int64, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, usageError{err}
	}
	r := csv.NewReader(bytes.NewReader(text))
	r.FieldsPerRecord, r.TrimLeadingSpace = -1, true
	records, err := r.ReadAll()
	if err != nil {
		return nil, usagef("%s: %w", name, err)
	}
	plan := map[string]map[topicPartition]int64{}
	for i, record := range records {
		if len(record) == 3 && len(groups) == 1 {
			record = append([]string{groups[0]}, record...)
		}
		if err := addResetLine(plan, record); err != nil {
			return nil, usagef("%s: line %d: %w", name, i+1, err)
		}
	}
	return plan, nil
}

func addResetLine(plan map[string]map[topicPartition]int64, record []string) error {
	if len(record) != 4 {
		return errors.New("want TOPIC,PARTITION,OFFSET for one group, or GROUP,TOPIC,PARTITION,OFFSET")
	}
	partition, err := strconv.ParseUint(record[2], 10, 31)
	if err != nil {
		return fmt.Errorf("%q is not the number of a partition", record[2])
	}
	offset, err := strconv.ParseInt(record[3], 10, 64)
	if err != nil {
		return fmt.Errorf("%q is not an offset", record[3])
	}
	if plan[record[0]] == nil {
		plan[record[0]] = map[topicPartition]int64{}
	}
	plan[record[0]][topicPartition{record[1], int32(partition)}] = offset
	return nil
}
