package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func newGroupDescribe(std streams) *cobra.Command {
	var f clientFlags
	var members, state, all bool
	cmd := &cobra.Command{
		Use:   "describe GROUP...",
		Short: "Show what groups have committed and how far they are behind",
		Long: "Show for each partition what a group has committed, the end of the partition, the lag between both, and\n" +
			"the member that reads it. --members and --state show who is in a group and what it is doing.",
		Example: "  klamm group describe billing\n" +
			"  klamm group describe billing --members\n" +
			"  klamm group describe --all --state",
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case all && len(args) > 0:
				return usagef("--all and names of groups exclude each other")
			case all:
				return nil
			}
			return someArgs("group")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, names []string) error {
			if members && state {
				return usagef("--members and --state exclude each other")
			}
			return withGroups(cmd.Context(), std, f, names, func(ctx context.Context, admin *kadm.Client) error {
				groups, failed := describeGroups(ctx, admin, names, all)
				var err error
				switch {
				case members:
					err = printMembers(std.out, groups)
				case state:
					err = printStates(std.out, groups)
				default:
					err = printLags(ctx, std.out, admin, groups)
				}
				return errors.Join(failed, err)
			})
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "every group of the cluster")
	cmd.Flags().BoolVar(&members, "members", false, "the members and what they are assigned")
	cmd.Flags().BoolVar(&state, "state", false, "state, assignor and coordinator")
	return cmd
}

// group is a group of any kind, as far as this command shows it.
type group struct {
	name, kind, state, assignor string
	coordinator                 kadm.BrokerDetail
	members                     []member
}

type member struct {
	id, clientID, host string
	instance           string
	assigned           kadm.TopicsSet
}

// describedKinds are the kinds of group whose members read partitions and commit offsets.
func describedKinds() []string { return []string{"classic", "consumer"} }

// describeGroups asks for classic groups first; what is none may be a group of the
// consumer protocol (KIP-848), where the broker knows that.
func describeGroups(ctx context.Context, admin *kadm.Client, names []string, all bool) ([]group, error) {
	if all {
		listed, err := admin.ListGroupsByType(ctx, describedKinds())
		if err != nil {
			return nil, err
		}
		if names = listed.Groups(); len(names) == 0 {
			return nil, nil
		}
	}
	classic, err := admin.DescribeGroups(ctx, names...)
	if err != nil && len(classic) == 0 {
		return nil, err
	}
	var groups []group
	var others []string
	var failed []error
	for _, name := range names {
		switch g, answered := classic[name]; {
		case !answered:
			failed = append(failed, groupError(name, orNoAnswer(err)))
		case errors.Is(g.Err, kerr.GroupIDNotFound), g.Err == nil && g.State == "Dead":
			others = append(others, name)
		case g.Err != nil:
			failed = append(failed, groupError(name, g.Err))
		default:
			groups = append(groups, classicGroup(g))
		}
	}
	more, err := describeConsumerGroups(ctx, admin, others)
	groups = append(groups, more...)
	slices.SortFunc(groups, func(a, b group) int { return strings.Compare(a.name, b.name) })
	return groups, errors.Join(append(failed, err)...)
}

func classicGroup(g kadm.DescribedGroup) group {
	out := group{name: g.Group, kind: "classic", state: g.State, assignor: g.Protocol, coordinator: g.Coordinator}
	for _, m := range g.Members {
		set := kadm.TopicsSet{}
		if assigned, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range assigned.Topics {
				set.Add(t.Topic, t.Partitions...)
			}
		}
		out.members = append(out.members, member{m.MemberID, m.ClientID, m.ClientHost, orEmpty(m.InstanceID), set})
	}
	return out
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// describeConsumerGroups says of each name that is no such group that it does not exist;
// so it does where the broker has never heard of the protocol.
func describeConsumerGroups(ctx context.Context, admin *kadm.Client, names []string) (groups []group, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	described, askErr := admin.DescribeConsumerGroups(ctx, names...)
	var failed []error
	for _, name := range names {
		g, answered := described[name]
		if !answered || g.Err != nil {
			known := answered && askErr == nil && !errors.Is(g.Err, kerr.GroupIDNotFound)
			if !known {
				g.Err = kerr.GroupIDNotFound
			}
			failed = append(failed, groupError(name, g.Err))
			continue
		}
		out := group{name: g.Group, kind: "consumer", state: g.State, assignor: g.AssignorName, coordinator: g.Coordinator}
		for _, m := range g.Members {
			out.members = append(out.members, member{m.MemberID, m.ClientID, m.ClientHost, orEmpty(m.InstanceID), m.Assignment})
		}
		groups = append(groups, out)
	}
	return groups, errors.Join(failed...)
}

func printStates(out io.Writer, groups []group) error {
	if len(groups) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "GROUP\tTYPE\tSTATE\tASSIGNOR\tMEMBERS\tCOORDINATOR")
	for _, g := range groups {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d %s:%d\n", g.name, g.kind, g.state, dash(g.assignor), len(g.members),
			g.coordinator.NodeID, g.coordinator.Host, g.coordinator.Port)
	}
	return w.Flush()
}

func printMembers(out io.Writer, groups []group) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	head := "GROUP\tMEMBER\tINSTANCE\tHOST\tCLIENT\tASSIGNED\n"
	for _, g := range groups {
		for _, m := range g.members {
			fmt.Fprintf(w, "%s%s\t%s\t%s\t%s\t%s\t%s\n", head, g.name, m.id, dash(m.instance), m.host, dash(m.clientID), assignedText(m.assigned))
			head = ""
		}
	}
	return w.Flush()
}

// assignedText writes an assignment as topic:0,1 other:2.
func assignedText(set kadm.TopicsSet) string {
	var texts []string
	for _, t := range set.Sorted() {
		texts = append(texts, t.Topic+":"+nodes(t.Partitions))
	}
	return dash(strings.Join(texts, " "))
}

// lagRow is one partition of a group in the table.
type lagRow struct {
	topicPartition
	committed int64 // -1: nothing
	reader    *member
}

// lagRows are the partitions that a group has committed or reads now.
func lagRows(g group, committed kadm.OffsetResponses) []lagRow {
	rows := map[topicPartition]lagRow{}
	committed.Each(func(o kadm.OffsetResponse) {
		if o.Err == nil && o.At >= 0 {
			p := topicPartition{o.Topic, o.Partition}
			rows[p] = lagRow{p, o.At, nil}
		}
	})
	for i := range g.members {
		g.members[i].assigned.Each(func(topic string, partition int32) {
			p := topicPartition{topic, partition}
			row, found := rows[p]
			if !found {
				row = lagRow{p, -1, nil}
			}
			row.reader = &g.members[i]
			rows[p] = row
		})
	}
	sorted := make([]lagRow, 0, len(rows))
	for _, p := range sortedPartitions(rows) {
		sorted = append(sorted, rows[p])
	}
	return sorted
}

func printLags(ctx context.Context, out io.Writer, admin *kadm.Client, groups []group) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	head := "GROUP\tTOPIC\tPARTITION\tCOMMITTED\tEND\tLAG\tMEMBER\tHOST\tCLIENT\n"
	var failed []error
	for _, g := range groups {
		committed, err := admin.FetchOffsets(ctx, g.name)
		if err != nil {
			failed = append(failed, groupError(g.name, err))
			continue
		}
		rows := lagRows(g, committed)
		begins, ends, err := bounds(ctx, admin, rows)
		if err != nil {
			failed = append(failed, groupError(g.name, err))
			continue
		}
		for _, row := range rows {
			reader := member{}
			if row.reader != nil {
				reader = *row.reader
			}
			fmt.Fprintf(w, "%s%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", head, g.name, row.topic, row.partition,
				committedText(row.committed), offsetText(ends, row.topic, row.partition), row.lag(begins, ends),
				dash(reader.id), dash(reader.host), dash(reader.clientID))
			head = ""
		}
	}
	return errors.Join(append(failed, w.Flush())...)
}

func committedText(offset int64) string {
	if offset < 0 {
		return "-"
	}
	return fmt.Sprint(offset)
}

// bounds are the starts and ends of the partitions in rows.
func bounds(ctx context.Context, admin *kadm.Client, rows []lagRow) (begins, ends kadm.ListedOffsets, err error) {
	var topics []string
	for _, row := range rows {
		topics = append(topics, row.topic)
	}
	topics = slices.Compact(topics)
	if len(topics) == 0 {
		return nil, nil, nil
	}
	if begins, err = admin.ListStartOffsets(ctx, topics...); err != nil {
		return nil, nil, err
	}
	ends, err = admin.ListEndOffsets(ctx, topics...)
	return begins, ends, err
}

// lag counts the records that the group has yet to read: those that retention has
// removed do not count, and a group that committed beyond the end has none.
func (r lagRow) lag(begins, ends kadm.ListedOffsets) string {
	begin, known := begins.Lookup(r.topic, r.partition)
	end, endKnown := ends.Lookup(r.topic, r.partition)
	if r.committed < 0 || !known || !endKnown || begin.Err != nil || end.Err != nil {
		return "-"
	}
	return fmt.Sprint(max(0, end.Offset-max(r.committed, begin.Offset)))
}
