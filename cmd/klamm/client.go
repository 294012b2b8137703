package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// clientFlags are the flags that every client command has.
type clientFlags struct {
	bootstrap string
	clientID  string
	timeout   time.Duration
}

func (f *clientFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.bootstrap, "bootstrap", "b", "127.0.0.1:9092", "addresses of brokers, separated by commas")
	flags.StringVar(&f.clientID, "client-id", "klamm-cli", "client id sent to the broker")
	flags.DurationVar(&f.timeout, "timeout", 10*time.Second, "give up when the cluster does not answer for this long")
}

// minMetadataAge is how soon a client asks again about a topic that is being made. The
// library's five seconds are meant for programs that live longer than a command.
const minMetadataAge = 100 * time.Millisecond

// connect makes a client and waits until a broker has answered it.
func (f *clientFlags) connect(ctx context.Context, std streams, opts ...kgo.Opt) (*kgo.Client, error) {
	if f.timeout <= 0 {
		return nil, usagef("--timeout %s: want a positive duration", f.timeout)
	}
	seeds, err := f.seeds()
	if err != nil {
		return nil, err
	}
	base := []kgo.Opt{
		kgo.SeedBrokers(seeds...),
		kgo.ClientID(f.clientID),
		kgo.RetryTimeout(f.timeout),
		kgo.DialTimeout(f.timeout),
		kgo.MetadataMinAge(minMetadataAge),
		// A broker that dies in the middle of a request is not a wrong configuration.
		kgo.AlwaysRetryEOF(),
	}
	client, err := kgo.NewClient(append(base, opts...)...)
	if err != nil {
		return nil, usageError{err}
	}
	if err := f.reach(ctx, std, client); err != nil {
		client.Close()
		return nil, err
	}
	return client, nil
}

// seeds are the addresses of --bootstrap, each host:port, or a host at Kafka's port.
func (f *clientFlags) seeds() ([]string, error) {
	seeds := strings.Split(f.bootstrap, ",")
	for i, seed := range seeds {
		seed = strings.TrimSpace(seed)
		host, port, err := net.SplitHostPort(seed)
		if err != nil && (!strings.Contains(seed, ":") || net.ParseIP(seed) != nil) {
			host, port, err = seed, "9092", nil
		}
		if n, numErr := strconv.ParseUint(port, 10, 16); err != nil || numErr != nil || n == 0 || host == "" {
			return nil, usagef("--bootstrap %s: want host:port, separated by commas", f.bootstrap)
		}
		seeds[i] = net.JoinHostPort(host, port)
	}
	return seeds, nil
}

// reachPause lies between two attempts to find a broker that answers.
const reachPause = 100 * time.Millisecond

// reach waits for a first answer. On a terminal it says what it waits for.
func (f *clientFlags) reach(ctx context.Context, std streams, client *kgo.Client) error {
	limited, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	pause := time.NewTicker(reachPause)
	defer pause.Stop()
	var reason error // of the last attempt that was not cut short, if there is one
	for {
		err := client.Ping(limited)
		if err == nil {
			return nil
		}
		if reason == nil && isTerminal(std.err) {
			fmt.Fprintf(std.err, "waiting for %s: %v\n", f.bootstrap, cause(err))
		}
		if reason == nil || limited.Err() == nil && !isTimeout(err) {
			reason = cause(err)
		}
		select {
		case <-pause.C:
		case <-limited.Done():
		}
		if ctx.Err() != nil {
			return errInterrupted
		}
		if limited.Err() != nil {
			return fmt.Errorf("no broker answered at %s within %s: %w", f.bootstrap, f.timeout, reason)
		}
	}
}

func isTimeout(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout()
}

// errInterrupted is the end of a command that was told to stop before it was done.
var errInterrupted = errors.New("interrupted")

// cause is the part of a dial error that a user can do something about.
func cause(err error) error {
	var dial *net.OpError
	if errors.As(err, &dial) {
		return dial
	}
	return err
}

// withAdmin runs fn with an admin client; fn's ctx ends after the timeout.
func withAdmin(ctx context.Context, std streams, f clientFlags, fn func(context.Context, *kadm.Client) error) error {
	return withClient(ctx, std, f, func(ctx context.Context, client *kgo.Client) error {
		return fn(ctx, kadm.NewClient(client))
	})
}

// withClient is withAdmin for requests that kadm has no function for.
func withClient(ctx context.Context, std streams, f clientFlags, fn func(context.Context, *kgo.Client) error, opts ...kgo.Opt) error {
	client, err := f.connect(ctx, std, opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	limited, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	err = fn(limited, client)
	switch {
	case err != nil && ctx.Err() != nil:
		return errInterrupted
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer from %s within %s", f.bootstrap, f.timeout)
	}
	return err
}

// topicError says in plain words what is the matter with a topic.
func topicError(topic string, err error) error {
	if errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID) {
		return fmt.Errorf("topic %s does not exist", topic)
	}
	return fmt.Errorf("topic %s: %w", topic, err)
}
