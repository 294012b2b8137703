package node

import (
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/controller"
)

// prefetchShare is the share of a block, as its n-th part, that is left when the next one is
// fetched (Kafka's RPCProducerIdManager: 10 %).
const prefetchShare = 10

// producerIDs draws ids from blocks that the controller gave to this broker. What a process
// does not use is lost: there are 2^63.
type producerIDs struct {
	mu       sync.Mutex
	current  idBlock
	next     *idBlock // fetched ahead
	fetching bool
	fetched  chan struct{} // closed and replaced when a fetch has ended
	lastErr  error         // of that fetch
	closed   bool          // nothing more is fetched
}

// idBlock is what is left of a block: first to end, which is exclusive.
type idBlock struct{ first, end, size int64 }

func (p *producerIDs) init() { p.fetched = make(chan struct{}) }

func (p *producerIDs) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}

// NextProducerID gives a producer id that nobody else in the cluster gets. It waits for the
// controller when the block is used up, until ctx ends.
func (n *Node) NextProducerID(ctx context.Context) (int64, error) {
	for {
		id, ok, fetched := n.takeProducerID()
		if ok {
			return id, nil
		}
		select {
		case <-fetched:
			if err := n.ids.err(); err != nil { // a fetch that failed is tried again
				n.opts.Logger.Debug("no block of producer ids", "error", err)
				pause(ctx, retryPause)
			}
		case <-ctx.Done():
			return 0, fmt.Errorf("wait for producer ids: %w", context.Cause(ctx))
		case <-n.life.Done():
			return 0, fmt.Errorf("wait for producer ids: %w", context.Canceled)
		}
	}
}

// takeProducerID gives an id if there is one, and has the next block fetched in time.
func (n *Node) takeProducerID() (id int64, ok bool, fetched <-chan struct{}) {
	p := &n.ids
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current.first == p.current.end && p.next != nil {
		p.current, p.next = *p.next, nil
	}
	if p.current.first < p.current.end {
		id, ok = p.current.first, true
		p.current.first++
	}
	left := p.current.end - p.current.first
	if p.next == nil && !p.fetching && !p.closed && left*prefetchShare <= p.current.size {
		p.fetching = true
		n.tasks.Go(n.fetchProducerIDs)
	}
	return id, ok, p.fetched
}

// fetchProducerIDs asks once for a block.
func (n *Node) fetchProducerIDs() {
	block, err := n.allocateProducerIDs()
	p := &n.ids
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fetching, p.lastErr = false, err
	if err == nil {
		p.next = &block
	}
	close(p.fetched)
	p.fetched = make(chan struct{})
}

func (n *Node) allocateProducerIDs() (idBlock, error) {
	ctx, cancel := context.WithTimeout(n.life, n.opts.RequestTimeout)
	defer cancel()
	req := kmsg.NewPtrAllocateProducerIDsRequest()
	req.BrokerID, req.BrokerEpoch = n.opts.NodeID, n.BrokerEpoch()
	reply, _, err := n.opts.Channel.Handle(ctx, controller.Call{Request: req})
	if err != nil {
		return idBlock{}, fmt.Errorf("allocate producer ids: %w", err)
	}
	resp, ok := reply.(*kmsg.AllocateProducerIDsResponse)
	if !ok {
		return idBlock{}, fmt.Errorf("allocation of producer ids answered with %T", reply)
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return idBlock{}, fmt.Errorf("allocate producer ids: %w", err)
	}
	size := int64(resp.ProducerIDLen)
	if size <= 0 {
		return idBlock{}, fmt.Errorf("allocate producer ids: block of %d", size)
	}
	return idBlock{first: resp.ProducerIDStart, end: resp.ProducerIDStart + size, size: size}, nil
}

func (p *producerIDs) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lastErr
}
