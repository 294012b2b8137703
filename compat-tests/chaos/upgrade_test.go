package chaos

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/compat-tests/harness"
)

// metadataFeature decides which records the metadata log may have.
const metadataFeature = "klamm.metadata"

// TestRollingUpgrade upgrades three brokers under load from the commit FROM to this one, back,
// and forward again; and on to a release that has a level more of klamm.metadata, back, and
// forward again. Then the level is raised, and who does not know it is refused.
func TestRollingUpgrade(t *testing.T) {
	from := os.Getenv("FROM")
	if from == "" {
		t.Fatal("FROM must name the commit to upgrade from; `make upgrade` knows one")
	}
	this, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	earlier := harness.BinaryAt(t, from)
	next, level := harness.NextRelease(t)
	r := prepareCluster(t, nil, 0)
	for _, n := range r.nodes {
		n.Use(earlier)
	}
	r.begin(t, map[string]string{"min.insync.replicas": "2"}, nil, chosen(t))
	begin := time.Now()

	r.roll(restart("upgrade", this))
	r.roll(restart("back", earlier))
	r.roll(restart("upgrade", this))
	r.wantLevel(level-1, "after an upgrade")

	r.roll(restart("to next", next), 1)
	r.wantHeldBack(level)
	r.roll(restart("to next", next), 2, 3)
	r.wantLevel(level-1, "before it is raised")
	r.roll(restart("back", this))
	r.roll(restart("to next", next))
	r.raiseLevel(level)
	r.wantTooOld(this, level)
	r.wantTooOld(earlier, level)
	r.roll(restart("at the new level", next))

	compared := r.finish()
	r.wantAllTooOld(this)
	r.wantNothingGivenUp()
	harness.Evidence(t, "commit=%s from=%s restarts=%d longest=%s replicas=%d %s duration=%s result=%s", harness.Commit(), from[:min(len(from), 12)], len(r.costs),
		r.longest(), compared, r.load.counts(), time.Since(begin).Round(time.Second), result(t))
}

// level is the finalized level of klamm.metadata, as a node tells it.
func (r *clusterRun) level(n *server) (int16, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "chaos", "1"
	resp, err := r.watcher.clients[n.id-1].SeedBrokers()[0].Request(ctx, req)
	if err != nil {
		return 0, err
	}
	for _, f := range resp.(*kmsg.ApiVersionsResponse).FinalizedFeatures {
		if f.Name == metadataFeature {
			return f.MaxVersionLevel, nil
		}
	}
	return 0, nil
}

// wantLevel waits until all nodes tell a level; one that has not been raised is there at once.
func (r *clusterRun) wantLevel(want int16, when string) {
	r.t.Helper()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for _, n := range r.nodes {
		got, err := r.level(n)
		for deadline := time.Now().Add(bound); (err != nil || got < want) && time.Now().Before(deadline); got, err = r.level(n) {
			<-look.C
		}
		if err != nil || got != want {
			r.t.Fatalf("%s node %d says that %s is at %d, %v; want %d", when, n.id, metadataFeature, got, err, want)
		}
	}
}

// raiseLevel is the second step of an upgrade, tried first.
func (r *clusterRun) raiseLevel(level int16) {
	r.t.Helper()
	for _, args := range [][]string{{"cluster", "upgrade", "--dry-run"}, {"cluster", "upgrade"}} {
		out, err := r.klamm(args...).run()
		if err != nil || !strings.Contains(out, "raised") {
			r.t.Fatalf("klamm %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		if dry := slices.Contains(args, "--dry-run"); dry {
			r.wantLevel(level-1, "after a dry run")
		}
	}
	r.wantLevel(level, "after it was raised")
}

// wantHeldBack asks for a level that node 1 alone knows.
func (r *clusterRun) wantHeldBack(level int16) {
	r.t.Helper()
	said, err := r.klamm("cluster", "upgrade", fmt.Sprintf("%s=%d", metadataFeature, level)).run()
	if err == nil || !strings.Contains(said, "INVALID_UPDATE_VERSION") {
		r.t.Fatalf("%s was raised to %d while nodes do not know that level: %v %s", metadataFeature, level, err, said)
	}
	r.t.Logf("as long as not all nodes know level %d: %s", level, said)
	want := fmt.Sprintf("%s %d, %d is held back by 2,3", metadataFeature, level-1, level)
	if out, err := r.klamm("cluster", "status").run(); err != nil || !strings.Contains(out, want) {
		r.t.Fatalf("klamm cluster status: %v, want %q in\n%s", err, want, out)
	}
}

// wantTooOld starts a node with a binary that does not know the level in force: it says so and
// ends, whatever it finds on its disk, and serves nobody.
func (r *clusterRun) wantTooOld(binary string, level int16) {
	r.t.Helper()
	n := r.nodes[nodes-1]
	r.stop(n)
	newer := n.Use(binary)
	err := r.tryStart(n)
	said := lastLine(n.Stderr())
	if want := fmt.Sprintf("the cluster is at %s %d, broker %d supports", metadataFeature, level, n.id); err == nil || !n.Gone() || !strings.Contains(said, want) {
		r.t.Fatalf("a node that does not know %s %d: %v, want one that ends and says: %s", metadataFeature, level, err, want)
	}
	r.t.Logf("a release that does not know level %d: %s", level, said)
	n.Use(newer)
	r.start(n)
	r.awaitWhole()
}

// wantAllTooOld starts all nodes, which are stopped, with a binary that does not know the level
// in force: nobody is there who could refuse them but their own logs.
func (r *clusterRun) wantAllTooOld(binary string) {
	r.t.Helper()
	for _, n := range r.nodes {
		n.Use(binary)
		n.clients.open()
		n.controllers.open()
		if err := n.Launch(); err != nil {
			r.t.Fatal(err)
		}
	}
	refused := 0
	for _, n := range r.nodes {
		if err := n.WaitReady(); err == nil {
			r.t.Errorf("node %d became ready with a log that it does not know", n.id)
		}
		said := lastLine(n.Stderr())
		r.t.Logf("node %d, without others that know more: %s", n.id, said)
		if strings.Contains(said, "written by a newer release, upgrade this one") {
			refused++
		}
	}
	if refused < 2 {
		r.t.Errorf("%d nodes say that their log is of a newer release", refused)
	}
}
