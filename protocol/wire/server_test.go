package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klamm-mq/klamm/protocol"
	"github.com/klamm-mq/klamm/protocol/wire/memnet"
)

// regionHandler answers with a region.
func regionHandler(region Region) Handler {
	return HandlerFunc(func(_ context.Context, r *Request) Outcome {
		resp := respond(r, "head")
		resp.AddRegion(region)
		return Outcome{Response: resp}
	})
}

// A client that does not read is closed after Limits.WriteStall and its region released;
// the others do not notice.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		region := &memRegion{data: make([]byte, 10<<20)}
		large := regionHandler(region)
		r := newRig(t, Options{
			Limits: Limits{WriteStall: 20 * time.Second},
			Handler: HandlerFunc(func(ctx context.Context, r *Request) Outcome {
				if string(r.Body) == "large" {
					return large.Handle(ctx, r)
				}
				return echo(ctx, r)
			}),
		})
		slow, err := r.net.Dial(t.Context(), "broker-1:9092")
		if err != nil {
			t.Fatal(err)
		}
		defer slow.Close()
		if _, err := slow.Write(metadata(1, "large")); err != nil {
			t.Fatal(err)
		}
		witness := r.dial()
		time.Sleep(19 * time.Second)
		witness.send(metadata(2, "x"))
		witness.expect("2:x")
		if region.released.Load() != 0 {
			t.Fatal("the region was released too early")
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if region.released.Load() != 1 {
			t.Error("the region is still held")
		}
		if got, _ := io.Copy(io.Discard, slow); got > 1<<20 {
			t.Errorf("the slow reader got %d bytes", got)
		}
		witness.send(metadata(3, "y"))
		witness.expect("3:y")
		if lines := strings.Join(r.log.take(), "\n"); !strings.Contains(lines, "kind=slow_reader") {
			t.Errorf("log: %s", lines)
		}
	})
}

// Slow is allowed as long as there is progress.
func TestSteadySlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		region := &memRegion{data: make([]byte, 1<<20)}
		r := newRig(t, Options{Handler: regionHandler(region), Limits: Limits{WriteStall: 20 * time.Second}})
		slow, err := r.net.Dial(t.Context(), "broker-1:9092")
		if err != nil {
			t.Fatal(err)
		}
		defer slow.Close()
		if _, err := slow.Write(metadata(1, "")); err != nil {
			t.Fatal(err)
		}
		piece := make([]byte, 64<<10)
		for got := 0; got < 8+4+1<<20; {
			time.Sleep(15 * time.Second)
			n, err := slow.Read(piece)
			if err != nil {
				t.Fatalf("after %d bytes: %v", got, err)
			}
			got += n
		}
	})
}

// A region that ends early closes the connection: the size is sent already.
func TestShortRegion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		region := &memRegion{data: []byte("too short"), promised: 100}
		r := newRig(t, Options{Handler: regionHandler(region)})
		c := r.dial()
		c.send(metadata(1, ""))
		c.expect("EOF")
		if region.released.Load() != 1 {
			t.Error("the region is still held")
		}
		if lines := strings.Join(r.log.take(), "\n"); !strings.Contains(lines, "kind=data_ended_early") {
			t.Errorf("log: %s", lines)
		}
	})
}

// An inter-broker connection is admitted at max.connections, and the client that is idle
// for longest makes room.
func TestInterBrokerEvicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Handler: echo, Limits: Limits{MaxConnections: 2}})
		r.listen("broker-1:9093", ListenerInfo{Name: "REPLICATION", InterBroker: true})
		one := r.dial()
		time.Sleep(time.Second)
		two := r.dial()
		time.Sleep(time.Second)
		one.send(metadata(1, "x")) // so two is idle for longer now
		one.expect("1:x")
		broker := r.dialFrom("broker-2", "broker-1:9093")
		broker.send(metadata(2, "y"))
		broker.expect("2:y")
		one.expect()
		if _, end := two.take(); end == nil {
			t.Error("the idlest connection is still open")
		}
	})
}

// oneAtATime lets connections arrive a second apart, and refuses addresses for three.
type oneAtATime struct {
	refused map[string]bool
	exempt  []string // listeners
}

func (o *oneAtATime) Arrive(_ time.Time, listener string, exempt bool) time.Duration {
	if exempt {
		o.exempt = append(o.exempt, listener)
		return 0
	}
	return time.Second
}

func (o *oneAtATime) Admit(_ time.Time, _, ip string, _ bool) time.Duration {
	if o.refused[ip] {
		return 3 * time.Second
	}
	return 0
}

// Connections come as fast as they are let; the inter-broker listener is exempt.
func TestCreationRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rates := &oneAtATime{}
		r := newRig(t, Options{Handler: echo, Rates: rates})
		r.listen("broker-1:9093", ListenerInfo{Name: "REPLICATION", InterBroker: true})
		start := time.Now()
		one, two := r.dial(), r.dial()
		two.send(metadata(1, "x"))
		two.expect()
		time.Sleep(2*time.Second - time.Millisecond)
		two.expect()
		time.Sleep(time.Millisecond)
		two.expect("1:x")
		one.send(metadata(2, "x"))
		one.expect("2:x")
		broker := r.dialFrom("broker-2", "broker-1:9093")
		broker.send(metadata(9, "y"))
		broker.expect("9:y")
		if took := time.Since(start); took != 2*time.Second || len(rates.exempt) != 1 {
			t.Errorf("took %v, exempt %v", took, rates.exempt)
		}
	})
}

// A connection of an address that opens them too fast is not served, and closed after the
// pause; meanwhile it holds nobody up, and has no place among those that count.
func TestRefusedForItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Handler: echo, Limits: Limits{MaxConnections: 1}, Rates: &oneAtATime{refused: map[string]bool{"fast": true}}})
		fast, good := r.dialFrom("fast", "broker-1:9092"), r.dialFrom("good", "broker-1:9092")
		time.Sleep(2 * time.Second)
		good.send(metadata(2, "y"))
		good.expect("2:y")
		fast.expect()
		time.Sleep(2*time.Second + maxSweep)
		fast.expect("EOF")
		if lines := strings.Join(r.log.take(), "\n"); !strings.Contains(lines, "kind=too_fast_from_address") {
			t.Errorf("log: %s", lines)
		}
		_ = good.conn.Close()
		last := r.dialFrom("fast", "broker-1:9092")
		time.Sleep(2 * time.Second)
		last.expect()
		r.stop() // does not wait for it
		last.expect("EOF")
	})
}

func TestListenerLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Handler: echo, Limits: Limits{PerListener: map[string]int{"SMALL": 1}}})
		r.listen("broker-1:9093", ListenerInfo{Name: "SMALL", MaxRequestBytes: 100})
		one, two := r.dialFrom("a", "broker-1:9093"), r.dialFrom("b", "broker-1:9093")
		two.send(metadata(1, "x"))
		two.expect() // waits for its place
		one.send(metadata(2, string(make([]byte, 200))))
		one.expect("EOF")
		_ = one.conn.Close()
		two.expect("1:x")
	})
}

// Limits that change count for the next connections, and for those that wait.
func TestConnectionLimitsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := Limits{MaxConnections: 1}
		r := newRig(t, Options{Handler: echo, Limits: limits})
		one := r.dialFrom("a", "broker-1:9092")
		one.send(metadata(1, "x"))
		one.expect("1:x")
		two := r.dialFrom("b", "broker-1:9092")
		two.send(metadata(2, "y"))
		two.expect() // waits for its place
		limits.MaxConnections, limits.MaxConnectionsPerIP = 3, 1
		r.server.SetConnectionLimits(limits)
		two.expect("2:y")
		r.dialFrom("b", "broker-1:9092").expect("EOF")
		limits.MaxConnectionsPerIP, limits.PerListener = 0, map[string]int{"PLAINTEXT": 2}
		r.server.SetConnectionLimits(limits)
		three := r.dialFrom("b", "broker-1:9092")
		three.send(metadata(3, "z"))
		three.expect()
		limits.PerListener = nil
		r.server.SetConnectionLimits(limits)
		three.expect("3:z")
		one.send(metadata(4, "x"))
		one.expect("4:x") // those that are there stay
	})
}

// An authenticated connection may send larger frames than a new one.
func TestMaxRequestBytesGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Handler: HandlerFunc(func(ctx context.Context, r *Request) Outcome {
			if string(r.Body) == "authenticate" {
				r.Conn.SetMaxRequestBytes(1 << 20)
			}
			return Outcome{Response: respond(r, fmt.Sprint(len(r.Body)))}
		})})
		r.listen("broker-1:9093", ListenerInfo{Name: "SASL", MaxRequestBytes: 100})
		large := metadata(2, string(make([]byte, 1000)))
		c := r.dialFrom("a", "broker-1:9093")
		c.send(metadata(1, "authenticate"), large)
		c.expect("1:12", "2:1000")
		stranger := r.dialFrom("b", "broker-1:9093")
		stranger.send(large)
		stranger.expect("EOF")
	})
}

// preface is what a protocol other than Kafka's begins with.
const preface = "\x80raft"

func TestPreface(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taken := make(chan net.Conn, 1)
		r := newRig(t, Options{
			Handler:   echo,
			Limits:    Limits{MaxConnectionsPerIP: 1},
			OnPreface: func(conn net.Conn, first byte) { taken <- conn },
		})
		client, err := r.net.Host("broker-2").Dial("tcp", "broker-1:9092")
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if _, err := client.Write([]byte(preface + "hello")); err != nil {
			t.Fatal(err)
		}
		conn := <-taken
		got := make([]byte, len(preface)+5)
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != preface+"hello" {
			t.Fatalf("%q, %v", got, err)
		}
		time.Sleep(time.Hour) // no limit of ours applies any more
		if _, err := client.Write([]byte("more")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, got[:4]); err != nil || string(got[:4]) != "more" {
			t.Fatalf("%q, %v", got[:4], err)
		}
		// It still counts for its address, until it is closed.
		second := r.dialFrom("broker-2", "broker-1:9092")
		second.expect("EOF")
		_ = conn.Close()
		_ = conn.Close()
		third := r.dialFrom("broker-2", "broker-1:9092")
		third.send(metadata(1, "x"))
		third.expect("1:x")
	})
}

// After a request the same byte is a bad frame; ApiVersions alone does not end the
// greeting, since a peer authenticates first.
func TestPrefaceOnlyBeforeRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taken := make(chan net.Conn, 1)
		r := newRig(t, Options{Handler: echo, OnPreface: func(conn net.Conn, _ byte) { taken <- conn }})
		late := r.dial()
		late.send(metadata(1, "x"), []byte(preface))
		late.expect("1:x", "EOF")
		greeting := r.dial()
		greeting.send(request(18, 0, 1, ""))
		greeting.expect("1:")
		greeting.send([]byte(preface))
		synctest.Wait()
		select {
		case conn := <-taken:
			_ = conn.Close()
		default:
			t.Error("not taken over")
		}
	})
}

// Park frees the place of a request that waits; reserved requests need none.
func TestParkAndReserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := newRig(t, Options{
			Limits:   Limits{QueuedRequests: 1},
			Reserved: func(key int16) bool { return key == protocol.ApiVersionsKey },
			Handler: HandlerFunc(func(ctx context.Context, r *Request) Outcome {
				switch string(r.Body) {
				case "park":
					r.Park()
					r.Park()
					<-release
				case "wait":
					<-release
				}
				return echo(ctx, r)
			}),
		})
		parked, waits, behind, reserved := r.dial(), r.dial(), r.dial(), r.dial()
		parked.send(metadata(1, "park"))
		synctest.Wait()
		waits.send(metadata(2, "wait")) // takes the one place
		synctest.Wait()
		behind.send(metadata(3, "x"))
		behind.expect()
		reserved.send(request(18, 0, 4, "y"))
		reserved.expect("4:y")
		if got := r.server.slots.waits.Load(); got != 1 {
			t.Errorf("%d requests waited", got)
		}
		close(release)
		parked.expect("1:park")
		waits.expect("2:wait")
		behind.expect("3:x")
		if got := r.server.slots.used.Load(); got != 0 {
			t.Errorf("%d places in use", got)
		}
	})
}

// An answer is not kept back for a request that was read together with its own, and waits: a
// commit of offsets came minutes late if a JoinGroup was behind it.
func TestAnswerBeforeARequestThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := newRig(t, Options{Handler: HandlerFunc(func(ctx context.Context, r *Request) Outcome {
			if string(r.Body) == "join" {
				r.Park()
				<-release
			}
			return echo(ctx, r)
		})})
		c := r.dial()
		c.send(metadata(1, "commit"), metadata(2, "join"))
		c.expect("1:commit")
		close(release)
		c.expect("2:join")
	})
}

// A connection that ends while its request waits for a place leaves none taken.
func TestEndWhileWaitingForAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := newRig(t, Options{Limits: Limits{QueuedRequests: 1}, Handler: HandlerFunc(func(ctx context.Context, r *Request) Outcome {
			<-release
			return echo(ctx, r)
		})})
		first, second := r.dial(), r.dial()
		first.send(metadata(1, "x"))
		synctest.Wait()
		second.send(metadata(2, "y"))
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() { stopped <- r.server.Shutdown(ctx) }()
		synctest.Wait()
		cancel()
		close(release)
		if err := <-stopped; !errors.Is(err, context.Canceled) {
			t.Errorf("shutdown: %v", err)
		}
		if used, inFlight := r.server.slots.used.Load(), r.server.metrics.inFlight.Load(); used != 0 || inFlight != 0 {
			t.Errorf("%d places in use, %d requests in flight", used, inFlight)
		}
	})
}

func TestServeAfterShutdown(t *testing.T) {
	s := NewServer(Options{Handler: echo})
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	ln, err := memnet.New().Listen("b:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(ln, ListenerInfo{}); !errors.Is(err, ErrServerClosed) {
		t.Errorf("serve: %v", err)
	}
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is open: %v", err)
	}
}

// flakyListener fails some accepts, as a process without free descriptors does.
type flakyListener struct {
	net.Listener
	mu       sync.Mutex
	failures int
}

func (f *flakyListener) Accept() (net.Conn, error) {
	f.mu.Lock()
	fail := f.failures > 0
	f.failures--
	f.mu.Unlock()
	if fail {
		return nil, errors.New("too many open files")
	}
	return f.Listener.Accept()
}

func TestAcceptGoesOnAfterErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Handler: echo})
		ln, err := r.net.Listen("broker-1:9093")
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		r.serve(&flakyListener{Listener: ln, failures: 10}, ListenerInfo{Name: "FLAKY"})
		c := r.dialFrom("a", "broker-1:9093")
		c.send(metadata(1, "x"))
		for answers, _ := c.take(); len(answers) == 0; answers, _ = c.take() {
			time.Sleep(10 * time.Millisecond)
		}
		// 5, 10, 20, 40, 80, 160, 320, 640 ms, then a second each.
		if took := time.Since(start); took < 3*time.Second || took > 4*time.Second {
			t.Errorf("accepting recovered after %v", took)
		}
	})
}

func TestRequestKnowsItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		r := newRig(t, Options{Handler: HandlerFunc(func(ctx context.Context, r *Request) Outcome {
			name, version := r.Conn.ClientSoftware()
			seen = append(seen, fmt.Sprintf("%s by %s %s", r, name, version))
			r.Conn.SetClientSoftware("franz-go", "1.22")
			return echo(ctx, r)
		})})
		c := r.dial()
		c.send(metadata(1, "x"), metadata(2, "y"))
		c.expect("1:x", "2:y")
		want := []string{
			`Metadata v1 correlation 1 client "test" from PLAINTEXT/client:49152 by unknown unknown`,
			`Metadata v1 correlation 2 client "test" from PLAINTEXT/client:49152 by franz-go 1.22`,
		}
		if strings.Join(seen, "\n") != strings.Join(want, "\n") {
			t.Errorf("seen %q", seen)
		}
	})
}

// Who speaks another protocol finds out from the log, whatever else is refused meanwhile.
func TestOtherProtocolsAreNamedInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Handler: echo})
		for _, begin := range []string{"\xff\xff\xff\xff", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "GET / HTTP/1.1\r\n\r\n", "SSH-2.0-OpenSSH\r\n"} {
			c := r.dial()
			c.send([]byte(begin))
			c.expect("EOF")
		}
		got := strings.Join(r.log.take(), "\n")
		for _, want := range []string{
			"kind=frame_size", "frame of -1 bytes",
			"kind=tls_client", "speaks TLS, and this listener does not",
			"kind=not_kafka", `begins with "GET "`,
		} {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in\n%s", want, got)
			}
		}
		if lines := strings.Count(got, "\n") + 1; lines != 3 {
			t.Errorf("%d lines, want one of each kind", lines)
		}
	})
}

// Completing an outcome twice, or an impossible outcome, stops the process.
func TestInvariants(t *testing.T) {
	panics := func(name string, fn func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s: no panic", name)
			}
		}()
		fn()
	}
	p := NewPending()
	p.Complete(Outcome{NoResponse: true})
	panics("completed twice", func() { p.Complete(Outcome{NoResponse: true}) })
	panics("pending again", func() { NewPending().Complete(Outcome{Pending: p}) })
	r := NewRequest(NewBuffers(0), 3, 1, nil)
	panics("empty outcome", func() { Outcome{}.check(r) })
	panics("two outcomes", func() { Outcome{NoResponse: true, Close: io.EOF}.check(r) })
	r.FreeBody()
	panics("retained after its release", r.Retain)
}
