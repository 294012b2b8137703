package main

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func newConfigList(std streams) *cobra.Command {
	var f clientFlags
	var output string
	cmd := &cobra.Command{
		Use:   "list [topic|broker|group|client-metrics|loggers]...",
		Short: "List what a running cluster keeps configuration for",
		Long: "List what a running cluster keeps configuration for, of some kinds or of all: topics and brokers with or\n" +
			"without settings of their own, groups and subscriptions to metrics that have some.",
		Example: "  klamm config list\n" +
			"  klamm config list client-metrics group",
		RunE: func(cmd *cobra.Command, args []string) error {
			var kinds []int8
			for _, word := range args {
				k, ok := listedKind(func(k resourceKind) bool { return k.word == word })
				if !ok {
					return usagef("%s: want topic, broker, group, client-metrics or loggers", word)
				}
				kinds = append(kinds, int8(k.kind))
			}
			table, err := newTable(std.out, output, "RESOURCE", "NAME")
			if err != nil {
				return err
			}
			return withClient(cmd.Context(), std, f, func(ctx context.Context, client *kgo.Client) error {
				return listConfigResources(ctx, client, table, kinds)
			})
		},
	}
	f.register(cmd)
	registerOutput(cmd, &output)
	return cmd
}

// listedKind finds a kind of resource that has names.
func listedKind(is func(resourceKind) bool) (resourceKind, bool) {
	kinds := resourceKinds()
	i := slices.IndexFunc(kinds, func(k resourceKind) bool { return k.named && is(k) })
	if i < 0 {
		return resourceKind{}, false
	}
	return kinds[i], true
}

func listConfigResources(ctx context.Context, client *kgo.Client, table *table, kinds []int8) error {
	req := kmsg.NewPtrListConfigResourcesRequest()
	req.ResourceTypes = kinds
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return err
	}
	found := resp.ConfigResources
	slices.SortFunc(found, func(a, b kmsg.ListConfigResourcesResponseConfigResource) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), strings.Compare(a.Name, b.Name))
	})
	table.showHead()
	for _, r := range found {
		k, known := listedKind(func(k resourceKind) bool { return k.kind == kmsg.ConfigResourceType(r.Type) })
		if !known {
			continue // of a later Kafka
		}
		if err := table.row(k.word, r.Name); err != nil {
			return err
		}
	}
	return table.flush()
}
