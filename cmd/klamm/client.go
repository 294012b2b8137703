package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
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

// connect makes a client. Nothing is dialled before the first request.
func (f *clientFlags) connect(opts ...kgo.Opt) (*kgo.Client, error) {
	base := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(f.bootstrap, ",")...),
		kgo.ClientID(f.clientID),
		kgo.RetryTimeout(f.timeout),
		kgo.AlwaysRetryEOF(), // a broker that dies in the middle of a request is not a wrong configuration
		kgo.DialTimeout(f.timeout),
	}
	client, err := kgo.NewClient(append(base, opts...)...)
	if err != nil {
		return nil, usageError{err}
	}
	return client, nil
}
