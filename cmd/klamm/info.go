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
		Use:     "version",
		Short:   "Print the version, and that of the Kafka it behaves like",
		Example: "  klamm version",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(std.out, versionLine())
			return err
		},
	}
}

func versionLine() string {
	return fmt.Sprintf("klamm %s (behaves like Apache Kafka %s) %s %s/%s",
		broker.Version, broker.KafkaVersion, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func newConfig(std streams) *cobra.Command {
	var sources sourceFlags
	var changed bool
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the effective configuration; list, get and set that of a running cluster",
		Long:  "Print the effective configuration of a broker that would start here, and where each value comes from.\nThe commands list, get and set ask a running cluster.",
		Example: "  klamm config --config server.properties\n" +
			"  KLAMM_NUM_PARTITIONS=6 klamm config --changed\n" +
			"  klamm config get topic orders --changed   # of a running cluster, as are changes with set",
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, warnings, err := sources.load()
			printWarnings(std, warnings)
			if err != nil {
				return err
			}
			return printConfig(std, cfg, changed)
		},
	}
	sources.register(cmd)
	cmd.Flags().BoolVar(&changed, "changed", false, "only what is not the default")
	cmd.AddCommand(newConfigList(std), newConfigGet(std), newConfigSet(std))
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
		Use:   "check-config FILE...",
		Short: "Check configuration files without starting anything",
		Long: "Check configuration files, together with the environment, without starting anything.\n" +
			"Several files are one configuration, in which later ones win. Exit code 2 and one line with file,\n" +
			"key, value and reason if start would refuse them.",
		Example: "  klamm check-config server.properties",
		Args:    someArgs("file"),
		RunE: func(_ *cobra.Command, files []string) error {
			sources := sourceFlags{files: files}
			cfg, warnings, err := sources.load()
			printWarnings(std, warnings)
			if err != nil {
				return err
			}
			if err := broker.Check(cfg); err != nil {
				return usageError{err}
			}
			_, err = fmt.Fprintln(std.out, "the configuration is good")
			return err
		},
	}
}

func printWarnings(std streams, warnings []configs.Warning) {
	for _, w := range warnings {
		fmt.Fprintln(std.err, "klamm: warning:", w)
	}
}
