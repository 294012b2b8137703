package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// maxHealthBytes bounds what is read of an answer.
const maxHealthBytes = 4 << 10

func newHealth(std streams) *cobra.Command {
	var sources sourceFlags
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask the broker on this machine whether it is ready",
		Long: "Ask the admin listener of the broker on this machine whether it is ready. The exit code is 0 if it is, 1 if\n" +
			"not, as health checks of containers want it. Give it the configuration that the broker has.",
		Example: "  klamm health\n" +
			"  klamm health --config /etc/klamm/server.properties --timeout 2s",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, _, err := sources.load()
			if err != nil {
				return err
			}
			if cfg.AdminListener == "" {
				return usagef("admin.listener is empty: there is nobody to ask")
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return askHealth(ctx, std.out, localAddress(cfg.AdminListener))
		},
	}
	sources.register(cmd)
	cmd.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "how long an answer may take")
	return cmd
}

// localAddress is where a listener can be reached from its own machine.
func localAddress(listener string) string {
	host, port, err := net.SplitHostPort(listener)
	if err != nil {
		return listener
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}

func askHealth(ctx context.Context, out io.Writer, addr string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/ready", http.NoBody)
	if err != nil {
		return usagef("admin.listener: %w", err)
	}
	// No proxy: the broker is on this machine.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("no answer from %s: %w", addr, cause(err))
	}
	defer func() { _ = answer.Body.Close() }() // only read from
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxHealthBytes))
	if err != nil {
		return fmt.Errorf("answer from %s: %w", addr, err)
	}
	said := strings.TrimSpace(string(text))
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s says: %s", addr, said)
	}
	_, err = fmt.Fprintln(out, said)
	return err
}
