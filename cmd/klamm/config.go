package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// resourceKind is a kind of thing that a cluster keeps configuration for.
type resourceKind struct {
	word  string // on the command line
	kind  kmsg.ConfigResourceType
	named bool // has a name; otherwise there is one for the whole cluster
}

// resourceKinds are those that the commands know.
func resourceKinds() []resourceKind {
	return []resourceKind{
		{"topic", kmsg.ConfigResourceTypeTopic, true},
		{"broker", kmsg.ConfigResourceTypeBroker, true},
		{"brokers", kmsg.ConfigResourceTypeBroker, false},
		{"group", kmsg.ConfigResourceTypeGroupConfig, true},
		{"client-metrics", kmsg.ConfigResourceTypeClientMetrics, true},
		{"loggers", kmsg.ConfigResourceTypeBrokerLogger, true},
	}
}

const resourceHelp = "RESOURCE is one of\n" +
	"  topic NAME            a topic\n" +
	"  broker ID             one broker\n" +
	"  brokers               what holds for all brokers of the cluster, below what one of them has of its own\n" +
	"  group NAME            a group of consumers, of share consumers or of streams\n" +
	"  client-metrics NAME   a subscription to metrics of clients (KIP-714)\n" +
	"  loggers ID            the levels of a broker's loggers"

// resource is one of them, as named on the command line.
type resource struct {
	resourceKind
	name string
}

func (r resource) String() string { return strings.TrimSpace(r.word + " " + r.name) }

// parseResource reads a resource from the beginning of args, and returns what follows it.
func parseResource(args []string) (r resource, rest []string, err error) {
	for _, k := range resourceKinds() {
		switch {
		case len(args) == 0 || args[0] != k.word:
			continue
		case !k.named:
			return resource{k, ""}, args[1:], nil
		case len(args) == 1 || args[1] == "":
			return resource{}, nil, usagef("want the name of the %s", k.word)
		}
		r := resource{k, args[1]}
		if _, err := strconv.ParseInt(r.name, 10, 32); err != nil && r.ofBroker() {
			return resource{}, nil, usagef("%s: want the number of a broker", r)
		}
		return r, args[2:], nil
	}
	if len(args) == 0 {
		return resource{}, nil, usagef("want topic, broker, brokers, group, client-metrics or loggers, and a name")
	}
	return resource{}, nil, usagef("%s: want topic, broker, brokers, group, client-metrics or loggers", args[0])
}

// ofBroker: the name is a broker's, which alone can answer.
func (r resource) ofBroker() bool {
	return r.named && (r.kind == kmsg.ConfigResourceTypeBroker || r.kind == kmsg.ConfigResourceTypeBrokerLogger)
}

// failure says in plain words what is the matter with a resource.
func (r resource) failure(err error) error {
	switch {
	case r.kind == kmsg.ConfigResourceTypeTopic:
		return topicError(r.name, err)
	case r.ofBroker() && !errors.As(err, new(*kerr.Error)):
		return fmt.Errorf("broker %s does not answer: %w", r.name, err)
	}
	return fmt.Errorf("%s: %w", r, err)
}

func newConfigGet(std streams) *cobra.Command {
	var f clientFlags
	var output string
	var show shownConfigs
	cmd := &cobra.Command{
		Use:   "get RESOURCE",
		Short: "Print the configuration of a topic, broker, group … of a running cluster",
		Long:  "Print the configuration of something in a running cluster, and where each value comes from.\n" + resourceHelp,
		Example: "  klamm config get topic orders\n" +
			"  klamm config get broker 1 --changed\n" +
			"  klamm config get brokers\n" +
			"  klamm config get group billing --key group.type --output json",
		RunE: func(cmd *cobra.Command, args []string) error {
			r, rest, err := parseResource(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return usagef("unexpected argument %q (see %s --help)", rest[0], cmd.CommandPath())
			}
			return getConfig(cmd.Context(), std, f, r, show, output)
		},
	}
	f.register(cmd)
	registerOutput(cmd, &output)
	show.register(cmd)
	return cmd
}

// shownConfigs choose some of a resource's keys.
type shownConfigs struct {
	keys    []string
	changed bool
}

func (s *shownConfigs) register(cmd *cobra.Command) {
	cmd.Flags().StringSliceVarP(&s.keys, "key", "k", nil, "only these keys")
	cmd.Flags().BoolVar(&s.changed, "changed", false, "only what is not the default")
}

func (s shownConfigs) has(c *kmsg.DescribeConfigsResponseResourceConfig) bool {
	return !s.changed || c.Source != kmsg.ConfigSourceDefaultConfig
}

func getConfig(ctx context.Context, std streams, f clientFlags, r resource, show shownConfigs, output string) error {
	table, err := newTable(std.out, output, "KEY", "VALUE", "SOURCE")
	if err != nil {
		return err
	}
	return withClient(ctx, std, f, func(ctx context.Context, client *kgo.Client) error {
		found, err := describeConfigs(ctx, client, r, show.keys)
		if err != nil {
			return err
		}
		table.showHead()
		var missing []error
		for _, key := range show.keys {
			if !slices.ContainsFunc(found, func(c kmsg.DescribeConfigsResponseResourceConfig) bool { return c.Name == key }) {
				missing = append(missing, fmt.Errorf("%s has no key %s", r, key))
			}
		}
		for i := range found {
			if !show.has(&found[i]) {
				continue
			}
			if err := table.row(found[i].Name, configCell(&found[i]), sourceWord(found[i].Source)); err != nil {
				return err
			}
		}
		return errors.Join(append(missing, table.flush())...)
	})
}

// describeConfigs asks for the keys of a resource, all without names, and sorts them.
func describeConfigs(ctx context.Context, client *kgo.Client, r resource, keys []string) ([]kmsg.DescribeConfigsResponseResourceConfig, error) {
	asked := kmsg.NewDescribeConfigsRequestResource()
	asked.ResourceType, asked.ResourceName, asked.ConfigNames = r.kind, r.name, keys
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources = append(req.Resources, asked)
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return nil, r.failure(err)
	}
	if len(resp.Resources) != 1 {
		return nil, r.failure(errNoAnswer)
	}
	answer := &resp.Resources[0]
	if err := refused(kerr.ErrorForCode(answer.ErrorCode), text(answer.ErrorMessage)); err != nil {
		return nil, r.failure(err)
	}
	slices.SortFunc(answer.Configs, func(a, b kmsg.DescribeConfigsResponseResourceConfig) int {
		return strings.Compare(a.Name, b.Name)
	})
	return answer.Configs, nil
}

// text is a string of an answer, or nothing.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// configCell is a value; brokers keep those to themselves that are secret.
func configCell(c *kmsg.DescribeConfigsResponseResourceConfig) cell {
	switch {
	case c.Value != nil:
		return cell{*c.Value, *c.Value}
	case c.IsSensitive:
		return cell{nil, "[hidden]"}
	default:
		return cell{nil, "(none)"}
	}
}

// sourceWord says where a value is set.
func sourceWord(s kmsg.ConfigSource) string {
	switch s {
	case kmsg.ConfigSourceDynamicTopicConfig:
		return "topic"
	case kmsg.ConfigSourceDynamicBrokerConfig:
		return "broker"
	case kmsg.ConfigSourceDynamicDefaultBrokerConfig:
		return "brokers"
	case kmsg.ConfigSourceStaticBrokerConfig:
		return "file"
	case kmsg.ConfigSourceDefaultConfig:
		return "default"
	case kmsg.ConfigSourceDynamicBrokerLoggerConfig:
		return "loggers"
	case kmsg.ConfigSourceClientMetricsConfig:
		return "client-metrics"
	case kmsg.ConfigSourceGroupConfig:
		return "group"
	default:
		return "unknown"
	}
}
