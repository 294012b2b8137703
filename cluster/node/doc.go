// Package node is this broker's life in the cluster: it registers with the controller,
// sends heartbeats, hands the broker out of service in an orderly way, draws producer ids
// from the controller's blocks, and forwards requests to the controller.
//
//	           registered            heartbeat: not fenced
//	Starting ─────────────► Fenced ─────────────────────────► Unfenced
//	                          ▲    ◄─────────────────────────    │
//	                          │        heartbeat: fenced         │ ControlledShutdown
//	                          │                                  ▼
//	                          └── (registration lost) ──   ShuttingDown ──► Stopped
//
// A cluster of one goes through the same states with the same requests; its controller
// channel is a function call.
//
// One goroutine (Run) owns the life cycle and has at most one request in flight; a second
// one, started on demand, fetches the next producer-id block. The mutex guards the state
// that accessors read and is never held during a call to the controller.
package node
