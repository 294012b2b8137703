package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/controller"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// shortestWait is how long a request waits for a controller at least, however short its own
// timeout: an election takes a fraction of it.
const shortestWait = time.Second

// Call has the controller decide a request, and returns when this node's own published
// image shows what was decided: whoever asks this node next sees it.
//
// While there is no active controller the request is sent again, until its timeout (that
// of CreateTopics and DeleteTopics, else Options.CallTimeout) has passed; then the answer is
// REQUEST_TIMED_OUT. A request may have taken effect although an attempt failed: a
// CreateTopics that is repeated may find its topic. The error is that of ctx.
func (n *Node) Call(ctx context.Context, call controller.Call) (kmsg.Response, metadata.Position, error) {
	if call.Received.IsZero() {
		call.Received = time.Now()
	}
	callCtx, cancel := withRequestTimeout(ctx, call, n.opts.CallTimeout)
	defer cancel()
	for {
		resp, at, err := n.opts.Channel.Handle(callCtx, call)
		switch {
		case err == nil:
			return resp, at, n.awaitImage(ctx, callCtx, at)
		case ctx.Err() != nil:
			return nil, at, fmt.Errorf("call the controller: %w", context.Cause(ctx))
		case callCtx.Err() != nil:
			return n.timedOut(call), at, nil
		case !errors.Is(err, kafkaerr.NotController):
			return nil, at, fmt.Errorf("call the controller: %w", err)
		}
		n.metrics.retries.Inc()
		pause(callCtx, retryPause)
	}
}

// awaitImage waits for the own image. What was decided is answered even if the image is late.
func (n *Node) awaitImage(ctx, callCtx context.Context, at metadata.Position) error {
	err := n.opts.Metadata.WaitPublished(callCtx, at)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return fmt.Errorf("wait for metadata: %w", context.Cause(ctx))
	case callCtx.Err() == nil:
		return fmt.Errorf("wait for metadata: %w", err)
	default:
		n.opts.Logger.Warn("metadata is late", "position", at.Index, "published", n.opts.Metadata.Published().Index)
	}
	return nil
}

func (n *Node) timedOut(call controller.Call) kmsg.Response {
	return controller.ErrorResponse(call.Request, kafkaerr.New(kafkaerr.RequestTimedOut, ""))
}

func withRequestTimeout(ctx context.Context, call controller.Call, patience time.Duration) (context.Context, context.CancelFunc) {
	t, ok := call.Request.(interface{ Timeout() int32 })
	if !ok {
		return context.WithDeadline(ctx, call.Received.Add(patience))
	}
	wait := max(time.Duration(t.Timeout())*time.Millisecond, shortestWait)
	return context.WithDeadline(ctx, call.Received.Add(wait))
}

// pause sleeps, but not beyond the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
