package replica

import (
	"context"
	"sync"
	"time"

	"github.com/klamm-mq/klamm/logstore"
)

const (
	// moveStep is how much is copied at a time, at most.
	moveStep = 1 << 20
	// moveSettleBytes is how much is copied before it is made durable.
	moveSettleBytes = 64 << 20
	// moveTailBytes bounds what is copied and synced while writes are parked. The first
	// moveTries attempts are for a sixtieth of it: only a partition that gets very much all
	// the time has its writers wait for longer.
	moveTailBytes = 16 << 20
	moveTries     = 4
	// movePause follows an attempt that failed for a reason that passes, such as a full
	// disk.
	movePause = time.Second
)

// moves are the replicas that are on their way to another directory of this broker (Kafka's
// ReplicaAlterLogDirsManager). While there are any, there are goroutines: as many as
// Options.MoveThreads says, each of which takes a step of one move after the other.
type moves struct {
	m    *Manager
	pace pace

	mu      sync.Mutex
	byID    map[TopicIDPartition]*moving
	queue   []*moving
	workers int
	stopped bool
	running sync.WaitGroup // Add only under mu and before stopped
	ctx     context.Context
	stop    context.CancelFunc
}

// moving is one move. It is in byID until it is over.
type moving struct {
	h    *hosted
	to   *directory
	move *logstore.Move // replaced under moves.mu
	// turn is held by whoever works on the move. A channel: they wait for disks.
	turn chan struct{}

	unsettled int       // bytes copied since the last Settle; guarded by turn
	settled   int       // how often Settle was called when little was left; guarded by turn
	notBefore time.Time // guarded by moves.mu
	over      bool      // guarded by moves.mu
}

func (s *moves) init(m *Manager) {
	s.m, s.byID = m, make(map[TopicIDPartition]*moving)
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.pace.limit = m.opts.MoveBytesPerSecond
}

// of is the move of a replica, nil if there is none.
func (s *moves) of(id TopicIDPartition) *moving {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id]
}

// state counts the moves, and tells how many messages the one that is farthest behind lacks.
func (s *moves) state() (n, maxLag int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.byID {
		maxLag = max(maxLag, int(x.move.Lag()))
	}
	return len(s.byID), maxLag
}

// begin has a replica moved; its copy may have been begun by an earlier run.
func (s *moves) begin(now time.Time, h *hosted, to *directory) error {
	move, err := to.BeginMove(now, h.at().log)
	if err != nil {
		return err
	}
	x := &moving{h: h, to: to, move: move, turn: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil // the next run finds the copy
	}
	s.m.opts.Logger.Info("replica begins to move", "topic", h.Topic(), "partition", h.ID().Partition, "from", h.at().dir.Path(), "to", to.Path())
	s.byID[h.ID()] = x
	s.queue = append(s.queue, x)
	if s.workers < max(1, s.m.opts.MoveThreads()) {
		s.workers++
		s.running.Add(1)
		go s.work()
	}
	return nil
}

// end stops the move of a replica, if there is one, and throws the copy away. When it
// returns the replica is in one place, the new one if the move was faster.
func (s *moves) end(now time.Time, h *hosted) {
	x := s.of(h.ID())
	if x == nil {
		return
	}
	x.turn <- struct{}{}
	defer func() { <-x.turn }()
	if s.finished(x) {
		x.cancel(now)
	}
}

// finished takes a move off the list; false if it was off already.
func (s *moves) finished(x *moving) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !x.over
	x.over = true
	delete(s.byID, x.h.ID())
	return first
}

func (x *moving) cancel(now time.Time) {
	if x.move.Gone() {
		return
	}
	if err := x.move.Cancel(now); err != nil {
		x.to.warn("copy of a replica was not removed", x.h, err)
	}
}

// close ends all goroutines. Copies stay, and the next run goes on with them.
func (s *moves) close() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.stop()
	s.running.Wait()
}

// work takes steps until there is nothing to move.
func (s *moves) work() {
	defer s.running.Done()
	for {
		x, wait := s.next(time.Now())
		switch {
		case x == nil && wait == 0:
			return
		case x == nil:
			s.sleep(wait)
			continue
		}
		s.pace.await(s.ctx)
		x.turn <- struct{}{}
		again, pause := s.step(x)
		<-x.turn
		if again {
			s.putBack(x, pause)
		}
	}
}

// next takes the first move that is due off the queue, or says how long to wait for one. A
// worker that is told neither has ended.
func (s *moves) next(now time.Time) (x *moving, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, x := range s.queue {
		if due := x.notBefore.Sub(now); due > 0 && !s.stopped {
			if wait == 0 || due < wait {
				wait = due
			}
			continue
		}
		s.queue = append(s.queue[:i:i], s.queue[i+1:]...)
		return x, 0
	}
	if wait == 0 {
		s.workers--
	}
	return nil, wait
}

func (s *moves) putBack(x *moving, pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.notBefore = time.Time{}
	if pause > 0 {
		x.notBefore = time.Now().Add(pause)
	}
	s.queue = append(s.queue, x)
}

// sleep waits, but not beyond the end.
func (s *moves) sleep(d time.Duration) { sleep(s.ctx, d) }

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// step copies a piece, or finishes the move. again says that another step is to follow.
func (s *moves) step(x *moving) (again bool, pause time.Duration) {
	s.mu.Lock()
	ended := x.over || s.stopped
	s.mu.Unlock()
	if ended {
		return false, 0
	}
	done, err := s.advance(x)
	switch {
	case err == nil:
		return !done, 0
	case logstore.MayPass(err):
		x.to.warn("replica waits to move on", x.h, err)
		return true, movePause
	}
	x.to.warn("replica does not move", x.h, err)
	if x.h.Failure() == nil && x.to.offline() == nil && x.h.at().dir.offline() == nil {
		x.cancel(time.Now())
	}
	s.finished(x) // only now: the next move must not take up the copy that is thrown away
	return false, 0
}

// advance copies, and when little is missing finishes the move.
func (s *moves) advance(x *moving) (done bool, err error) {
	if x.move.Gone() { // an attempt to finish has failed
		move, err := x.to.BeginMove(time.Now(), x.h.at().log)
		if err != nil {
			return false, err
		}
		s.mu.Lock()
		x.move, x.unsettled = move, 0
		s.mu.Unlock()
	}
	step := s.pace.step()
	copied, err := x.move.Copy(time.Now(), step)
	if err != nil {
		return false, err
	}
	s.pace.spend(copied.Bytes)
	s.m.metrics.movedBytes.Add(float64(copied.Bytes))
	x.unsettled += copied.Bytes
	if copied.FlushWanted {
		x.to.committer.Wake()
	}
	tail := x.move.TailBytes()
	switch {
	case (copied.Bytes >= step || tail > x.maxTail()) && x.unsettled < moveSettleBytes:
		return false, nil
	case tail+x.unsettled > x.maxTail():
		if tail <= x.maxTail() {
			x.settled++
		}
		x.unsettled = 0
		return false, x.move.Settle(time.Now())
	}
	return s.finish(x)
}

// maxTail is how much may be left to copy, or to make durable, when writes are parked.
func (x *moving) maxTail() int {
	if x.settled < moveTries {
		return moveTailBytes / 60
	}
	return moveTailBytes
}

// finish puts the copy in the place of the log. Writes wait for as long as that takes: a
// bounded number of bytes are copied, and two disks sync what has changed.
func (s *moves) finish(x *moving) (done bool, err error) {
	h, now := x.h, time.Now()
	unpark := h.ParkWrites()
	defer func() {
		unpark()
		s.m.carryOut(h, h.FlushDone(time.Now()))
	}()
	if x.move.TailBytes()+x.unsettled > x.maxTail() {
		return false, nil // much was appended just before
	}
	log, err := x.move.Finish(now, h.HighWatermark())
	if err != nil {
		return false, err
	}
	if err := x.to.Err(); err != nil {
		return false, err // the disk has failed since: the original goes on
	}
	if err := h.SwapLog(log); err != nil {
		s.m.fail(h, err)
	}
	from := h.at().dir
	h.where.Store(&place{x.to, log})
	if err := h.failure(); err != nil {
		s.m.fail(h, err) // DirectoryFailed may have looked while it was in the old place
	}
	s.m.fetchers.rehome(h)
	if err := x.move.Leave(now); err != nil {
		x.to.warn("replica has left a directory that has failed", h, err)
	}
	s.finished(x)
	s.m.moved(h, from, x.to)
	return true, nil
}

func (d *directory) warn(what string, h *hosted, err error) {
	d.logger.Warn("trouble with a replica that moves", "what", what, "topic", h.Topic(), "partition", h.ID().Partition, "to", d.Path(), "err", err)
}

// pace keeps all moves together below a number of bytes a second. It allows a step whatever
// the limit, and then waits until that has been worth it.
type pace struct {
	limit func() int64 // bytes a second; at most 0: none

	mu   sync.Mutex
	debt float64 // bytes ahead of the limit at time at
	at   time.Time
}

// maxPaceWait is after how long a changed limit is noticed.
const maxPaceWait = time.Second

// step is how much may be copied at once.
func (p *pace) step() int {
	if limit := p.limit(); limit > 0 {
		return int(min(limit, moveStep))
	}
	return moveStep
}

func (p *pace) spend(bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.debt += float64(bytes)
}

// await waits until nothing is owed.
func (p *pace) await(ctx context.Context) {
	for ctx.Err() == nil {
		wait := p.due(time.Now())
		if wait <= 0 {
			return
		}
		sleep(ctx, min(wait, maxPaceWait))
	}
}

func (p *pace) due(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	limit := float64(p.limit())
	if limit <= 0 {
		p.debt = 0
		return 0
	}
	if !p.at.IsZero() {
		p.debt = max(0, p.debt-now.Sub(p.at).Seconds()*limit)
	}
	p.at = now
	return time.Duration(p.debt / limit * float64(time.Second))
}
