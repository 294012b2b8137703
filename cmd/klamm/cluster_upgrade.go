package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func newClusterUpgrade(std streams) *cobra.Command {
	var f clientFlags
	var dryRun bool
	var output string
	cmd := &cobra.Command{
		Use:   "upgrade [FEATURE=LEVEL]...",
		Short: "Raise the level of features, after all nodes run a newer release",
		Long: "Raise the level of features, all that are named or none. Without arguments it is klamm.metadata, or the\n" +
			"metadata.version of a Kafka cluster, and the highest level that every node knows. From then on the cluster\n" +
			"writes what older releases do not know: it does not go back, and they end at their start.\n" +
			"It is refused as long as a node is registered, be it down, that does not know the level; `klamm cluster features`\n" +
			"shows which, and `klamm cluster remove` has one forgotten that is gone for good.",
		Example: "  klamm cluster upgrade --dry-run\n" +
			"  klamm cluster upgrade\n" +
			"  klamm cluster upgrade klamm.metadata=2 --output json",
		RunE: func(cmd *cobra.Command, args []string) error {
			wanted, err := parseLevels(args)
			if err != nil {
				return err
			}
			table, err := newTable(std.out, output, "FEATURE", "FROM", "TO", "RESULT")
			if err != nil {
				return err
			}
			return withClient(cmd.Context(), std, f, func(ctx context.Context, client *kgo.Client) error {
				levels, err := viewFeatures(ctx, client, f.clientID)
				if err != nil {
					return err
				}
				steps, err := planUpgrade(levels, wanted)
				if err != nil {
					return err
				}
				if err := updateFeatures(ctx, client, steps, dryRun, f.timeout.Milliseconds()); err != nil {
					return err
				}
				for _, s := range steps {
					if err := table.row(s.feature, s.from, s.to, s.result(dryRun)); err != nil {
						return err
					}
				}
				return table.flush()
			})
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "have the cluster check it, and change nothing")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, or json: one object for each feature")
	return cmd
}

// parseLevels reads arguments FEATURE=LEVEL.
func parseLevels(args []string) (map[string]int16, error) {
	wanted := map[string]int16{}
	for _, arg := range args {
		name, text, _ := strings.Cut(arg, "=")
		level, err := strconv.ParseInt(text, 10, 16)
		if err != nil || level < 1 || name == "" {
			return nil, usagef("%q: want FEATURE=LEVEL, as in klamm.metadata=2", arg)
		}
		if _, twice := wanted[name]; twice {
			return nil, usagef("%s is named twice", name)
		}
		wanted[name] = int16(level)
	}
	return wanted, nil
}

// featureStep is a feature that gets another level.
type featureStep struct {
	feature  string
	from, to int16
	// newest is the highest level that a node knows, and held who does not know it.
	newest int16
	held   []int32
}

func (s featureStep) result(dryRun bool) string {
	switch {
	case s.from == s.to && s.newest > s.to:
		return fmt.Sprintf("unchanged, %d is held back by %s", s.newest, nodes(s.held))
	case s.from == s.to:
		return "unchanged"
	case dryRun:
		return "would be raised"
	}
	return "raised"
}

// planUpgrade finds what is to be changed. That a level is known everywhere is for the cluster
// to say, which knows of nodes that do not answer.
func planUpgrade(levels []featureLevel, wanted map[string]int16) (steps []featureStep, err error) {
	for _, l := range levels {
		to, named := wanted[l.Feature]
		if len(wanted) == 0 && (l.Feature == klammMetadata || l.Feature == kafkaMetadata) {
			to, named = max(l.Level, l.Possible), true
		}
		switch {
		case !named:
			continue
		case to < l.Level:
			return nil, fmt.Errorf("%s is at %d; a level is not lowered", l.Feature, l.Level)
		}
		steps = append(steps, featureStep{l.Feature, l.Level, to, l.Newest, l.HeldBackBy})
	}
	for name := range wanted {
		if !slices.ContainsFunc(levels, func(l featureLevel) bool { return l.Feature == name }) {
			return nil, fmt.Errorf("no node of this cluster has a feature %s", name)
		}
	}
	if len(steps) == 0 {
		return nil, errors.New("the nodes of this cluster do not tell a level of metadata")
	}
	return steps, nil
}

// updateFeatures has the cluster take the steps, or check them.
func updateFeatures(ctx context.Context, client *kgo.Client, steps []featureStep, dryRun bool, timeout int64) error {
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.TimeoutMillis, req.ValidateOnly = int32(timeout), dryRun
	for _, s := range steps {
		if s.from == s.to {
			continue
		}
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.MaxVersionLevel, u.UpgradeType = s.feature, s.to, 1
		req.FeatureUpdates = append(req.FeatureUpdates, u)
	}
	if len(req.FeatureUpdates) == 0 {
		return nil
	}
	if dryRun {
		if err := checksOnly(ctx, client, req.Key()); err != nil {
			return err
		}
	}
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	failed := []error{refused(kerr.ErrorForCode(resp.ErrorCode), text(resp.ErrorMessage))}
	for _, r := range resp.Results { // up to version 1
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", r.Feature, refused(err, text(r.ErrorMessage))))
		}
	}
	return errors.Join(failed...)
}

// checksOnly makes sure that no broker would take a dry run for the change itself: version 0 of
// UpdateFeatures has none.
func checksOnly(ctx context.Context, client *kgo.Client, key int16) error {
	versions, err := kadm.NewClient(client).ApiVersions(ctx)
	if err != nil {
		return err
	}
	for _, v := range versions {
		if most, ok := v.KeyMaxVersion(key); v.Err == nil && (!ok || most < 1) {
			return fmt.Errorf("broker %d cannot check an upgrade without making it", v.NodeID)
		}
	}
	return nil
}
