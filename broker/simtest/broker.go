package simtest

import (
	"bytes"
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/klamm-mq/klamm/broker"
	"github.com/klamm-mq/klamm/broker/brokertest"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/wire"
)

// Broker is a machine on which one broker process lives after the other.
type Broker struct {
	c       *Cluster
	machine *brokertest.Machine
	disk    *vfs.CrashFS
	busy    atomic.Bool // with a misfortune, see several.go

	mu        sync.Mutex // guards what is below; a leaf
	life      *life      // the process that lives, or the last one
	dieAtSync int        // the life ends at the so-manieth sync point from now; 0: it does not
	failSync  bool       // the next sync of a group of files fails
	epochs    map[string]int32
	clusterID string
}

// life is one process.
type life struct {
	started chan struct{} // closed when Start has returned; then b is valid, nil if it failed
	b       *broker.Broker
	ctx     context.Context // ends when the process is gone
	cancel  context.CancelFunc
	stopped chan struct{} // closed when all its goroutines have ended

	diskFailed atomic.Bool // a sync has failed

	mu   sync.Mutex // held while the process opens a listener
	gone bool
}

// dead tells whether the process is gone.
func (l *life) dead() bool { return l.ctx.Err() != nil }

// end makes the process gone, and tells whether it was not before.
func (l *life) end() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.cancel()
	first := !l.gone
	l.gone = true
	return first
}

func newBroker(c *Cluster, m *brokertest.Machine, number uint64) *Broker {
	b := &Broker{c: c, machine: m, disk: vfs.NewCrash(rand.NewPCG(c.seed, number)), epochs: map[string]int32{}}
	b.disk.OnSync(b.onSync)
	return b
}

// Start starts a process and goes on when it accepts requests, or when a fault has ended
// it on the way. One that does not start although nothing hinders it is a violation.
func (b *Broker) Start() {
	l := b.newLife()
	defer close(l.started)
	b.c.tracef("%s: start", b.machine.Name)
	cfg := brokertest.Config(b.c.t, b.machine.Settings...)
	started, err := broker.Start(l.ctx, cfg, b.env(l))
	switch {
	case err == nil:
		l.b = started
		b.checkStarted(l)
	case l.dead():
		b.c.tracef("%s: died on the way: %v", b.machine.Name, err)
		close(l.stopped)
	default:
		l.end()
		close(l.stopped)
		b.c.violated("CleanRecovery", "%s does not start: %v", b.machine.Name, err)
	}
}

func (b *Broker) newLife() *life {
	l := &life{started: make(chan struct{}), stopped: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	b.mu.Lock()
	defer b.mu.Unlock()
	b.life = l
	return l
}

// env is the world of one process, which is gone for it when it dies.
func (b *Broker) env(l *life) broker.Env {
	env := b.machine.Env()
	env.FS = b.c.opts.Break.disk(b.disk.Process())
	dial := env.Dial
	env.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if l.dead() {
			return nil, syscall.ENETDOWN
		}
		return dial(ctx, network, address)
	}
	env.Logger = slog.New(slog.NewTextHandler(&diary{b.c, l}, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: dropTime})).With("on", b.machine.Name)
	listen := env.Listen
	env.Listen = func(ctx context.Context, address string, o wire.ListenOptions) (net.Listener, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.gone {
			return nil, syscall.ENETDOWN
		}
		return listen(ctx, address, o)
	}
	return env
}

// diary is where a process logs, while it lives. An error there has a cause that no fault
// but a failing disk explains: a crash was taken for damage, or worse.
type diary struct {
	c *Cluster
	l *life
}

// Write is io.Writer.
func (d *diary) Write(p []byte) (int, error) {
	if d.l.dead() {
		return len(p), nil
	}
	d.c.tracef("log: %s", bytes.TrimSpace(p))
	if bytes.HasPrefix(p, []byte("level=ERROR")) && !d.l.diskFailed.Load() {
		d.c.violated("CleanRecovery", "%s", bytes.TrimSpace(p))
	}
	return len(p), nil
}

func dropTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// checkStarted looks at what metadata says after a start: the cluster is the same, and
// every partition is led in a higher epoch than by the process before.
func (b *Broker) checkStarted(l *life) {
	image := l.b.Image()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.clusterID == "" {
		b.clusterID = image.ClusterID()
	}
	if b.clusterID != image.ClusterID() {
		b.c.violated("MetadataKept", "cluster %s has become %s", b.clusterID, image.ClusterID())
	}
	b.c.tracef("%s: started, broker epoch %d", b.machine.Name, l.b.BrokerEpoch())
	if b.c.several() {
		return // others may have led on
	}
	for t := range image.Topics() {
		key := t.ID.String()
		epoch := t.Partitions[0].LeaderEpoch
		if before, ok := b.epochs[key]; ok && epoch <= before {
			b.c.violated("OneLeaderPerEpoch", "topic %s: epoch %d again, after %d", t.Name, epoch, before)
		}
		b.epochs[key] = epoch
	}
}

// current is the process that lives, or the last one.
func (b *Broker) current() *life {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.life
}

// Stop ends the process in an orderly way.
func (b *Broker) Stop() {
	l := b.current()
	<-l.started
	if l.dead() {
		return
	}
	b.c.tracef("%s: stop", b.machine.Name)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err := l.b.Stop(ctx)
	if !l.end() {
		return // it was killed meanwhile
	}
	close(l.stopped)
	if err != nil {
		b.c.violated("CleanStop", "%v", err)
	}
}

// Kill ends the process as SIGKILL does: what it has written stays.
func (b *Broker) Kill() {
	b.crash("kill", b.disk.Kill)
}

// PowerCut ends the process with the machine: a random part of what is unsynced is lost.
func (b *Broker) PowerCut() {
	if b.c.opts.KillsOnly {
		b.Kill()
		return
	}
	cut := b.disk.PowerCut
	if b.c.draw(3) == 0 {
		cut = b.disk.PowerCutLosingAll
	}
	b.crash("power cut", cut)
}

// crash ends the process, if one lives, and does to the disk what befits. It may be
// called in the midst of a call of the process.
func (b *Broker) crash(how string, disk func()) {
	l := b.current()
	if !l.end() {
		b.c.tracef("%s: %s while down", b.machine.Name, how)
		disk()
		return
	}
	b.c.tracef("%s: %s", b.machine.Name, how)
	b.machine.Net.Crash(b.machine.Name)
	disk()
	b.c.tasks.Go(l.reap)
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	b.c.faults++
}

// reap ends the goroutines of a dead process, which can no longer do anything.
func (l *life) reap() {
	<-l.started
	if l.b == nil {
		return // Start has undone what it did
	}
	defer close(l.stopped)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = l.b.Stop(ctx)
}

// bury ends whatever process there is, at the end of the run.
func (b *Broker) bury() {
	l := b.current()
	if l.end() {
		b.machine.Net.Crash(b.machine.Name)
		b.disk.Kill()
		b.c.tasks.Go(l.reap)
	}
	<-l.stopped
}

// onSync lets a sync take its time, fail, or be the last thing that the process does.
func (b *Broker) onSync(p vfs.SyncPoint) error {
	if !p.Done {
		time.Sleep(b.c.pause(b.c.opts.SyncTime))
	}
	if b.failsNow(p) {
		b.c.tracef("%s of %s fails", p.Op, p.Name)
		return syscall.EIO
	}
	if b.diesNow() {
		b.c.tracef("at %s of %s, done %v:", p.Op, p.Name, p.Done)
		b.crashSomehow()
	}
	return nil
}

func (b *Broker) failsNow(p vfs.SyncPoint) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.failSync && p.Op == "syncall" && !p.Done
	if now {
		b.failSync = false
		b.life.diskFailed.Store(true)
	}
	return now
}

func (b *Broker) diesNow() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dieAtSync == 0 {
		return false
	}
	b.dieAtSync--
	return b.dieAtSync == 0
}
