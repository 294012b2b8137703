package groups

import (
	"slices"
	"testing"
	"time"
)

// staticSession is long enough for a member to come back within.
const staticSession = 30 * time.Second

// RunStatic plays the life of members with a name of their own (group.instance.id,
// KIP-345): one that comes back within its session takes up what it had, and nobody else
// notices; two of one name cannot be.
func RunStatic(t *testing.T, program Program) {
	t.Helper()
	l := newLife(t, StartCluster(t))
	l.session = staticSession
	stopProducing := l.produce()
	defer stopProducing()

	a := l.start(program, "a", "one")
	l.await("the first member has every partition", func() bool { return l.owners(a) })
	b := l.start(program, "b", "two")
	l.await("two members share the partitions", func() bool { return l.owners(a, b) && b.read() > 0 })

	before, noticed := b.partitions(), a.rebalances()
	b.kill()
	back := l.start(program, "b", "two")
	l.await("a member of a known name is back", func() bool { return slices.Equal(back.partitions(), before) && back.read() > 0 })
	if n := a.rebalances(); n != noticed {
		t.Errorf("the other member has noticed: its partitions were told %d times, before %d", n, noticed)
	}

	second := l.start(program, "a2", "one")
	l.await("the newer of two members of one name has the partitions", func() bool { return l.owners(second, back) })
	l.await("the older one is told that it is fenced", func() bool { return a.said("fenced") })
}
