package wire

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/klamm-mq/klamm/internal/invariant"
)

const (
	// stageSize is the buffer in which small runs are gathered for one write.
	stageSize = 64 << 10
	// pieceSize is what is written at most before progress is noted (Limits.WriteStall).
	pieceSize = 256 << 10
	// sendfileMin is the length from which a region is sent by the kernel: below, one
	// read into the stage and one write are cheaper.
	sendfileMin = 16 << 10
	// copyMax is the largest answer that is copied because something follows its region.
	// With room for a partition of 1 MiB, what clients ask for, and what surrounds it.
	copyMax = 1<<20 + 64<<10
	// maxUnflushed bounds the answers that wait for a flush.
	maxUnflushed = 64 << 10
)

// errRegionShort says that a region ended before its length: the frame's size is sent
// already, so only closing the connection tells the client.
var errRegionShort = errors.New("region is shorter than promised")

// output gathers answers and writes them. It is used by one goroutine at a time.
type output struct {
	conn  net.Conn
	raw   syscall.RawConn // for sendfile; nil where it does not work
	pool  *Buffers
	watch *watch
	room  *copyRoom // for stages above stageSize; nil: none
	sent  func(bytes int)

	queue []sealed
	bytes int // in queue
	timed int // of queue, whose sending is measured

	stage *buffer // while flushing
	used  int
	grown int // of room, for the stage
}

// sealed is a response whose frame begins at start of its buffer.
type sealed struct {
	resp  *Response
	start int
	sent  func(took time.Duration) // nil: nobody asks
}

// add takes an answer over, to be sent by the next flush.
func (o *output) add(r *Request, resp *Response, sent func(time.Duration)) error {
	start := resp.seal(r.CorrelationID, r.api.FlexibleResponse(r.Version))
	o.queue = append(o.queue, sealed{resp, start, sent})
	if sent != nil {
		o.timed++
	}
	o.bytes += resp.used - start + resp.regionN
	if o.bytes >= maxUnflushed {
		return o.flush()
	}
	return nil
}

// flush writes everything that was added and releases it.
func (o *output) flush() error {
	if len(o.queue) == 0 {
		return nil
	}
	var began time.Time
	if o.timed > 0 {
		began = time.Now()
	}
	err := o.writeQueue()
	if o.timed > 0 {
		o.tellSent(time.Since(began))
	}
	o.watch.write.clear()
	o.sent(o.bytes)
	o.drop()
	return err
}

// tellSent shares the time of a flush among those whose sending is measured. Most of a long
// one is the client's, who does not take it.
func (o *output) tellSent(took time.Duration) {
	took = min(took, time.Duration(1+o.bytes/pieceSize)*time.Millisecond) / time.Duration(o.timed)
	for i := range o.queue {
		if o.queue[i].sent != nil {
			o.queue[i].sent(took)
		}
	}
}

// drop releases what was added.
func (o *output) drop() {
	for i := range o.queue {
		o.queue[i].resp.Release()
		o.queue[i] = sealed{}
	}
	o.queue, o.bytes, o.timed = o.queue[:0], 0, 0
	if cap(o.queue) > 64 {
		o.queue = nil
	}
}

func (o *output) writeQueue() error {
	if one := o.queue[0]; len(o.queue) == 1 && len(one.resp.regions) == 0 {
		return o.write(one.resp.buf.b[one.start:one.resp.used])
	}
	o.setStage(stageSize)
	defer o.dropStage()
	for _, s := range o.queue {
		if err := o.writeResponse(s); err != nil {
			return err
		}
	}
	return o.flushStage(false)
}

// setStage takes a stage of n bytes, with what the one before holds.
func (o *output) setStage(n int) {
	last := o.stage
	o.stage = o.pool.get(n)
	if last != nil {
		copy(o.stage.b, last.b[:o.used])
		o.pool.put(last)
	}
}

// growStage makes the stage large enough for an answer to be copied, if there is room.
func (o *output) growStage(n int) bool {
	if n <= len(o.stage.b) {
		return true
	}
	if n > copyMax || o.raw == nil || !o.room.take(copyMax-o.grown) {
		return false
	}
	o.grown = copyMax
	o.setStage(n)
	return true
}

func (o *output) dropStage() {
	o.pool.put(o.stage)
	o.room.give(o.grown)
	o.stage, o.used, o.grown = nil, 0, 0
}

func (o *output) writeResponse(s sealed) error {
	from, left := s.start, s.resp.used-s.start+s.resp.regionN
	for _, placed := range s.resp.regions {
		if err := o.writeBytes(s.resp.buf.b[from:placed.at]); err != nil {
			return err
		}
		left -= placed.at - from + placed.region.Len()
		if err := o.writeRegion(placed.region, left); err != nil {
			return err
		}
		from = placed.at
	}
	return o.writeBytes(s.resp.buf.b[from:s.resp.used])
}

// writeBytes stages a run of bytes, or writes it if it is larger than the stage.
func (o *output) writeBytes(p []byte) error {
	if o.used+len(p) > len(o.stage.b) {
		if err := o.flushStage(false); err != nil {
			return err
		}
	}
	if len(p) > len(o.stage.b) {
		return o.write(p)
	}
	o.used += copy(o.stage.b[o.used:], p)
	return nil
}

// writeRegion sends a region, after which as many bytes of the answer follow. If these
// and the region can be staged, one read and one write for all of them are cheaper than a
// call, a segment and a wake of the reader for what follows: flexible versions of Fetch
// end with a few tags.
func (o *output) writeRegion(r Region, follow int) error {
	staged := follow > 0 && o.growStage(o.used+r.Len()+follow)
	if o.raw != nil && r.Len() >= sendfileMin && !staged {
		if file, pos := r.File(); file != nil {
			err := o.sendRegion(file, pos, r.Len())
			o.blame(r, err)
			return err
		}
	}
	return o.copyRegion(r)
}

// sendRegion has the kernel send a piece of a file. What was staged, the frame's header
// above all, goes out with the file's first bytes and not as a segment of its own.
func (o *output) sendRegion(file *os.File, pos int64, n int) error {
	if err := o.flushStage(true); err != nil {
		return err
	}
	if err := sendFile(o, file, pos, n); err != nil {
		return fmt.Errorf("send %d bytes of %s at %d: %w", n, file.Name(), pos, err)
	}
	return nil
}

// copyRegion reads a region through the stage.
func (o *output) copyRegion(r Region) error {
	for off := 0; off < r.Len(); {
		if o.used == len(o.stage.b) {
			if err := o.flushStage(false); err != nil {
				return err
			}
		}
		room := o.stage.b[o.used:min(len(o.stage.b), o.used+r.Len()-off)]
		n, err := r.ReadAt(room, int64(off))
		invariant.Check(0 <= n && n <= len(room), "region read %d of %d bytes", n, len(room))
		o.used += n
		off += n
		if n < len(room) {
			return shortRegion(err)
		}
	}
	return nil
}

func shortRegion(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return errRegionShort
	}
	return fmt.Errorf("read region: %w", err)
}

// flushStage writes what is staged; more says that a file's bytes follow at once.
func (o *output) flushStage(more bool) error {
	p := o.stage.b[:o.used]
	o.used = 0
	if len(p) == 0 {
		return nil
	}
	if more {
		return writeMore(o, p)
	}
	return o.write(p)
}

// write writes p so that the sweeper sees progress: with one call if the socket takes it,
// in pieces where it would not say how far it is.
func (o *output) write(p []byte) error {
	if o.raw != nil && len(p) > pieceSize {
		return writeLast(o, p)
	}
	for len(p) > 0 {
		o.progress()
		piece := p[:min(len(p), pieceSize)]
		if _, err := o.conn.Write(piece); err != nil {
			return err
		}
		p = p[len(piece):]
	}
	return nil
}

// progress notes that the client has taken what was written so far.
func (o *output) progress() { o.watch.write.set(o.watch.now()) }
