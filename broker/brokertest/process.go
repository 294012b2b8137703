package brokertest

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/broker"
	"github.com/klamm-mq/klamm/logstore/vfs"
)

// burial bounds what is left of a killed process, which can do nothing any more.
const burial = time.Second

// Process is a broker on a machine that can be killed: disk and network go on without it.
type Process struct {
	Machine *Machine
	Disk    *vfs.CrashFS
	Wrap    func(vfs.FS) vfs.FS // what the broker sees of its disk; nil: all of it
	B       *broker.Broker      // nil while it is down

	dead   *atomic.Bool
	buried chan struct{} // closed when what is left of a killed one has ended; nil: nothing is
}

// Launch starts the broker on what its disk holds. It returns when it is ready.
func (p *Process) Launch(ctx context.Context, t testing.TB) error {
	p.AwaitEnd()
	dead := &atomic.Bool{}
	env := p.Machine.Env()
	env.FS = p.Disk.Process()
	if p.Wrap != nil {
		env.FS = p.Wrap(env.FS)
	}
	dial := env.Dial
	env.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if dead.Load() {
			return nil, syscall.ENETDOWN
		}
		return dial(ctx, network, address)
	}
	p.dead = dead
	b, err := broker.Start(ctx, Config(t, p.Machine.Settings...), env)
	if err != nil {
		return err
	}
	p.B = b
	return nil
}

// Kill ends the broker as SIGKILL does: nothing that it does any more reaches disk or network.
func (p *Process) Kill() {
	p.dead.Store(true)
	p.Machine.Net.Crash(p.Machine.Name)
	p.Disk.Kill()
	killed, buried := p.B, make(chan struct{})
	p.B, p.buried = nil, buried
	go func() {
		defer close(buried)
		ctx, cancel := context.WithTimeout(context.Background(), burial)
		defer cancel()
		_ = killed.Stop(ctx) // its disk and network are gone
	}()
}

// AwaitEnd waits until nothing is left of one that was killed.
func (p *Process) AwaitEnd() {
	if p.buried != nil {
		<-p.buried
	}
}
