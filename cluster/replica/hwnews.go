package replica

import (
	"sync"
	"time"
)

// highWatermarkPatience is how long a follower's fetch that waits for records keeps the news
// of a higher high watermark to itself. Under load records come before that and carry it, so
// a batch costs a follower one request instead of two. It bounds by how much a consumer that
// reads from a follower, which Kafka tells with the next records or after
// replica.fetch.wait.max.ms, lags behind one that reads from the leader.
const highWatermarkPatience = 5 * time.Millisecond

// highWatermarkNews ends followers' fetches that know a high watermark which has been passed.
// One timer serves all, so that a fetch which ends before costs nothing.
type highWatermarkNews struct {
	end func(*delayedFetch)

	mu   sync.Mutex
	late []*delayedFetch // that were told of since the timer was set, ended ones included
}

// tell ends d soon, if it still waits then.
func (n *highWatermarkNews) tell(d *delayedFetch) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.late = append(n.late, d); len(n.late) == 1 {
		time.AfterFunc(highWatermarkPatience, n.due)
	}
}

func (n *highWatermarkNews) due() {
	n.mu.Lock()
	list := n.late
	n.late = nil
	n.mu.Unlock()
	for _, d := range list {
		n.end(d)
	}
}
