// Package node is this broker's life in the cluster: it registers with the controller,
// sends heartbeats, hands the broker out of service in an orderly way, draws producer ids
// from the controller's blocks, and forwards requests to the controller.
//
//	            registered          heartbeat answers: in service
//	Starting ───────────────► Fenced ─────────────────────────────► Unfenced
//	   ▲                      │    ◄───────────────────────────────    │
//	   │ epoch is stale       │          heartbeat answers: fenced     │
//	   └──────────────────────┴─────────────────────┬──────────────────┘
//	                                                 │ ControlledShutdown
//	                          ShuttingDown ◄─────────┘
//	                               │ heartbeat answers: stop
//	                               ▼
//	                            Stopped
//
// A cluster of one goes through the same states with the same requests; its controller
// channel is a function call.
//
// A registration makes this process a member under an incarnation id of its own and gives it
// an epoch, which every later request carries: what an earlier process of this broker sent,
// or one that was declared dead, is refused. The node is fenced until Unfence, which the
// broker calls when its logs are recovered and its listeners are ready; so nobody is
// referred to it before.
//
// # Goroutines
//
// The life cycle has one goroutine (run) with at most one request in flight. A second one is
// started when the producer ids run low, and ends with the answer. Node.mu guards what the
// accessors read; it is never held during a call to the controller.
package node
