package metalog

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/logstore/vfs"
)

// blocker is a publisher that a test can hold up.
type blocker struct {
	name    string
	entered chan string
	proceed chan struct{}
	seen    []metadata.Position
	topics  []string
}

func (b *blocker) Name() string { return b.name }

func (b *blocker) OnMetadataUpdate(delta *metadata.Delta, next *metadata.Image) {
	b.entered <- b.name
	<-b.proceed
	b.seen = append(b.seen, next.Position())
	for c := range delta.Topics() {
		b.topics = append(b.topics, c.Name())
	}
}

// publishing is a loader that a test feeds by hand.
type publishing struct {
	*loader
	t     *testing.T
	image *metadata.Image
}

func newPublishing(t *testing.T, publishers ...Publisher) *publishing {
	p := &publishing{loader: newLoader(publishers, newMetrics(nil)), t: t, image: metadata.Empty()}
	go p.run()
	t.Cleanup(p.close)
	return p
}

// add pushes the creation of a topic, "" for an entry that changes nothing.
func (p *publishing) add(name string) metadata.Position {
	p.t.Helper()
	pos := metadata.Position{Index: p.image.Position().Index + 1, Term: 1}
	if name == "" {
		d := metadata.Unchanged(p.image, pos)
		p.image = d.Next()
		p.push(d)
		return pos
	}
	d := metadata.NewDelta(p.image)
	if err := d.ReplayAll(newTopic(name)...); err != nil {
		p.t.Fatal(err)
	}
	p.image = d.Image(pos)
	p.push(d)
	return pos
}

// Publishers are called in order, one at a time; what comes meanwhile reaches them as one
// change; whoever waits for a position goes on when the last publisher has seen it.
func TestPublishersInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, proceed := make(chan string), make(chan struct{})
		first := &blocker{name: "first", entered: entered, proceed: proceed}
		last := &blocker{name: "last", entered: entered, proceed: proceed}
		p := newPublishing(t, first, last)
		p.start(metadata.Position{})
		a := p.add("a")
		if who := <-entered; who != "first" {
			t.Fatalf("%s was called first", who)
		}
		p.add("b")
		c := p.add("c")
		waited := make(chan error, 1)
		go func() { waited <- p.wait(context.Background(), c) }()
		proceed <- struct{}{}
		if who := <-entered; who != "last" {
			t.Fatalf("%s was called second", who)
		}
		if pos, _ := p.position(); pos != (metadata.Position{}) {
			t.Errorf("published %v before the last publisher saw it", pos)
		}
		proceed <- struct{}{}
		<-entered
		if pos, _ := p.position(); pos != a {
			t.Errorf("published %v, want %v", pos, a)
		}
		proceed <- struct{}{}
		<-entered
		synctest.Wait()
		if len(waited) > 0 {
			t.Error("the wait ended before the last publisher")
		}
		proceed <- struct{}{}
		if err := <-waited; err != nil {
			t.Error(err)
		}
		for _, b := range []*blocker{first, last} {
			if !slices.Equal(b.topics, []string{"a", "b", "c"}) || !slices.Equal(b.seen, []metadata.Position{a, c}) {
				t.Errorf("%s saw %v at %v", b.name, b.topics, b.seen)
			}
		}
	})
}

// Nothing is published before it is known to be new enough.
func TestPublishingStartsAtAPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, proceed := make(chan string, 10), make(chan struct{}, 10)
		b := &blocker{name: "b", entered: entered, proceed: proceed}
		for range 10 {
			proceed <- struct{}{}
		}
		p := newPublishing(t, b)
		p.add("a")
		synctest.Wait()
		if len(entered) > 0 {
			t.Fatal("published before the start")
		}
		p.start(metadata.Position{Index: 3})
		p.start(metadata.Position{Index: 1}) // only the first counts
		p.add("b")
		synctest.Wait()
		if len(entered) > 0 {
			t.Fatal("published an image older than the start")
		}
		c := p.add("c")
		if err := p.wait(context.Background(), c); err != nil {
			t.Fatal(err)
		}
		d := p.add("") // changes nothing, but moves the position
		if err := p.wait(context.Background(), d); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(b.topics, []string{"a", "b", "c"}) || !slices.Equal(b.seen, []metadata.Position{c, d}) {
			t.Errorf("saw %v at %v", b.topics, b.seen)
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPublishing(t)
		reason := errors.New("client went away")
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(reason)
		if err := p.wait(ctx, metadata.Position{Index: 1}); !errors.Is(err, reason) {
			t.Errorf("%v", err)
		}
	})
}

// A leader's first barrier starts publishing; a restarted node shows nobody the old state
// that it finds in its own log.
func TestRestartPublishesNothingOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := tuned(alone(t, vfs.NewMem()))
		l, term := lead(t, o)
		for _, name := range []string{"a", "b", "c"} {
			if err := create(l, term, name); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.raft.Snapshot().Error(); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"d", "e"} {
			if err := create(l, term, name); err != nil {
				t.Fatal(err)
			}
		}
		mustClose(t, l)

		b := &blocker{name: "b", entered: make(chan string, 10), proceed: make(chan struct{}, 10)}
		for range 10 {
			b.proceed <- struct{}{}
		}
		o.Publishers = []Publisher{b}
		l, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(b.entered) > 0 {
			t.Error("published before the barrier")
		}
		mustLead(t, l)
		if err := l.WaitPublished(context.Background(), l.Image().Position()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(b.topics, []string{"a", "b", "c", "d", "e"}) || len(b.seen) != 1 {
			t.Errorf("saw %v at %v", b.topics, b.seen)
		}
		if l.Published() != l.Image().Position() {
			t.Errorf("published %v, image at %v", l.Published(), l.Image().Position())
		}
		mustClose(t, l)
	})
}
