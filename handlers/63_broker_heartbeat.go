package handlers

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// BrokerHeartbeat (key 63), versions 0–2: a broker says that it is alive, and what it wants
// to be: in service, fenced, or gone (KIP-631). Brokers send it, on controller listeners.
//
//	v1  log directories that failed (KIP-858)
//	v2  log directories with cordoned replicas
//
// When the connection that they come on closes, the controller is told at once.
func (h *Handlers) brokerHeartbeat(ctx context.Context, c call, req *kmsg.BrokerHeartbeatRequest) (kmsg.Response, error) {
	resp, _ := h.control(ctx, c, req)
	if beat, ok := resp.(*kmsg.BrokerHeartbeatResponse); ok && beat.ErrorCode == 0 {
		h.beats.watch(ctx, c.request.Conn.ID, req.BrokerEpoch, func() { h.controller.ConnectionLost(req.BrokerID, req.BrokerEpoch) })
	}
	return resp, nil
}

// heartbeatConns knows the connections on which brokers send heartbeats.
type heartbeatConns struct {
	mu     sync.Mutex
	epochs map[uint64]int64 // by connection, that of the broker; bounded by the connections
}

// watch calls lost when ctx, which is that of the connection, ends.
func (w *heartbeatConns) watch(ctx context.Context, conn uint64, epoch int64, lost func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.epochs == nil {
		w.epochs = map[uint64]int64{}
	}
	if old, known := w.epochs[conn]; known && old == epoch {
		return
	}
	w.epochs[conn] = epoch
	context.AfterFunc(ctx, func() {
		w.forget(conn)
		lost()
	})
}

func (w *heartbeatConns) forget(conn uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.epochs, conn)
}
