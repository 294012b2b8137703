package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"testing"

	"github.com/klamm-mq/klamm/protocol/wire/memnet"
)

// waiting is the read in which a connection waits for the next request. It may have begun
// before the counting does, and after it has ended.
const waiting = 1

// lean is echo without an allocation of its own.
var lean = HandlerFunc(func(_ context.Context, r *Request) Outcome {
	resp := r.NewResponse()
	resp.Append(func(dst []byte) []byte { return append(dst, r.Body...) })
	return Outcome{Response: resp}
})

// nothing answers with an empty body.
func nothing(_ context.Context, r *Request) Outcome { return Outcome{Response: r.NewResponse()} }

// exchange sends frames in one write and reads n bytes of answers.
func exchange(t testing.TB, conn net.Conn, frames []byte, answers []byte) {
	if _, err := conn.Write(frames); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, answers); err != nil {
		t.Fatal(err)
	}
}

// The budget of a small request in steady state: one read, one write, one allocation
// (the Request). The read that finds nothing before the goroutine waits is Go's own.
func TestBudgetOfOneRequest(t *testing.T) {
	r := newSocketRig(t, Options{Handler: lean})
	conn := r.connect()
	frame, answer := metadata(1, "a small body"), make([]byte, 8+12)
	exchange(t, conn, frame, answer)
	reads, writes := r.counts.Reads.Load(), r.counts.Writes.Load()
	const requests = 100
	allocs := testing.AllocsPerRun(requests, func() { exchange(t, conn, frame, answer) })
	reads, writes = r.counts.Reads.Load()-reads, r.counts.Writes.Load()-writes
	if reads > requests+1+waiting || writes != requests+1 { // AllocsPerRun warms up with one
		t.Errorf("%d requests took %d reads and %d writes", requests+1, reads, writes)
	}
	if allocs > 1 && !raceEnabled {
		t.Errorf("%v allocations per request", allocs)
	}
}

// A batch of the default 16 KiB, with what surrounds it, is one read as well. More than
// one segment may arrive apart, so a few are allowed to take two.
func TestBudgetOfABatch(t *testing.T) {
	r := newSocketRig(t, Options{Handler: HandlerFunc(nothing)})
	conn := r.connect()
	frame, answer := metadata(1, string(make([]byte, 16<<10+100))), make([]byte, 8)
	exchange(t, conn, frame, answer)
	reads, writes := r.counts.Reads.Load(), r.counts.Writes.Load()
	const requests = 100
	allocs := testing.AllocsPerRun(requests, func() { exchange(t, conn, frame, answer) })
	reads, writes = r.counts.Reads.Load()-reads, r.counts.Writes.Load()-writes
	if reads > requests+requests/10 || writes != requests+1 {
		t.Errorf("%d requests took %d reads and %d writes", requests+1, reads, writes)
	}
	if allocs > 1 && !raceEnabled {
		t.Errorf("%v allocations per request", allocs)
	}
}

func TestBudgetOfPipelinedRequests(t *testing.T) {
	r := newSocketRig(t, Options{Handler: lean})
	conn := r.connect()
	var frames []byte
	for i := range 16 {
		frames = append(frames, metadata(int32(i), "a small body")...)
	}
	answers := make([]byte, 16*(8+12))
	exchange(t, conn, frames, answers)
	reads, writes := r.counts.Reads.Load(), r.counts.Writes.Load()
	allocs := testing.AllocsPerRun(10, func() { exchange(t, conn, frames, answers) })
	reads, writes = r.counts.Reads.Load()-reads, r.counts.Writes.Load()-writes
	if reads > 11+waiting || writes != 11 {
		t.Errorf("11 times 16 requests took %d reads and %d writes", reads, writes)
	}
	if allocs > 16 && !raceEnabled {
		t.Errorf("%v allocations for 16 requests", allocs)
	}
}

// A fetch of a piece of a file takes two calls to answer: the header with MSG_MORE, and
// sendfile.
func TestBudgetOfAFileRegion(t *testing.T) {
	file, _ := randomFile(t, 1<<20)
	region := &fileRegion{file: file, len: sendfileMin}
	r := newSocketRig(t, Options{Handler: regionHandler(region)})
	conn := r.connect()
	frame, answer := metadata(1, ""), make([]byte, 8+4+sendfileMin)
	exchange(t, conn, frame, answer)
	reads, writes := r.counts.Reads.Load(), r.counts.Writes.Load()
	const requests = 20
	for range requests {
		exchange(t, conn, frame, answer)
	}
	reads, writes = r.counts.Reads.Load()-reads, r.counts.Writes.Load()-writes
	if reads > requests+waiting || writes > 2*requests {
		t.Errorf("%d requests took %d reads and %d writes", requests, reads, writes)
	}
}

// An answer of one partition takes two calls, also where a few bytes follow the region, as
// the tags of flexible versions do: one read of the file and one write, up to what clients
// ask for of a partition. They would else be a call and a segment of their own.
func TestBudgetOfAFileRegionWithMoreBehind(t *testing.T) {
	file, _ := randomFile(t, 2<<20)
	for _, c := range []struct {
		size   int
		full   bool // copies hold all they may
		writes int64
	}{
		{size: sendfileMin, writes: 1},
		{size: stageSize - 100, writes: 1},
		{size: stageSize, writes: 1},
		{size: 1 << 20, writes: 1},
		{size: copyMax, writes: 3},
		{size: 1 << 20, full: true, writes: 3},
	} {
		region := &fileRegion{file: file, len: c.size}
		r := newSocketRig(t, Options{Handler: regionWithTail(region)})
		if c.full {
			r.server.copies.max = copyMax - 1
		}
		conn := r.connect()
		frame, answer := metadata(1, ""), make([]byte, 8+c.size+4)
		exchange(t, conn, frame, answer)
		writes, reads := r.counts.Writes.Load(), region.reads.Load()
		exchange(t, conn, frame, answer)
		writes, reads = r.counts.Writes.Load()-writes, region.reads.Load()-reads
		if writes != c.writes || string(answer[8+c.size:]) != "tail" {
			t.Errorf("a region of %d bytes took %d writes, want %d", c.size, writes, c.writes)
		}
		if copied := writes == 1; reads > 1 || copied != (reads == 1) {
			t.Errorf("a region of %d bytes took %d reads", c.size, reads)
		}
		eventually(t, "the memory of copies is free again", func() bool { return r.server.copies.used.Load() == 0 })
		if refused := r.server.copies.refused.Load(); (refused > 0) != c.full {
			t.Errorf("%d copies refused", refused)
		}
	}
}

func regionWithTail(region Region) Handler {
	return HandlerFunc(func(_ context.Context, r *Request) Outcome {
		resp := r.NewResponse()
		resp.AddRegion(region)
		resp.Append(func(dst []byte) []byte { return append(dst, "tail"...) })
		return Outcome{Response: resp}
	})
}

// 10,000 connections that are idle after a request: one goroutine each, and no buffer.
func TestTenThousandConnections(t *testing.T) {
	const connections = 10_000
	network := memnet.New()
	ln, err := network.Listen("broker-1:9092")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(Options{Handler: lean})
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln, ListenerInfo{Name: "PLAINTEXT"}) }()
	conns := make([]net.Conn, connections)
	frame, answer := metadata(1, "hello"), make([]byte, 8+5)
	before, goroutines := inUse(), runtime.NumGoroutine()
	for i := range conns {
		if conns[i], err = network.Dial(t.Context(), "broker-1:9092"); err != nil {
			t.Fatal(err)
		}
		exchange(t, conns[i], frame, answer)
	}
	if got := s.numConns(); got != connections {
		t.Errorf("%d connections", got)
	}
	if got := runtime.NumGoroutine() - goroutines; got > connections {
		t.Errorf("%d goroutines", got)
	}
	// Both ends in memory, the goroutine's stack of 2 to 4 KiB included.
	if got := (inUse() - before) / connections; got > 8<<10 {
		t.Errorf("an idle connection holds %d bytes", got)
	}
	for i := range conns { // each is still served
		exchange(t, conns[len(conns)-1-i], frame, answer)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, ErrServerClosed) {
		t.Error(err)
	}
}

// inUse is the memory in use for heap and stacks.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
