package node

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/controller"
)

// AwaitNewest returns when this node's published image is no older than what the active
// controller had decided when it was asked. It is asked about no partition at all: as any
// answer of it, that one says which image it depends on.
func (n *Node) AwaitNewest(ctx context.Context) error {
	req := kmsg.NewPtrListPartitionReassignmentsRequest()
	req.Topics, req.TimeoutMillis = []kmsg.ListPartitionReassignmentsRequestTopic{}, int32(n.opts.CallTimeout.Milliseconds())
	resp, at, err := n.Call(ctx, controller.Call{Request: req})
	if err != nil {
		return err
	}
	list, ok := resp.(*kmsg.ListPartitionReassignmentsResponse)
	if !ok {
		return fmt.Errorf("the controller answers with %T", resp)
	}
	if err := kerr.ErrorForCode(list.ErrorCode); err != nil {
		return fmt.Errorf("ask the controller: %w", err)
	}
	if err := n.opts.Metadata.WaitPublished(ctx, at); err != nil {
		return fmt.Errorf("wait for metadata: %w", err)
	}
	return nil
}
