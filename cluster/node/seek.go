package node

import (
	"context"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// seekPause is how often at most a node asks which controllers there are.
	seekPause = time.Second
	// maxSought bounds the controllers that it is told of.
	maxSought = 16
	// controllerEndpoints asks DescribeCluster for controllers (KIP-919).
	controllerEndpoints = 2
)

// candidates are the controllers that are configured, and those that they have told of.
func (c *Channel) candidates() []string {
	if sought := c.sought.Load(); sought != nil {
		return *sought
	}
	return c.opts.Controllers
}

// seek asks controllers of which none is active which others there are: as in Kafka one
// address is enough to find all. It tells whether there is one that was not known.
func (c *Channel) seek(ctx context.Context) bool {
	now := time.Now()
	if last := c.soughtAt.Load(); last != nil && now.Sub(*last) < seekPause {
		return false
	}
	c.soughtAt.Store(&now)
	before := c.candidates()
	for _, address := range c.opts.Controllers {
		told := c.toldOf(ctx, address)
		all := slices.Clone(c.opts.Controllers)
		for _, other := range told {
			if len(all) < len(c.opts.Controllers)+maxSought && !slices.Contains(all, other) {
				all = append(all, other)
			}
		}
		if len(told) > 0 {
			c.sought.Store(&all)
			return slices.ContainsFunc(all, func(a string) bool { return !slices.Contains(before, a) })
		}
	}
	return false
}

func (c *Channel) toldOf(ctx context.Context, address string) (others []string) {
	patient, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	req := kmsg.NewPtrDescribeClusterRequest()
	req.Version, req.EndpointType = 1, controllerEndpoints
	reply, err := c.life.request(patient, address, req)
	if resp, ok := reply.(*kmsg.DescribeClusterResponse); err == nil && ok && resp.ErrorCode == 0 {
		for _, b := range resp.Brokers {
			others = append(others, net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))))
		}
	}
	return others
}
