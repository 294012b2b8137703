package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func newQuota(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "quota",
		Short: "List, set and remove what clients may use",
		Example: "  klamm quota set user alice producer_byte_rate=1048576\n" +
			"  klamm quota list",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newQuotaList(std), newQuotaSet(std), newQuotaRemove(std))
	return cmd
}

const clientHelp = "CLIENT is one of\n" +
	"  user NAME                  whoever has authenticated as it; everybody is ANONYMOUS until there is security\n" +
	"  client-id NAME             every program that gives this name\n" +
	"  user NAME client-id NAME   both\n" +
	"  ip ADDRESS                 whoever connects from there\n" +
	"where default-user, default-client-id and default-ip stand for all that have no quota of their own.\n" +
	"Of several that fit a client the most exact one counts."

const quotaHelp = "Quotas are\n" +
	"  producer_byte_rate         bytes a second that are produced, on each broker\n" +
	"  consumer_byte_rate         bytes a second that are fetched, on each broker\n" +
	"  request_percentage         of the time of a processor, on each broker\n" +
	"  controller_mutation_rate   partitions a second that are made or deleted\n" +
	"  connection_creation_rate   connections a second, of an ip"

// quotaEntity reads whom a quota is for from the beginning of args, and returns what follows.
func quotaEntity(args []string) (entity kadm.ClientQuotaEntity, rest []string, err error) {
	for len(args) > 0 {
		kind, isDefault := strings.CutPrefix(args[0], "default-")
		if !slices.Contains([]string{"user", "client-id", "ip"}, kind) {
			break
		}
		part := kadm.ClientQuotaEntityComponent{Type: kind}
		args = args[1:]
		if !isDefault {
			if len(args) == 0 || args[0] == "" {
				return nil, nil, usagef("want the name of the %s, or default-%s", kind, kind)
			}
			part.Name, args = &args[0], args[1:]
		}
		if slices.ContainsFunc(entity, func(other kadm.ClientQuotaEntityComponent) bool { return other.Type == kind }) {
			return nil, nil, usagef("%s is named more than once", kind)
		}
		entity = append(entity, part)
	}
	return entity, args, nil
}

// oneQuotaEntity is quotaEntity for commands that need one.
func oneQuotaEntity(cmd *cobra.Command, args []string) (entity kadm.ClientQuotaEntity, rest []string, err error) {
	entity, rest, err = quotaEntity(args)
	if err == nil && len(entity) == 0 {
		err = usagef("want user NAME, client-id NAME, ip ADDRESS, or their defaults (see %s --help)", cmd.CommandPath())
	}
	return entity, rest, err
}

// quotaEntityText is an entity as it is written on the command line.
func quotaEntityText(entity kadm.ClientQuotaEntity) string {
	words := make([]string, len(entity))
	for i, part := range entity {
		words[i] = "default-" + part.Type
		if part.Name != nil {
			words[i] = part.Type + " " + *part.Name
		}
	}
	return strings.Join(words, " ")
}

func newQuotaList(std streams) *cobra.Command {
	var f clientFlags
	var output string
	cmd := &cobra.Command{
		Use:   "list [CLIENT]",
		Short: "List the quotas of all clients, or of some",
		Long:  "List the quotas of all clients, or of those that CLIENT fits.\n" + clientHelp,
		Example: "  klamm quota list\n" +
			"  klamm quota list user alice\n" +
			"  klamm quota list default-ip --output json",
		RunE: func(cmd *cobra.Command, args []string) error {
			entity, rest, err := quotaEntity(args)
			if err == nil && len(rest) > 0 {
				err = usagef("unexpected argument %q (see %s --help)", rest[0], cmd.CommandPath())
			}
			if err != nil {
				return err
			}
			return withAdmin(cmd.Context(), std, f, func(ctx context.Context, admin *kadm.Client) error {
				found, err := describeQuotas(ctx, admin, entity, false)
				if err != nil {
					return err
				}
				return printQuotas(std, output, found)
			})
		},
	}
	f.register(cmd)
	registerOutput(cmd, &output)
	return cmd
}

// describeQuotas asks for the quotas of an entity; unless strict also for those that have
// more to their name.
func describeQuotas(ctx context.Context, admin *kadm.Client, entity kadm.ClientQuotaEntity, strict bool) (kadm.DescribedClientQuotas, error) {
	var asked []kadm.DescribeClientQuotaComponent
	for _, part := range entity {
		match := kmsg.QuotasMatchTypeExact
		if part.Name == nil {
			match = kmsg.QuotasMatchTypeDefault
		}
		asked = append(asked, kadm.DescribeClientQuotaComponent{Type: part.Type, MatchName: part.Name, MatchType: match})
	}
	found, err := admin.DescribeClientQuotas(ctx, strict, asked)
	if err != nil && len(entity) > 0 {
		err = fmt.Errorf("%s: %w", quotaEntityText(entity), err)
	}
	return found, err
}

// quotaName is the name of one kind in an entity.
func quotaName(entity kadm.ClientQuotaEntity, kind string) cell {
	for _, part := range entity {
		switch {
		case part.Type != kind:
		case part.Name == nil:
			return orDash("<default>")
		default:
			return cell{*part.Name, *part.Name}
		}
	}
	return orDash("")
}

func printQuotas(std streams, output string, quotas kadm.DescribedClientQuotas) error {
	table, err := newTable(std.out, output, "USER", "CLIENT ID", "IP", "QUOTA", "VALUE")
	if err != nil {
		return err
	}
	slices.SortFunc(quotas, func(a, b kadm.DescribedClientQuota) int {
		for _, kind := range []string{"user", "client-id", "ip"} {
			if order := strings.Compare(quotaName(a.Entity, kind).text, quotaName(b.Entity, kind).text); order != 0 {
				return order
			}
		}
		return 0
	})
	table.showHead()
	for _, q := range quotas {
		slices.SortFunc(q.Values, func(a, b kadm.ClientQuotaValue) int { return strings.Compare(a.Key, b.Key) })
		for _, v := range q.Values {
			number := cell{v.Value, strconv.FormatFloat(v.Value, 'f', -1, 64)}
			if err := table.row(quotaName(q.Entity, "user"), quotaName(q.Entity, "client-id"), quotaName(q.Entity, "ip"), v.Key, number); err != nil {
				return err
			}
		}
	}
	return table.flush()
}

func newQuotaSet(std streams) *cobra.Command {
	var f clientFlags
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "set CLIENT QUOTA=NUMBER...",
		Short: "Set what clients may use",
		Long:  "Set what clients may use: all of the quotas or none. They hold at once, on all brokers.\n" + clientHelp + "\n" + quotaHelp,
		Example: "  klamm quota set user alice producer_byte_rate=1048576 consumer_byte_rate=2097152\n" +
			"  klamm quota set user alice client-id reports request_percentage=20\n" +
			"  klamm quota set default-client-id producer_byte_rate=10485760\n" +
			"  klamm quota set ip 192.0.2.7 connection_creation_rate=5",
		RunE: func(cmd *cobra.Command, args []string) error {
			entity, settings, err := oneQuotaEntity(cmd, args)
			if err != nil {
				return err
			}
			if len(settings) == 0 {
				return usagef("want at least one QUOTA=NUMBER (see %s --help)", cmd.CommandPath())
			}
			ops, err := parseQuotas(settings)
			if err != nil {
				return err
			}
			return withAdmin(cmd.Context(), std, f, func(ctx context.Context, admin *kadm.Client) error {
				return alterQuotas(ctx, std, admin, entity, ops, dryRun)
			})
		},
	}
	f.register(cmd)
	registerQuotaDryRun(cmd, &dryRun)
	return cmd
}

func registerQuotaDryRun(cmd *cobra.Command, dryRun *bool) {
	cmd.Flags().BoolVar(dryRun, "dry-run", false, "have the cluster check the change and make none")
}

func parseQuotas(settings []string) (ops []kadm.AlterClientQuotaOp, err error) {
	for _, s := range settings {
		key, text, ok := strings.Cut(s, "=")
		value, err := strconv.ParseFloat(text, 64)
		if !ok || key == "" || err != nil {
			return nil, usagef("%q: want QUOTA=NUMBER", s)
		}
		ops = append(ops, kadm.AlterClientQuotaOp{Key: key, Value: value})
	}
	return ops, nil
}

// alterQuotas has the cluster make a change, and says so.
func alterQuotas(ctx context.Context, std streams, admin *kadm.Client, entity kadm.ClientQuotaEntity, ops []kadm.AlterClientQuotaOp, dryRun bool) error {
	change, done := admin.AlterClientQuotas, "changed"
	if dryRun {
		change, done = admin.ValidateAlterClientQuotas, "would change"
	}
	answers, err := change(ctx, []kadm.AlterClientQuotaEntry{{Entity: entity, Ops: ops}})
	if err != nil {
		return err
	}
	if len(answers) != 1 {
		return errNoAnswer
	}
	if err := refused(answers[0].Err, answers[0].ErrMessage); err != nil {
		return fmt.Errorf("%s: %w", quotaEntityText(entity), err)
	}
	_, err = fmt.Fprintln(std.out, done, quotaEntityText(entity))
	return err
}

func newQuotaRemove(std streams) *cobra.Command {
	var f clientFlags
	var all, dryRun bool
	cmd := &cobra.Command{
		Use:   "remove CLIENT [QUOTA...]",
		Short: "Remove quotas of clients",
		Long:  "Remove quotas of clients: the named ones, or with --all all of them.\n" + clientHelp,
		Example: "  klamm quota remove user alice producer_byte_rate\n" +
			"  klamm quota remove default-ip --all",
		RunE: func(cmd *cobra.Command, args []string) error {
			entity, names, err := oneQuotaEntity(cmd, args)
			if err != nil {
				return err
			}
			if all == (len(names) > 0) {
				return usagef("want names of quotas or --all")
			}
			return withAdmin(cmd.Context(), std, f, func(ctx context.Context, admin *kadm.Client) error {
				return removeQuotas(ctx, std, admin, entity, names, dryRun)
			})
		},
	}
	f.register(cmd)
	registerQuotaDryRun(cmd, &dryRun)
	cmd.Flags().BoolVar(&all, "all", false, "every quota that exactly this CLIENT has")
	return cmd
}

// removeQuotas removes those of the names, all without names, and refuses what is not there.
func removeQuotas(ctx context.Context, std streams, admin *kadm.Client, entity kadm.ClientQuotaEntity, names []string, dryRun bool) error {
	found, err := describeQuotas(ctx, admin, entity, true)
	if err != nil {
		return err
	}
	has := map[string]bool{}
	for _, q := range found {
		for _, v := range q.Values {
			has[v.Key] = true
		}
	}
	if len(has) == 0 {
		return fmt.Errorf("%s has no quota", quotaEntityText(entity))
	}
	var ops []kadm.AlterClientQuotaOp
	var missing []error
	for _, name := range names {
		if !has[name] {
			missing = append(missing, fmt.Errorf("%s has no quota %s", quotaEntityText(entity), name))
		}
	}
	if len(missing) > 0 {
		return errors.Join(missing...)
	}
	for name := range has {
		if len(names) == 0 || slices.Contains(names, name) {
			ops = append(ops, kadm.AlterClientQuotaOp{Key: name, Remove: true})
		}
	}
	return alterQuotas(ctx, std, admin, entity, ops, dryRun)
}
