package metalog

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSmoke(t *testing.T) {
	start := time.Now()
	o := Options{NodeID: 1, DirectoryID: uuid.UUID{1}, Dir: t.TempDir(), BootstrapSelf: true, Reserve: Reserve{KeepFree: 3 << 20, Floor: 1 << 20, Ballast: 1 << 20}}
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Log("open", time.Since(start))
	lead := <-l.Leadership()
	t.Log("leader", lead, time.Since(start))
	ctx := context.Background()
	if _, err := l.Barrier(ctx, lead.Term); err != nil {
		t.Fatal(err)
	}
	t.Log("barrier", time.Since(start))
	pos, err := l.Propose(ctx, lead.Term, []metadata.Record{metadata.TopicRecord{Name: "a", ID: uuid.UUID{1}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(pos, time.Since(start))
	if err := l.WaitPublished(ctx, pos); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	t.Log("closed", time.Since(start))
}
