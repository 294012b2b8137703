package replica

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

const (
	// moveStep is how much is copied and flushed at a time, at most, with or without a limit,
	// since the disk has others to serve. A throttled follower asks for less (throttledAnswer), but
	// without a limit each sync costs speed.
	moveStep = 256 << 10
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
	// finishBound is how long a replica waits for the disks when its move is finished, and who
	// ends a move for whoever works on it. Then a disk hangs.
	finishBound = 10 * time.Second
	// hungPause follows an attempt to finish that came to no end.
	hungPause = time.Minute
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
	orphans map[*moving]struct{}
	hung    map[*directory]int // copies that nobody waits for any more to be begun
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
	// orphan says that nobody waits any more for who works on it, and is to throw the copy
	// away; guarded by moves.mu.
	orphan bool
	// placed is closed when the replica is in the new place.
	placed chan struct{}
}

func (s *moves) init(m *Manager) {
	s.m, s.byID, s.orphans = m, make(map[TopicIDPartition]*moving), make(map[*moving]struct{})
	s.hung = make(map[*directory]int)
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

var (
	errOrphan = kafkaerr.New(kafkaerr.KafkaStorageError, "the log directory hangs with an earlier copy of the replica")
	errHung   = kafkaerr.New(kafkaerr.KafkaStorageError, "the log directory hangs")
)

// begin has a replica moved; its copy may have been begun by an earlier run.
func (s *moves) begin(now time.Time, h *hosted, to *directory) error {
	if s.hasOrphan(h.ID(), to) {
		return errOrphan
	}
	move, err := s.beginCopy(now, h.at().log, to)
	if err != nil {
		return err
	}
	x := &moving{h: h, to: to, move: move, turn: make(chan struct{}, 1), placed: make(chan struct{})}
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

// beginCopy is BeginMove for those for whom metadata waits: where the disk hangs, they are
// told so after finishBound, and the next ones at once. Whatever comes of the copy then is
// thrown away.
func (s *moves) beginCopy(now time.Time, from *logstore.Log, to *directory) (*logstore.Move, error) {
	if s.isHung(to) {
		return nil, errHung
	}
	type begun struct {
		move *logstore.Move
		err  error
	}
	done, forsaken := make(chan begun), make(chan struct{})
	go func() {
		move, err := to.BeginMove(now, from)
		select {
		case done <- begun{move, err}:
		case <-forsaken:
			s.throwAway(to, from, move, err)
		}
	}()
	timer := time.NewTimer(finishBound)
	defer timer.Stop()
	select {
	case b := <-done:
		return b.move, b.err
	case <-timer.C:
		s.noteHung(to, +1)
		close(forsaken)
		return nil, errHung
	}
}

func (s *moves) isHung(d *directory) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hung[d] > 0
}

func (s *moves) noteHung(d *directory, more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hung[d] += more
}

// throwAway ends a copy that nobody waits for.
func (s *moves) throwAway(to *directory, from *logstore.Log, move *logstore.Move, err error) {
	if err == nil {
		err = move.Cancel(time.Now())
	}
	s.noteHung(to, -1)
	s.m.opts.Logger.Warn("log directory answers again: a copy is thrown away that nobody waits for any more",
		"dir", to.Path(), "log", from.ID(), "err", err)
}

// end stops the move of a replica, if there is one, and throws the copy away. When it
// returns the replica is in one place, the new one if the move was faster. Where a disk hangs
// the copy is thrown away later.
func (s *moves) end(now time.Time, h *hosted) {
	x := s.of(h.ID())
	if x == nil {
		return
	}
	timer := time.NewTimer(finishBound)
	defer timer.Stop()
	select {
	case x.turn <- struct{}{}:
		defer func() { <-x.turn }()
		if s.finished(x) {
			x.cancel(now)
		}
	case <-timer.C:
		s.abandon(x)
	}
}

// abandon leaves a move to whoever works on it, and waits for a disk.
func (s *moves) abandon(x *moving) {
	s.mu.Lock()
	givenUp := x.move.GiveUp()
	if givenUp && !x.over {
		x.orphan = true
		s.orphans[x] = struct{}{}
	}
	s.mu.Unlock()
	if !givenUp {
		<-x.placed // no disk is in the way, but it stays on the list until it has left the old place
		return
	}
	s.finished(x)
}

func (s *moves) hasOrphan(id TopicIDPartition, to *directory) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for x := range s.orphans {
		if x.h.ID() == id && x.to == to {
			return true
		}
	}
	return false
}

// bury throws the copy of a move away that was abandoned.
func (s *moves) bury(x *moving) (orphan bool) {
	s.mu.Lock()
	orphan = x.orphan
	s.mu.Unlock()
	if !orphan {
		return false
	}
	x.cancel(time.Now())
	s.mu.Lock()
	delete(s.orphans, x)
	s.mu.Unlock()
	return true
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

// giveUp lets no copy become a log any more, whoever still works on it and waits for a disk.
func (s *moves) giveUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.byID {
		x.move.GiveUp()
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
		orphan := s.bury(x)
		<-x.turn
		if again && !orphan {
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
	case errors.Is(err, logstore.ErrGivenUp):
		x.to.warn("a disk hangs: replica does not move for now", x.h, err)
		return true, hungPause
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
		if err := s.beginAgain(x); err != nil {
			return false, err
		}
	}
	step := s.pace.step()
	copied, err := x.move.Copy(time.Now(), step)
	if err != nil {
		return false, err
	}
	s.pace.spend(copied)
	s.m.metrics.movedBytes.Add(float64(copied))
	x.unsettled += copied
	tail := x.move.TailBytes()
	switch {
	case (copied >= step || tail > x.maxTail()) && x.unsettled < moveSettleBytes:
		return false, x.move.Flush(tail > farBehind)
	case tail+x.unsettled > x.maxTail():
		if tail <= x.maxTail() {
			x.settled++
		}
		x.unsettled = 0
		return false, x.move.Settle(time.Now())
	}
	return s.finish(x)
}

func (s *moves) beginAgain(x *moving) error {
	move, err := x.to.BeginMove(time.Now(), x.h.at().log)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.orphan {
		move.GiveUp()
	}
	x.move, x.unsettled = move, 0
	return nil
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
//
// Neither disk may hold the replica up for long. If the new one hangs, the original goes on, and
// what comes of the copy is thrown away whenever that is. If the old one does, in whose
// directory the log must be gone before the first append, writes wait for it as they would
// have there; but the replica may change its role.
func (s *moves) finish(x *moving) (done bool, err error) {
	h, now := x.h, time.Now()
	freeRole, unpark := h.ParkWrites()
	release := sync.OnceFunc(func() {
		unpark()
		s.m.carryOut(h, h.FlushDone(time.Now()))
	})
	defer release()
	if x.move.TailBytes()+x.unsettled > x.maxTail() {
		return false, nil // much was appended just before
	}
	hung := time.AfterFunc(finishBound, func() {
		if x.move.GiveUp() {
			release()
		}
	})
	log, err := x.move.Finish(now, h.HighWatermark())
	hung.Stop()
	if err != nil {
		return false, err
	}
	defer time.AfterFunc(finishBound, freeRole).Stop()
	return s.takeOver(now, x, log)
}

// takeOver makes what Finish has put in place the replica's log.
func (s *moves) takeOver(now time.Time, x *moving, log *logstore.Log) (done bool, err error) {
	h := x.h
	if err := x.to.Err(); err != nil {
		close(x.placed)
		return false, err // the disk has failed since: the original goes on
	}
	if err := h.SwapLog(log); err != nil {
		s.m.fail(h, err)
	}
	from := h.at().dir
	h.where.Store(&place{x.to, log})
	close(x.placed)
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

// pace keeps all moves together below a number of bytes a second, evenly. It allows a step
// whatever the limit, and then waits until that has been worth it. What was missed, since a disk or
// a timer took long, is made up for as far as a quarter of a second.
type pace struct {
	limit func() int64 // bytes a second; at most 0: none

	mu   sync.Mutex
	debt float64 // bytes ahead of the limit at time at; below 0: behind
	at   time.Time
}

// moveCredit is how far moves may catch up with what they have missed.
const moveCredit = 250 * time.Millisecond

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
		p.debt = max(-moveCredit.Seconds()*limit, p.debt-now.Sub(p.at).Seconds()*limit)
	}
	p.at = now
	return time.Duration(p.debt / limit * float64(time.Second))
}
