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
	"golang.org/x/term"
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

// isTerminal reports whether a stream has somebody at its other end.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "start" {
		easeTimers()
	}
	os.Exit(runMain())
}

// runMain runs the process's command line until it ends or a signal asks it to. A second
// signal ends the process at once.
func runMain() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	return run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr})
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
		Long:  "Klamm is a message broker that speaks the Kafka protocol, in one binary.",
		Example: "  klamm start                         # run a broker on 127.0.0.1:9092\n" +
			"  klamm topic create orders           # make a topic\n" +
			"  klamm produce orders < lines.txt    # one record a line\n" +
			"  klamm consume orders --from start   # read them back",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArgs,
	}
	version := root.Flags().BoolP("version", "v", false, "version for klamm") // cobra's own takes a template, and that every method into the binary
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *version {
			_, err := fmt.Fprintln(std.out, versionLine())
			return err
		}
		return cmd.Help()
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
		newConform(std),
		newGroup(std),
		newQuota(std),
		newCluster(std),
		newLog(std),
		newHealth(std),
	)
	return root
}

// noArgs, oneArg and someArgs are cobra's checks with our exit code. what names an
// argument in the message.
func noArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.HasSubCommands():
		return usagef("unknown command %q (see %s --help)", args[0], cmd.CommandPath())
	default:
		return usagef("unexpected argument %q (see %s --help)", args[0], cmd.CommandPath())
	}
}

func oneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usagef("want one %s, got %d arguments (see %s --help)", what, len(args), cmd.CommandPath())
		}
		return nil
	}
}

func someArgs(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("want at least one %s (see %s --help)", what, cmd.CommandPath())
		}
		return nil
	}
}
