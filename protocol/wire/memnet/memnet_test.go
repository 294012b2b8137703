package memnet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair connects host a to a listener on host b. The connections are closed at the end.
func pair(t *testing.T, n *Network) (a, b net.Conn) {
	t.Helper()
	ln, err := n.Listen("b:9092")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	a, err = n.Host("a").Dial("tcp", "b:9092")
	if err != nil {
		t.Fatal(err)
	}
	b, err = ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	return a, b
}

func write(t *testing.T, c net.Conn, s string) {
	t.Helper()
	if n, err := c.Write([]byte(s)); err != nil || n != len(s) {
		t.Fatalf("write %q: %d, %v", s, n, err)
	}
}

// read expects exactly these bytes to be there, or to come.
func read(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("read %q, %v, want %q", got, err, want)
	}
}

// blocked runs fn and fails if it ends before everything else in the bubble is waiting.
func blocked(t *testing.T, what string, fn func()) (done <-chan struct{}) {
	t.Helper()
	ch := make(chan struct{})
	go func() { defer close(ch); fn() }()
	synctest.Wait()
	select {
	case <-ch:
		t.Fatalf("%s did not wait", what)
	default:
	}
	return ch
}

func TestBothDirections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t, New())
		write(t, a, "hello")
		read(t, b, "hello")
		write(t, b, "world")
		read(t, a, "world")
		if got := b.LocalAddr().String(); got != "b:9092" {
			t.Errorf("local address %s", got)
		}
		if got, want := b.RemoteAddr(), a.LocalAddr(); got != want {
			t.Errorf("remote address %s, want %s", got, want)
		}
	})
}

func TestRefused(t *testing.T) {
	n := New()
	_, err := n.Dial(context.Background(), "b:9092")
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatal(err)
	}
	ln, err := n.Listen("b:9092")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Host("b").Listen("tcp", ":9092"); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("second listener: %v", err)
	}
	_ = ln.Close()
	if _, err = n.Dial(context.Background(), "b:9092"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after close: %v", err)
	}
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept after close: %v", err)
	}
	if _, err := n.Dial(context.Background(), "nowhere"); err == nil {
		t.Error("an address without port was accepted")
	}
}

func TestPortZero(t *testing.T) {
	n := New()
	one, err := n.Listen("b:0")
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	two, err := n.Listen("b:0")
	if err != nil {
		t.Fatal(err)
	}
	defer two.Close()
	if one.Addr() == two.Addr() {
		t.Errorf("both listen on %s", one.Addr())
	}
}

func TestWriterWaitsForReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t, New())
		sent := bytes.Repeat([]byte("0123456789abcdef"), bufferSize/8) // twice the buffer
		done := blocked(t, "write", func() { _, _ = a.Write(sent); _ = a.Close() })
		got, err := io.ReadAll(b)
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("got %d bytes, %v, want %d", len(got), err, len(sent))
		}
		<-done
	})
}

func TestEnds(t *testing.T) {
	cases := map[string]struct {
		end      func(a, b net.Conn) // a ends
		wantRead error               // of b
	}{
		"close":                   {func(a, b net.Conn) { _ = a.Close() }, io.EOF},
		"half close":              {func(a, b net.Conn) { _ = a.(*Conn).CloseWrite() }, io.EOF},
		"close with unread bytes": {func(a, b net.Conn) { _, _ = b.Write([]byte("x")); _ = a.Close() }, syscall.ECONNRESET},
		"reset":                   {func(a, b net.Conn) { a.(*Conn).reset() }, syscall.ECONNRESET},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, New())
			write(t, a, "last words")
			c.end(a, b)
			read(t, b, "last words")
			if _, err := b.Read(make([]byte, 1)); !errors.Is(err, c.wantRead) {
				t.Errorf("then %v, want %v", err, c.wantRead)
			}
			if _, err := a.Write([]byte("x")); err == nil {
				t.Error("the end that was closed still writes")
			}
			_, err := b.Write([]byte("x"))
			if half := name == "half close"; half != (err == nil) {
				t.Errorf("writing back: %v", err)
			} else if !half && !errors.Is(err, syscall.EPIPE) {
				t.Errorf("writing back: %v", err)
			}
		})
	}
}

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := pair(t, New())
		start := time.Now()
		_ = a.SetReadDeadline(start.Add(3 * time.Second))
		_, err := a.Read(make([]byte, 1))
		var timeout net.Error
		if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("read: %v", err)
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("read gave up after %v", took)
		}
		_ = a.SetDeadline(start.Add(5 * time.Second))
		if _, err := a.Write(make([]byte, bufferSize+1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write: %v", err)
		}
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("write gave up after %v", took)
		}
	})
}

// A deadline in the past wakes a read that waits, and one taken back lets reads wait again.
func TestDeadlineMovesUnderAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t, New())
		var err error
		done := blocked(t, "read", func() { _, err = a.Read(make([]byte, 1)) })
		_ = a.SetReadDeadline(time.Now().Add(time.Hour))
		_ = a.SetReadDeadline(time.Unix(1, 0))
		<-done
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read: %v", err)
		}
		_ = a.SetReadDeadline(time.Time{})
		done = blocked(t, "read", func() { read(t, a, "x") })
		write(t, b, "x")
		<-done
	})
}

// A deadline that is replaced is not one that has passed, at whatever moment somebody looks.
func TestReplacedDeadlineHasNotPassed(t *testing.T) {
	conn, _ := pair(t, New())
	a := conn.(*Conn)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 300_000 {
			_ = a.SetReadDeadline(time.Time{})
		}
	}()
	for {
		select {
		case <-done:
			return
		default:
		}
		if err := a.usable(&a.readDeadline); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCloseWakesEverybody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := pair(t, New())
		write(t, a, string(make([]byte, bufferSize)))
		var errs [3]error
		r := blocked(t, "read", func() { _, errs[0] = a.Read(make([]byte, 1)) })
		w := blocked(t, "write", func() { _, errs[1] = a.Write([]byte("x")) })
		p := blocked(t, "poll", func() { errs[2] = a.(*Conn).WaitReadable() })
		_ = a.Close()
		<-r
		<-w
		<-p
		for i, err := range errs {
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("%d: %v", i, err)
			}
		}
	})
}

func TestWaitReadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t, New())
		done := blocked(t, "poll", func() { _ = b.(*Conn).WaitReadable() })
		write(t, a, "x")
		<-done
		if err := b.(*Conn).WaitReadable(); err != nil {
			t.Error(err)
		}
		read(t, b, "x")
		done = blocked(t, "poll", func() { _ = b.(*Conn).WaitReadable() })
		_ = a.Close()
		<-done
		if err := b.(*Conn).WaitReadable(); err != nil {
			t.Errorf("at the end of the stream: %v", err)
		}
	})
}

func TestCutOneWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		a, b := pair(t, n)
		write(t, a, "before")
		n.Cut("a", "b")
		write(t, a, "during")
		write(t, b, "back")
		read(t, a, "back")   // the other direction works
		read(t, b, "before") // what had arrived can be read
		done := blocked(t, "read", func() { read(t, b, "during") })
		n.Heal("a", "b")
		<-done
	})
}

// The end of a stream and a reset travel like bytes.
func TestCutHidesTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		a, b := pair(t, n)
		n.CutBoth("a", "b")
		_ = a.Close()
		write(t, b, "into the void") // b cannot know yet
		var err error
		done := blocked(t, "read", func() { _, err = b.Read(make([]byte, 1)) })
		n.HealAll()
		<-done
		if !errors.Is(err, io.EOF) {
			t.Errorf("read: %v", err)
		}
		if _, err := b.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("write: %v", err)
		}
	})
}

func TestDialAcrossACutWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		ln, err := n.Listen("b:1")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		for _, cut := range []func(){
			func() { n.Cut("a", "b") }, func() { n.Cut("b", "a") }, func() { n.Isolate("a") }, func() { n.Isolate("b") },
		} {
			cut()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if _, err := n.Host("a").DialContext(ctx, "tcp", "b:1"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("dial: %v", err)
			}
			cancel()
			var c net.Conn
			done := blocked(t, "dial", func() { c, err = n.Host("a").Dial("tcp", "b:1") })
			n.HealAll()
			<-done
			if err != nil {
				t.Fatal(err)
			}
			_ = c.Close()
		}
	})
}

func TestIsolate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		a, b := pair(t, n)
		n.Isolate("b")
		write(t, a, "x")
		write(t, b, "y")
		one := blocked(t, "read", func() { read(t, b, "x") })
		two := blocked(t, "read", func() { read(t, a, "y") })
		n.Rejoin("b")
		<-one
		<-two
		// A host always reaches itself.
		n.Isolate("b")
		self, err := n.Host("b").Dial("tcp", "b:9092")
		if err != nil {
			t.Fatal(err)
		}
		_ = self.Close()
	})
}

func TestCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		a, b := pair(t, n)
		waiting, err := n.Host("a").Dial("tcp", "b:9092") // never accepted
		if err != nil {
			t.Fatal(err)
		}
		n.Crash("b")
		for _, c := range []net.Conn{a, waiting} {
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("read: %v", err)
			}
		}
		if _, err := b.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the dead host reads: %v", err)
		}
		if _, err := n.Host("a").Dial("tcp", "b:9092"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial: %v", err)
		}
		again, err := n.Listen("b:9092") // the next incarnation
		if err != nil {
			t.Fatal(err)
		}
		_ = again.Close()
	})
}

func TestFullBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		ln, err := n.Listen("b:1")
		if err != nil {
			t.Fatal(err)
		}
		for range backlog {
			if _, err := n.Host("a").Dial("tcp", "b:1"); err != nil {
				t.Fatal(err)
			}
		}
		done := blocked(t, "dial", func() { _, err = n.Host("a").Dial("tcp", "b:1") })
		if _, err := ln.Accept(); err != nil {
			t.Fatal(err)
		}
		<-done
		if err != nil {
			t.Error(err)
		}
		done = blocked(t, "dial", func() { _, err = n.Host("a").Dial("tcp", "b:1") })
		_ = ln.Close()
		<-done
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial: %v", err)
		}
	})
}

// Many connections at once, each echoed in random pieces, outside of a bubble.
func TestParallel(t *testing.T) {
	n := New()
	ln, err := n.Listen("b:1")
	if err != nil {
		t.Fatal(err)
	}
	var servers sync.WaitGroup
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			servers.Go(func() { _, _ = io.Copy(c, c); _ = c.Close() })
		}
	}()
	var clients sync.WaitGroup
	for i := range 50 {
		clients.Go(func() {
			c, err := n.Host("a").Dial("tcp", "b:1")
			if err != nil {
				t.Error(err)
				return
			}
			sent := bytes.Repeat([]byte{byte(i)}, 3*bufferSize+i)
			go func() { _, _ = c.Write(sent); _ = c.(*Conn).CloseWrite() }()
			got, err := io.ReadAll(c)
			if err != nil || !bytes.Equal(got, sent) {
				t.Errorf("%d bytes back of %d: %v", len(got), len(sent), err)
			}
			_ = c.Close()
		})
	}
	clients.Wait()
	_ = ln.Close()
	servers.Wait()
}
