package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func newGroupDescribe(std streams) *cobra.Command {
	var f clientFlags
	var members, state, all bool
	var output string
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
			if _, err := isJSON(output); err != nil {
				return err
			}
			return withGroups(cmd.Context(), std, f, names, func(ctx context.Context, admin *kadm.Client) error {
				groups, failed := describeGroups(ctx, admin, names, all)
				var err error
				switch {
				case members:
					err = printMembers(std.out, output, groups)
				case state:
					err = printStates(std.out, output, groups)
				default:
					err = printLags(ctx, std.out, output, admin, groups)
				}
				return errors.Join(failed, err)
			})
		},
	}
	f.register(cmd)
	registerOutput(cmd, &output)
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

func printStates(out io.Writer, output string, groups []group) error {
	table, err := newTable(out, output, "GROUP", "TYPE", "STATE", "ASSIGNOR", "MEMBERS", "COORDINATOR")
	if err != nil {
		return err
	}
	for _, g := range groups {
		c := g.coordinator
		at := cell{c.NodeID, fmt.Sprintf("%d %s:%d", c.NodeID, c.Host, c.Port)}
		if err := table.row(g.name, g.kind, g.state, orDash(g.assignor), len(g.members), at); err != nil {
			return err
		}
	}
	return table.flush()
}

func printMembers(out io.Writer, output string, groups []group) error {
	table, err := newTable(out, output, "GROUP", "MEMBER", "INSTANCE", "HOST", "CLIENT", "ASSIGNED")
	if err != nil {
		return err
	}
	for _, g := range groups {
		for _, m := range g.members {
			if err := table.row(g.name, m.id, orDash(m.instance), m.host, orDash(m.clientID), assignedCell(m.assigned)); err != nil {
				return err
			}
		}
	}
	return table.flush()
}

// assignedCell writes an assignment as topic:0,1 other:2, for programs as lists by topic.
func assignedCell(set kadm.TopicsSet) cell {
	var texts []string
	lists := map[string][]int32{}
	for _, t := range set.Sorted() {
		texts = append(texts, t.Topic+":"+nodes(t.Partitions))
		lists[t.Topic] = t.Partitions
	}
	return cell{lists, dash(strings.Join(texts, " "))}
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

func printLags(ctx context.Context, out io.Writer, output string, admin *kadm.Client, groups []group) error {
	table, err := newTable(out, output, "GROUP", "TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER", "HOST", "CLIENT")
	if err != nil {
		return err
	}
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
			if err := table.row(g.name, row.topic, row.partition,
				committedCell(row.committed), offsetCell(ends, row.topic, row.partition), row.lag(begins, ends),
				orDash(reader.id), orDash(reader.host), orDash(reader.clientID)); err != nil {
				return err
			}
		}
	}
	return errors.Join(append(failed, table.flush())...)
}

// committedCell is a committed offset, or a dash where there is none.
func committedCell(offset int64) cell {
	if offset < 0 {
		return cell{nil, "-"}
	}
	return cell{offset, fmt.Sprint(offset)}
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
	if begins, err = partly(admin.ListStartOffsets(ctx, topics...)); err != nil {
		return nil, nil, err
	}
	ends, err = partly(admin.ListEndOffsets(ctx, topics...))
	return begins, ends, err
}

// lag counts the records that the group has yet to read: those that retention has
// removed do not count, and a group that committed beyond the end has none.
func (r lagRow) lag(begins, ends kadm.ListedOffsets) cell {
	begin, known := begins.Lookup(r.topic, r.partition)
	end, endKnown := ends.Lookup(r.topic, r.partition)
	if r.committed < 0 || !known || !endKnown || begin.Err != nil || end.Err != nil {
		return cell{nil, "-"}
	}
	lag := max(0, end.Offset-max(r.committed, begin.Offset))
	return cell{lag, fmt.Sprint(lag)}
}
