package main

import (
	"fmt"
	"runtime"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/klamm-mq/klamm/broker"
	"github.com/klamm-mq/klamm/configs"
)

func newVersion(std streams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, and that of the Kafka it behaves like",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(std.out, "klamm %s (behaves like Apache Kafka %s) %s %s/%s\n",
				broker.Version, broker.KafkaVersion, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

func newConfig(std streams) *cobra.Command {
	var sources sourceFlags
	var changed bool
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the effective configuration and where each value comes from",
		Example: "  klamm config --config server.properties\n" +
			"  KLAMM_NUM_PARTITIONS=6 klamm config --changed",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := sources.load(std)
			if err != nil {
				return err
			}
			return printConfig(std, cfg, changed)
		},
	}
	sources.register(cmd)
	cmd.Flags().BoolVar(&changed, "changed", false, "only what is not the default")
	return cmd
}

func printConfig(std streams, cfg *configs.Broker, changed bool) error {
	w := tabwriter.NewWriter(std.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tVALUE\tSOURCE")
	for _, e := range cfg.Effective() {
		if changed && !e.Set {
			continue
		}
		value := e.Value
		if e.Null {
			value = "(none)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", e.Key.Name, value, e.Place)
	}
	return w.Flush()
}

func newCheckConfig(std streams) *cobra.Command {
	return &cobra.Command{
		Use:     "check-config FILE...",
		Short:   "Check configuration files without starting anything",
		Example: "  klamm check-config server.properties",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, files []string) error {
			sources := sourceFlags{files: files}
			if _, err := sources.load(std); err != nil {
				return err
			}
			_, err := fmt.Fprintln(std.out, "configuration is good")
			return err
		},
	}
}
