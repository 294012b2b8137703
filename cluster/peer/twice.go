package peer

import (
	"context"
	"time"
)

// A process that is being killed closes its sockets one after the other: for a moment its
// address accepts although its connections have ended, on a busy machine for a tenth of a second. One that restarts its listener refuses
// for a moment. So what an address says counts when it says it twice in a row.
const (
	// twicePause lies between two dials.
	twicePause = 50 * time.Millisecond
	// refusalDials bounds the dials of RefusesTwice.
	refusalDials = 6
	// refusalTimeout bounds each of them: an address that neither accepts nor refuses within
	// it counts as not refusing. refusalPatience bounds all.
	refusalTimeout  = 500 * time.Millisecond
	refusalPatience = 3*refusalTimeout + 2*twicePause
)

// RefusesTwice tells whether nobody listens at an address any more. refuses dials it, and tells
// whether the connection was refused. It is false also if ctx ends before that is known.
func RefusesTwice(ctx context.Context, refuses func(context.Context) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, refusalPatience)
	defer cancel()
	return twiceInARow(ctx, refusalDials, func(ctx context.Context) bool {
		ctx, cancel := context.WithTimeout(ctx, refusalTimeout)
		defer cancel()
		return refuses(ctx)
	})
}

// twiceInARow tries until two attempts in a row succeed; false after so many attempts (0: any
// number), or when ctx has ended.
func twiceInARow(ctx context.Context, attempts int, try func(context.Context) bool) bool {
	last := false
	for i := 0; attempts == 0 || i < attempts; i++ {
		if i > 0 {
			rest(ctx, twicePause)
		}
		if ctx.Err() != nil {
			return false
		}
		now := try(ctx)
		if last && now {
			return true
		}
		last = now
	}
	return false
}
