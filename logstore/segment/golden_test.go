package segment

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/errfs"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// TestGolden replays the transcripts in testdata/transcripts. The commands:
//
//	new base= [interval=] [max-index=]
//	append base= n= size= ts=      one batch; several may follow, one per line of input
//	lookup o…                      where the batches with these offsets lie
//	read offset= [max=] [max-pos=] [min-one]
//	time ts= [from=]
//	roll bytes= segment= ts= [last=] [ms=]
//	truncate offset=
//	recover [from=]   drop-tail   seal   close   open
//	abort pid= first= last= lso=     aborted from= up-to=     upper-bound pos= bytes=
//	write-indexes   remove suffix=   chop suffix= size=   flip suffix= pos= [mask=]   grow suffix= bytes=
//	fail             one errfs rule per line of input
//	heal
//
// Those that change something print the state after them.
func TestGolden(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		fs := errfs.Wrap(vfs.NewMem())
		g := &golden{t: t, fs: fs, o: testOptions(fs)}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			g.t = t
			return g.run(d)
		})
	})
}

type golden struct {
	t    *testing.T
	fs   *errfs.FS
	o    *Options
	s    *Segment
	base int64
}

func (g *golden) run(d *datadriven.TestData) string {
	switch d.Cmd {
	case "lookup":
		return g.lookup(d)
	case "read":
		return g.read(d)
	case "time":
		return g.time(d)
	case "roll":
		return g.roll(d)
	case "aborted":
		return g.aborted(d)
	case "upper-bound":
		o, ok, err := g.s.UpperBoundOffset(g.arg(d, "pos", 0), g.arg(d, "bytes", 0))
		return fmt.Sprintln(o, ok, err)
	default:
		return g.change(d) + g.state()
	}
}

func (g *golden) arg(d *datadriven.TestData, name string, otherwise int64) int64 {
	if d.HasArg(name) {
		d.ScanArgs(g.t, name, &otherwise)
	}
	return otherwise
}

func (g *golden) change(d *datadriven.TestData) (out string) {
	var err error
	switch d.Cmd {
	case "new":
		g.base = g.arg(d, "base", 0)
		g.o.IndexIntervalBytes = int(g.arg(d, "interval", 200))
		g.o.MaxIndexBytes = int(g.arg(d, "max-index", 1<<20))
		g.s = mustCreate(g.t, g.o, g.base)
	case "append":
		err = g.append(d)
	case "truncate":
		var n int64
		n, err = g.s.TruncateTo(testNow, g.arg(d, "offset", 0))
		out = fmt.Sprintf("removed %d bytes\n", n)
	case "recover":
		out, err = g.recover(g.arg(d, "from", 0))
	case "drop-tail":
		err = g.s.DropTail()
	case "seal":
		err = g.s.Seal()
	case "close":
		err = g.s.Close()
	case "open":
		g.s = mustOpen(g.t, g.o, g.base)
	case "next":
		_, err = g.s.NextOffset()
	case "abort":
		err = g.s.AppendAbortedTxn(AbortedTxn{ProducerID: g.arg(d, "pid", 0), FirstOffset: g.arg(d, "first", 0), LastOffset: g.arg(d, "last", 0), LastStableOffset: g.arg(d, "lso", 0)})
	case "write-indexes":
		err = g.s.WriteIndexes()
	case "fail":
		for rule := range strings.Lines(d.Input) {
			g.fs.Add(strings.TrimSpace(rule))
		}
	case "heal":
		g.fs.Clear()
	default:
		err = g.damage(d)
	}
	if err != nil {
		out += fmt.Sprintf("error: %v\n", err)
	}
	return out
}

// damage changes a file behind the segment's back.
func (g *golden) damage(d *datadriven.TestData) error {
	var suffix string
	d.ScanArgs(g.t, "suffix", &suffix)
	name := filepath.Join(testDir, FileName(g.base, suffix))
	if d.Cmd == "remove" {
		return g.fs.Remove(name)
	}
	f, err := g.fs.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	switch d.Cmd {
	case "chop":
		return f.Truncate(g.arg(d, "size", 0))
	case "grow":
		return f.Truncate(size + g.arg(d, "bytes", 0))
	case "flip":
		b := make([]byte, 1)
		if _, err := f.ReadAt(b, g.arg(d, "pos", 0)); err != nil {
			return err
		}
		b[0] ^= byte(g.arg(d, "mask", 0xff))
		_, err := f.WriteAt(b, g.arg(d, "pos", 0))
		return err
	default:
		return fmt.Errorf("unknown command %s", d.Cmd)
	}
}

func (g *golden) append(d *datadriven.TestData) error {
	var records []byte
	lines := []string{strings.TrimSpace(strings.TrimPrefix(d.Cmd+argsOf(d), "append"))}
	if d.Input != "" {
		lines = append(lines, strings.Split(d.Input, "\n")...)
	}
	for _, line := range lines {
		var base, ts int64
		var n, size int
		if _, err := fmt.Sscanf(line, "base=%d n=%d size=%d ts=%d", &base, &n, &size, &ts); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
		records = append(records, testBatch(base, n, size, ts)...)
	}
	return g.s.Append(testNow, records)
}

func argsOf(d *datadriven.TestData) string {
	var out strings.Builder
	for _, a := range d.CmdArgs {
		fmt.Fprintf(&out, " %s=%s", a.Key, a.Vals[0])
	}
	return out.String()
}

func (g *golden) recover(from int64) (string, error) {
	var out strings.Builder
	r, err := g.s.Recover(RecoverParams{FromOffset: from, OnBatch: func(v batch.View, pos int64) error {
		fmt.Fprintf(&out, "batch %d..%d at %d\n", v.BaseOffset(), v.LastOffset(), pos)
		return nil
	}})
	if err != nil {
		return out.String(), err
	}
	fmt.Fprintf(&out, "valid %d of %d bytes, next offset %d, %d batches scanned\n", r.ValidSize, r.FileSize, r.NextOffset, r.Batches)
	if r.Damage != nil {
		fmt.Fprintf(&out, "damage: %v\n", r.Damage)
	}
	return out.String(), nil
}

func (g *golden) lookup(d *datadriven.TestData) string {
	var out strings.Builder
	for _, a := range d.CmdArgs {
		var o int64
		if _, err := fmt.Sscan(a.Key, &o); err != nil {
			g.t.Fatal(err)
		}
		b, found, err := g.s.Lookup(o)
		fmt.Fprintf(&out, "%d: ", o)
		switch {
		case err != nil:
			fmt.Fprintln(&out, "error:", err)
		case !found:
			fmt.Fprintln(&out, "none")
		default:
			fmt.Fprintf(&out, "batch at offset %d, position %d, %d bytes\n", b.BaseOffset, b.Pos, b.Size)
		}
	}
	return out.String()
}

func (g *golden) read(d *datadriven.TestData) string {
	r, err := g.s.Read(ReadParams{
		Offset:   g.arg(d, "offset", 0),
		MaxPos:   g.arg(d, "max-pos", g.s.Size()),
		MaxBytes: int(g.arg(d, "max", 1<<20)),
		MinOne:   d.HasArg("min-one"),
		Whole:    d.HasArg("whole"),
	})
	switch {
	case err != nil:
		return fmt.Sprintf("error: %v\n", err)
	case !r.Found:
		return "not found\n"
	}
	out := fmt.Sprintf("from %d at %d", r.First.BaseOffset, r.First.Pos)
	if r.FirstIncomplete {
		out += ", first incomplete"
	}
	if r.Region == nil {
		return out + ": nothing\n"
	}
	n := r.Region.Len()
	return fmt.Sprintf("%s: %d bytes %s\n", out, n, describe(drain(g.t, r.Region)))
}

func (g *golden) time(d *datadriven.TestData) string {
	ts, found, err := g.s.OffsetForTimestamp(g.arg(d, "ts", 0), g.arg(d, "from", 0))
	switch {
	case err != nil:
		return fmt.Sprintf("error: %v\n", err)
	case !found:
		return "none\n"
	}
	return fmt.Sprintf("offset %d, timestamp %d, epoch %d\n", ts.Offset, ts.TimestampMs, ts.LeaderEpoch)
}

func (g *golden) roll(d *datadriven.TestData) string {
	next, err := g.s.NextOffset()
	if err != nil {
		return fmt.Sprintf("error: %v\n", err)
	}
	roll, err := g.s.ShouldRoll(RollParams{
		Now:            testNow.Add(5_000_000_000),
		SegmentBytes:   g.arg(d, "segment", 1<<30),
		SegmentMs:      g.arg(d, "ms", 1<<40),
		AppendBytes:    g.arg(d, "bytes", 100),
		LastOffset:     g.arg(d, "last", next),
		MaxTimestampMs: g.arg(d, "ts", 0),
	})
	return fmt.Sprintln(roll, err)
}

func (g *golden) aborted(d *datadriven.TestData) string {
	txns, complete, err := g.s.AbortedTxns(g.arg(d, "from", 0), g.arg(d, "up-to", 0))
	if err != nil {
		return fmt.Sprintf("error: %v\n", err)
	}
	var out strings.Builder
	for _, t := range txns {
		fmt.Fprintf(&out, "producer %d: %d..%d, lso %d\n", t.ProducerID, t.FirstOffset, t.LastOffset, t.LastStableOffset)
	}
	fmt.Fprintf(&out, "complete %v\n", complete)
	return out.String()
}

// state tells what is known in memory, without finding out more, and what the files hold.
func (g *golden) state() string {
	var out strings.Builder
	s := g.s
	s.mu.RLock()
	c := s.content
	fmt.Fprintf(&out, "size %d", s.size)
	if c.known {
		fmt.Fprintf(&out, ", next %d, max timestamp %d at %d", c.nextOffset, c.max.TimestampMs, c.max.Offset)
	}
	if c.loaded {
		fmt.Fprintf(&out, "\nindex")
		for i := range c.offsets.len() {
			relative, pos := c.offsets.entry(i)
			fmt.Fprintf(&out, " %d@%d", s.base+relative, pos)
		}
		fmt.Fprintf(&out, "\ntime index")
		for i := range c.times.len() {
			ms, relative := c.times.entry(i)
			fmt.Fprintf(&out, " %d@%d", ms, s.base+relative)
		}
	}
	s.mu.RUnlock()
	if s.Unflushed() {
		fmt.Fprintf(&out, "\nunflushed")
	}
	fmt.Fprintf(&out, "\nfiles")
	for _, suffix := range suffixes {
		info, err := g.fs.Stat(filepath.Join(testDir, FileName(g.base, suffix)))
		if err == nil {
			fmt.Fprintf(&out, " %s=%d", suffix, info.Size())
		} else if !errors.Is(err, os.ErrNotExist) {
			g.t.Fatal(err)
		}
	}
	return out.String() + "\n"
}
