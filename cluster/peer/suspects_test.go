package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/wire/memnet"
)

// crowd is what one broker knows of the others, and the network that they are on; broker n
// is at "n:9092".
type crowd struct {
	t     *testing.T
	net   *memnet.Network
	image atomic.Pointer[metadata.Image]
	reg   *prometheus.Registry
	*Suspects
}

// suspecting makes a crowd of brokers 2 and 3, which are in service and do not answer.
func suspecting(t *testing.T, test func(c *crowd)) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{t: t, net: memnet.New(), reg: prometheus.NewRegistry()}
		c.image.Store(metadata.Empty())
		c.Suspects = NewSuspects(SuspectsOptions{
			Dial: func(ctx context.Context, addr string) (net.Conn, error) {
				return c.net.Host("1").DialContext(ctx, "tcp", addr)
			},
			Address: func(broker int32) (string, bool) { return fmt.Sprintf("%d:9092", broker), true },
			Image:   c.image.Load, Registerer: c.reg,
		})
		defer c.Close()
		c.publish(registered(2, 20), registered(3, 30))
		test(c)
	})
}

func registered(id int32, epoch int64) metadata.Record {
	return metadata.RegisterBrokerRecord{Broker: metadata.Broker{ID: id, Epoch: epoch}}
}

func (c *crowd) publish(records ...metadata.Record) {
	c.t.Helper()
	d := metadata.NewDelta(c.image.Load())
	if err := d.ReplayAll(records...); err != nil {
		c.t.Fatal(err)
	}
	next := d.Image(metadata.Position{Index: c.image.Load().Position().Index + 1, Term: 1})
	c.image.Store(next)
	c.Published(next)
}

// accept has a broker's address accept connections, and no more.
func (c *crowd) accept(id int32) net.Listener {
	ln, err := c.net.Host(fmt.Sprint(id)).Listen("tcp", fmt.Sprintf("%d:9092", id))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = ln.Close() })
	return ln
}

// listen has a broker answer.
func (c *crowd) listen(id int32) {
	ln := c.accept(id)
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go serveOne(conn, func(number uint32) []byte {
				return sized(append(binary.BigEndian.AppendUint32(make([]byte, 4), number), make([]byte, 2+4)...)) // no error, no keys
			})
		}
	}()
}

// awaits wants a wait from now on to take so long.
func (c *crowd) awaits(want time.Duration) {
	c.t.Helper()
	synctest.Wait()
	begin := time.Now()
	c.Await(context.Background())
	if took := time.Since(begin); took != want {
		c.t.Errorf("waited %v, want %v", took, want)
	}
}

func after(d time.Duration, do func()) {
	go func() {
		<-time.After(d)
		do()
	}()
}

// What ends the waiting for a broker, and when.
func TestSuspectIsWaitedFor(t *testing.T) {
	for name, test := range map[string]struct {
		want  time.Duration
		begin func(c *crowd)
	}{
		"nobody is suspected":          {0, func(*crowd) {}},
		"metadata never says anything": {Patience, func(c *crowd) { c.Lost(2) }},
		"it is fenced": {300 * time.Millisecond, func(c *crowd) {
			c.Lost(2)
			after(300*time.Millisecond, func() {
				c.publish(metadata.BrokerChangeRecord{ID: 2, Epoch: 20, Fenced: metadata.Ptr(true)})
			})
		}},
		"it is registered anew": {300 * time.Millisecond, func(c *crowd) {
			c.Lost(2)
			after(300*time.Millisecond, func() { c.publish(registered(2, 40)) })
		}},
		"another one is fenced": {Patience, func(c *crowd) {
			c.Lost(2)
			c.publish(metadata.BrokerChangeRecord{ID: 3, Epoch: 30, Fenced: metadata.Ptr(true)})
		}},
		"its connections are lost one after the other": {Patience, func(c *crowd) {
			for i := range 5 {
				after(time.Duration(i)*100*time.Millisecond, func() { c.Lost(2) })
			}
		}},
		"it lives, and only a connection was closed": {twicePause, func(c *crowd) {
			c.listen(2)
			c.Lost(2)
		}},
		"its address accepts while it dies": {Patience, func(c *crowd) {
			c.accept(2)
			c.Lost(2)
		}},
		"it is cut off": {Patience, func(c *crowd) {
			c.listen(2)
			c.net.CutBoth("1", "2")
			c.Lost(2)
		}},
		"it is cut off for a moment": {200*time.Millisecond + twicePause, func(c *crowd) {
			c.listen(2)
			c.net.CutBoth("1", "2")
			c.Lost(2)
			after(200*time.Millisecond, func() { c.net.HealAll() })
		}},
		"another one is lost when this one has nearly been waited for": {Patience, func(c *crowd) {
			c.Lost(2)
			after(900*time.Millisecond, func() { c.Lost(3) })
		}},
		"it stops in good order": {0, func(c *crowd) {
			c.publish(metadata.BrokerChangeRecord{ID: 2, Epoch: 20, InControlledShutdown: metadata.Ptr(true)})
			c.Lost(2)
		}},
		"it is out of service": {0, func(c *crowd) {
			c.publish(metadata.BrokerChangeRecord{ID: 2, Epoch: 20, Fenced: metadata.Ptr(true)})
			c.Lost(2)
		}},
		"nobody knows it": {0, func(c *crowd) { c.Lost(7) }},
	} {
		t.Run(name, func(t *testing.T) {
			suspecting(t, func(c *crowd) {
				test.begin(c)
				c.awaits(test.want)
			})
		})
	}
}

// A broker that is neither reached nor declared dead is waited for once, not again with each
// attempt to fetch from it.
func TestSuspectIsWaitedForOnce(t *testing.T) {
	suspecting(t, func(c *crowd) {
		c.Lost(2)
		c.awaits(Patience)
		for range 5 {
			<-time.After(time.Second)
			c.Lost(2)
			c.awaits(0)
		}
		<-time.After(suspectRest)
		c.Lost(2)
		if !c.Suspect(2) || c.Suspect(3) {
			t.Error("the next incident is not noticed, or is somebody else's")
		}
		c.awaits(Patience)
		families, err := c.reg.Gather()
		if err != nil || len(families) != 2 {
			t.Fatalf("metrics %v, %v", families, err)
		}
		for _, f := range families {
			if got := f.GetMetric()[0].GetCounter().GetValue(); got != 2 {
				t.Errorf("%s is %v", f.GetName(), got)
			}
		}
	})
}

// Once it has answered, the next loss counts.
func TestSuspectThatLivesMayDieLater(t *testing.T) {
	suspecting(t, func(c *crowd) {
		c.listen(2)
		c.Lost(2)
		c.awaits(twicePause)
		c.net.Crash("2")
		c.Lost(2)
		c.awaits(Patience)
	})
}

// A new registration is another process, whose death is another one.
func TestSuspectAfterNewRegistration(t *testing.T) {
	suspecting(t, func(c *crowd) {
		c.Lost(2)
		c.awaits(Patience)
		c.publish(registered(2, 40))
		c.Lost(2)
		c.awaits(Patience)
	})
}

// Who waits is let go with its connection, and when the broker stops.
func TestWaitForSuspectsEnds(t *testing.T) {
	suspecting(t, func(c *crowd) {
		c.Lost(2)
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		begin := time.Now()
		c.Await(ctx)
		after(100*time.Millisecond, c.Close)
		c.Await(context.Background())
		if took := time.Since(begin); took != 200*time.Millisecond {
			t.Errorf("waited %v", took)
		}
		c.Lost(3)
		c.awaits(0)
	})
}

// Only the other end's doing makes a suspect.
func TestLostByTheOtherEnd(t *testing.T) {
	for _, err := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if !endedThere(fmt.Errorf("Fetch: read 2:9092: %w", err)) {
			t.Errorf("%v does not count", err)
		}
	}
	for _, err := range []error{ErrTimeout, ErrClosed, ErrMalformed, ErrNoAddress, context.Canceled, net.ErrClosed, errors.New("other")} {
		if endedThere(err) {
			t.Errorf("%v counts", err)
		}
	}
}
