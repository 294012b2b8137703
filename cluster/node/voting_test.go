package node

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/controller"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// asked notes what a controller was asked, and when.
type asked struct {
	begin time.Time
	keys  []string
	at    []time.Duration
	err   error
}

func (a *asked) Handle(_ context.Context, c controller.Call) (kmsg.Response, metadata.Position, error) {
	a.keys, a.at = append(a.keys, kmsg.NameForKey(c.Request.Key())), append(a.at, time.Since(a.begin))
	return c.Request.ResponseKind(), metadata.Position{}, a.err
}

// Whoever votes asks for nothing, nor does one who knows of no cluster yet. A voter on another
// disk gets time to be replaced by the leader.
func TestVotingAsksForWhatIsMissing(t *testing.T) {
	self, other := uuid.UUID{1}, uuid.UUID{2}
	for name, test := range map[string]struct {
		cluster string
		voters  map[int32]uuid.UUID
		key     string
		first   time.Duration
	}{
		"it votes":           {"c", map[int32]uuid.UUID{1: {9}, 3: self}, "", 0},
		"no metadata yet":    {"", map[int32]uuid.UUID{1: {9}}, "", 0},
		"no log yet":         {"c", nil, "", 0},
		"it does not vote":   {"c", map[int32]uuid.UUID{1: {9}}, "AddRaftVoter", joinPause},
		"its old disk votes": {"c", map[int32]uuid.UUID{1: {9}, 3: other}, "RemoveRaftVoter", usurpAfter * joinPause},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := &asked{begin: time.Now(), err: kafkaerr.NotController}
			v := Voting{
				NodeID: 3, DirectoryID: self, Channel: a, Timeout: time.Second, Logger: slog.New(slog.DiscardHandler),
				Cluster: func() string { return test.cluster }, Voters: func() map[int32]uuid.UUID { return test.voters },
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			v.Keep(ctx)
			switch {
			case test.key == "" && len(a.keys) > 0:
				t.Errorf("%s: asked for %v", name, a.keys)
			case test.key != "" && (len(a.keys) < 2 || a.keys[0] != test.key || a.at[0] != test.first):
				t.Errorf("%s: asked for %v after %v, want %s after %v, and again", name, a.keys, a.at, test.key, test.first)
			}
		})
	}
}
