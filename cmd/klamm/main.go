package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes of the process.
const (
	exitFailed = 1
	exitUsage  = 2
)

// usageError is a mistake of whoever typed the command or wrote the configuration.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// streams is where a command reads and writes; tests give their own.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr})
	stop()
	os.Exit(code)
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, std streams) int {
	root := newRoot(std)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(std.err, "klamm:", err)
	var usage usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

func newRoot(std streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "klamm",
		Short: "A message broker that Kafka clients cannot tell from Apache Kafka",
		Long: "Klamm is a message broker that speaks the Kafka protocol, in one binary.\n\n" +
			"  klamm start                         run a broker on 127.0.0.1:9092\n" +
			"  klamm topic create orders           make a topic\n" +
			"  klamm produce orders < lines.txt    one record a line\n" +
			"  klamm consume orders --from start   read them back",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(std.in)
	root.SetOut(std.out)
	root.SetErr(std.err)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(
		newStart(std),
		newVersion(std),
		newConfig(std),
		newCheckConfig(std),
		newTopic(std),
		newProduce(std),
		newConsume(std),
	)
	return root
}

// exactArgs is cobra.ExactArgs with our exit code.
func exactArgs(n int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return usagef("want %s, got %d argument(s)", what, len(args))
		}
		return nil
	}
}
