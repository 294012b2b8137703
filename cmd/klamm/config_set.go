package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/configs"
)

func newConfigSet(std streams) *cobra.Command {
	var f clientFlags
	var changes configChanges
	cmd := &cobra.Command{
		Use:   "set RESOURCE [KEY=VALUE...]",
		Short: "Change the configuration of a topic, broker, group … of a running cluster",
		Long: "Change the configuration of something in a running cluster: all of the changes or none.\n" + changesHelp + "\n" +
			resourceHelp,
		Example: "  klamm config set topic orders retention.ms=86400000 cleanup.policy+=compact\n" +
			"  klamm config set brokers message.max.bytes=2097152\n" +
			"  klamm config set broker 1 --unset message.max.bytes\n" +
			"  klamm config set loggers 1 klamm.replica=DEBUG",
		RunE: func(cmd *cobra.Command, args []string) error {
			r, rest, err := parseResource(args)
			if err != nil {
				return err
			}
			if len(rest) == 0 && len(changes.unset) == 0 {
				return usagef("want at least one KEY=VALUE, or --unset KEY (see %s --help)", cmd.CommandPath())
			}
			return changes.apply(cmd.Context(), std, f, r, rest)
		},
	}
	f.register(cmd)
	changes.register(cmd)
	return cmd
}

func newTopicConfig(std streams) *cobra.Command {
	var f clientFlags
	var output string
	var show shownConfigs
	var changes configChanges
	cmd := &cobra.Command{
		Use:   "config TOPIC [KEY=VALUE...]",
		Short: "Print or change the configuration of a topic",
		Long:  "Print the configuration of a topic and where each value comes from, or change it.\n" + changesHelp,
		Example: "  klamm topic config orders --changed\n" +
			"  klamm topic config orders retention.ms=86400000 cleanup.policy+=compact\n" +
			"  klamm topic config orders --unset retention.ms",
		Args: someArgs("topic"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, settings, err := parseResource(append([]string{"topic"}, args...))
			if err != nil {
				return err
			}
			if len(settings) == 0 && len(changes.unset) == 0 {
				return getConfig(cmd.Context(), std, f, r, show, output)
			}
			return changes.apply(cmd.Context(), std, f, r, settings)
		},
	}
	f.register(cmd)
	registerOutput(cmd, &output)
	show.register(cmd)
	changes.register(cmd)
	return cmd
}

const changesHelp = "KEY=VALUE gives a key a value, KEY+=VALUE appends to a key that is a list, KEY-=VALUE takes from it."

// configChanges are the flags of commands that change a configuration.
type configChanges struct {
	unset  []string
	dryRun bool
}

func (c *configChanges) register(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&c.unset, "unset", nil, "give these keys their default again")
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "have the broker check the changes and make none")
}

type alteration = kmsg.IncrementalAlterConfigsRequestResourceConfig

// parse reads changes in the order of the command line, those of --unset last.
func (c *configChanges) parse(settings []string) ([]alteration, error) {
	var list []alteration
	seen := map[string]bool{}
	add := func(key string, op kmsg.IncrementalAlterConfigOp, value *string) error {
		if seen[key] {
			return usagef("%s is named more than once", key)
		}
		seen[key] = true
		list = append(list, alteration{Name: key, Op: op, Value: value})
		return nil
	}
	for _, s := range settings {
		key, value, ok := strings.Cut(s, "=")
		op := kmsg.IncrementalAlterConfigOpSet
		if list, appends := strings.CutSuffix(key, "+"); appends {
			key, op = list, kmsg.IncrementalAlterConfigOpAppend
		} else if list, subtracts := strings.CutSuffix(key, "-"); subtracts {
			key, op = list, kmsg.IncrementalAlterConfigOpSubtract
		}
		if !ok || key == "" {
			return nil, usagef("%q: want KEY=VALUE, KEY+=VALUE or KEY-=VALUE", s)
		}
		if err := add(key, op, &value); err != nil {
			return nil, err
		}
	}
	for _, key := range c.unset {
		if err := add(key, kmsg.IncrementalAlterConfigOpDelete, nil); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// apply has the cluster make the changes, and says so.
func (c *configChanges) apply(ctx context.Context, std streams, f clientFlags, r resource, settings []string) error {
	list, err := c.parse(settings)
	if err != nil {
		return err
	}
	return withClient(ctx, std, f, func(ctx context.Context, client *kgo.Client) error {
		if err := alterConfigs(ctx, client, r, list, c.dryRun); err != nil {
			return r.failure(namingAlone(list, err))
		}
		done := "changed"
		if c.dryRun {
			done = "would change"
		}
		_, err := fmt.Fprintln(std.out, done, r)
		r.warnOfUnknown(std, list)
		return err
	})
}

// warnOfUnknown names keys that brokers keep, since plug-ins may have any, and that mean
// nothing to them.
func (r resource) warnOfUnknown(std streams, list []alteration) {
	if r.kind != kmsg.ConfigResourceTypeBroker {
		return
	}
	for _, change := range list {
		if hint, is := configs.UnknownToBrokers(change.Name); is && change.Op != kmsg.IncrementalAlterConfigOpDelete {
			fmt.Fprintf(std.err, "klamm: warning: %s: unknown key %s is kept, and has no effect%s\n", r, change.Name, hint)
		}
	}
}

func alterConfigs(ctx context.Context, client *kgo.Client, r resource, list []alteration, dryRun bool) error {
	asked := kmsg.NewIncrementalAlterConfigsRequestResource()
	asked.ResourceType, asked.ResourceName, asked.Configs = r.kind, r.name, list
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.ValidateOnly, req.Resources = dryRun, append(req.Resources, asked)
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	if len(resp.Resources) != 1 {
		return errNoAnswer
	}
	return refused(kerr.ErrorForCode(resp.Resources[0].ErrorCode), text(resp.Resources[0].ErrorMessage))
}

// namingAlone names the key and the value that a broker has refused, where there is only
// one and its own words do not.
func namingAlone(list []alteration, err error) error {
	var broker refusal
	if len(list) != 1 || !errors.As(err, new(*kerr.Error)) {
		return err
	}
	change := list[0].Name
	if v := list[0].Value; v != nil {
		change += "=" + configs.Shown(change, *v)
	}
	if errors.As(err, &broker) && strings.Contains(broker.message, list[0].Name) && strings.Contains(broker.message, text(list[0].Value)) {
		return err
	}
	return fmt.Errorf("%s: %w", change, err)
}
