package metalog

import (
	"log/slog"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

func TestTimeoutsOfTheQuorum(t *testing.T) {
	const ms = time.Millisecond
	normal := TimingForQuorum()
	for name, c := range map[string]struct {
		fetch, election             time.Duration
		heartbeat, elections, lease time.Duration
	}{
		"neither is set":         {0, 0, normal.HeartbeatTimeout, normal.ElectionTimeout, normal.LeaderLease},
		"both":                   {2000 * ms, 3000 * ms, 2000 * ms, 3000 * ms, 2000 * ms},
		"fetch alone":            {2000 * ms, 0, 2000 * ms, 2000 * ms, 2000 * ms},
		"election alone":         {0, 3000 * ms, normal.HeartbeatTimeout, 3000 * ms, normal.LeaderLease},
		"election below fetch":   {400 * ms, 100 * ms, 400 * ms, 400 * ms, 400 * ms},
		"shorter than is of use": {1 * ms, 1 * ms, shortestTimeout, shortestTimeout, shortestTimeout},
	} {
		got := normal.WithTimeouts(c.fetch, c.election)
		if got.HeartbeatTimeout != c.heartbeat || got.ElectionTimeout != c.elections || got.LeaderLease != c.lease {
			t.Errorf("%s: %+v", name, got)
		}
		l := &Log{opts: Options{Timing: got}, logger: slog.New(slog.DiscardHandler)}
		if err := raft.ValidateConfig(l.raftConfig()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
