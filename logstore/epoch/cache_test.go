package epoch

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/countfs"
	"github.com/klamm-mq/klamm/logstore/vfs/errfs"
)

const testDir = "/d/t-0"

func newFS(t *testing.T) vfs.FS {
	t.Helper()
	fs := vfs.NewMem()
	if err := fs.MkdirAll(testDir, 0o755); err != nil {
		t.Fatal(err)
	}
	return fs
}

// TestGolden replays the transcripts in testdata. Every command prints the entries.
//
//	assign epoch offset …      end-offset log-end= epoch…      epoch-for offset…
//	from-end offset   from-start offset   clear   flush   load
func TestGolden(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		fs := newFS(t)
		c := New(fs, testDir)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "load" {
				var err error
				if c, err = Load(fs, testDir); err != nil {
					t.Fatal(err)
				}
			}
			return run(t, c, d) + show(c)
		})
	})
}

func show(c *Cache) string {
	out := "entries"
	for _, e := range c.Entries() {
		out += fmt.Sprintf(" %d@%d", e.Epoch, e.StartOffset)
	}
	if c.Dirty() {
		out += ", dirty"
	}
	return out + "\n"
}

func run(t *testing.T, c *Cache, d *datadriven.TestData) string {
	var out strings.Builder
	var numbers []int64
	for _, a := range d.CmdArgs {
		var n int64
		if _, err := fmt.Sscan(a.Key, &n); err == nil {
			numbers = append(numbers, n)
		}
	}
	switch d.Cmd {
	case "assign":
		for i := 0; i < len(numbers); i += 2 {
			fmt.Fprintln(&out, c.Assign(int32(numbers[i]), numbers[i+1]))
		}
	case "end-offset":
		var logEnd int64
		d.ScanArgs(t, "log-end", &logEnd)
		for _, n := range numbers {
			epoch, end := c.EndOffsetFor(int32(n), logEnd)
			fmt.Fprintf(&out, "%d: epoch %d ends at %d\n", n, epoch, end)
		}
	case "epoch-for":
		for _, n := range numbers {
			epoch, ok := c.EpochForOffset(n)
			fmt.Fprintf(&out, "%d: %d %v\n", n, epoch, ok)
		}
	case "previous":
		for _, n := range numbers {
			e, ok := c.Previous(int32(n))
			fmt.Fprintf(&out, "%d: %v %v\n", n, e, ok)
		}
	case "from-end":
		c.TruncateFromEnd(numbers[0])
	case "from-start":
		c.TruncateFromStart(numbers[0])
	case "clear":
		c.Clear()
	case "flush":
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

func TestEdges(t *testing.T) {
	c := New(newFS(t), testDir)
	if _, ok := c.Latest(); ok {
		t.Error("an empty cache has a latest epoch")
	}
	if _, ok := c.Earliest(); ok {
		t.Error("an empty cache has an earliest epoch")
	}
	c.Assign(3, 10)
	c.Assign(5, 20)
	if e, ok := c.Latest(); !ok || e != (Entry{Epoch: 5, StartOffset: 20}) {
		t.Errorf("latest %v %v", e, ok)
	}
	if e, ok := c.Earliest(); !ok || e != (Entry{Epoch: 3, StartOffset: 10}) {
		t.Errorf("earliest %v %v", e, ok)
	}
}

// TestFlush: nothing is written unless something changed, and an error is tried again.
func TestFlush(t *testing.T) {
	counted := countfs.Wrap(newFS(t))
	fs := errfs.Wrap(counted)
	c := New(fs, testDir)
	c.Assign(1, 0)
	fs.Add("rename err=EIO nth=1")
	if err := c.Flush(); err == nil || !c.Dirty() {
		t.Fatalf("failed flush: %v, dirty %v", err, c.Dirty())
	}
	if err := c.Flush(); err != nil || c.Dirty() {
		t.Fatalf("flush: %v, dirty %v", err, c.Dirty())
	}
	counted.Reset()
	c.Assign(1, 5)
	if err := c.Flush(); err != nil || counted.String() != "" {
		t.Errorf("a flush of nothing: %v, calls %s", err, counted)
	}
	fs.Add("open *-checkpoint err=EIO")
	if _, err := Load(fs, testDir); err == nil {
		t.Error("a checkpoint that cannot be read is taken for an empty one")
	}
}

// TestLoadResolvesDisorder: entries that no longer rise, as an old crash may have left,
// are resolved as if assigned one after the other, and the file is written again.
func TestLoadResolvesDisorder(t *testing.T) {
	fs := newFS(t)
	write(t, fs, "0\n4\n1 0\n2 10\n3 5\n4 20\n")
	c, err := Load(fs, testDir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Entry{{Epoch: 1}, {Epoch: 3, StartOffset: 5}, {Epoch: 4, StartOffset: 20}}, c.Entries()); diff != "" || !c.Dirty() {
		t.Errorf("entries (-want +got), dirty %v:\n%s", c.Dirty(), diff)
	}
	write(t, fs, "0\n1\n-1 0\n")
	if _, err := Load(fs, testDir); err == nil {
		t.Error("a negative epoch is accepted")
	}
}

func write(t *testing.T, fs vfs.FS, text string) {
	t.Helper()
	if err := vfs.WriteFileAtomic(fs, testDir+"/leader-epoch-checkpoint", []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// TestSetDir: a checkpoint follows its directory.
func TestSetDir(t *testing.T) {
	fs := newFS(t)
	c := New(fs, testDir)
	c.Assign(1, 0)
	if err := fs.Rename(testDir, "/d/t-1"); err != nil {
		t.Fatal(err)
	}
	c.SetDir("/d/t-1")
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	if c, err := Load(fs, "/d/t-1"); err != nil || len(c.Entries()) != 1 {
		t.Errorf("%v, %v", c.Entries(), err)
	}
}

// TestReadersSeeWholeLists runs readers and flushes beside changes: every list that is
// seen rises, also right after a truncation whose room is used again.
func TestReadersSeeWholeLists(t *testing.T) {
	c := New(newFS(t), testDir)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := rises(c.Entries()); err != nil {
				t.Error(err)
				return
			}
			c.EndOffsetFor(5, 100)
		}
	})
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if err := c.Flush(); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	rng := rand.New(rand.NewPCG(1, 1))
	epoch, offset := int32(0), int64(0)
	for range 20_000 {
		switch rng.IntN(10) {
		case 0:
			offset -= min(offset, rng.Int64N(30))
			c.TruncateFromEnd(offset)
		case 1:
			c.TruncateFromStart(max(0, offset-100))
		default:
			epoch++
			c.Assign(epoch, offset)
			offset += rng.Int64N(10)
		}
	}
	close(stop)
	wg.Wait()
}

func rises(entries []Entry) error {
	for i := 1; i < len(entries); i++ {
		if entries[i-1].Epoch >= entries[i].Epoch || entries[i-1].StartOffset >= entries[i].StartOffset {
			return fmt.Errorf("%v is followed by %v", entries[i-1], entries[i])
		}
	}
	return nil
}

// TestFlushCountsWhenTheNameIsDurable, and not before: the caller syncs the directory after
// Finish, and may fail to.
func TestFlushCountsWhenTheNameIsDurable(t *testing.T) {
	c := New(newFS(t), testDir)
	c.Assign(1, 0)
	for range 2 {
		f, err := c.BeginFlush()
		if err != nil || f == nil {
			t.Fatalf("nothing to flush: %v", err)
		}
		if err := f.Finish(nil); err != nil || !c.Dirty() {
			t.Fatalf("%v; dirty %v before the directory is synced", err, c.Dirty())
		}
	}
	f, err := c.BeginFlush()
	if err != nil || f.Finish(nil) != nil {
		t.Fatal(err)
	}
	if f.Settle(); c.Dirty() {
		t.Error("dirty when all is durable")
	}
}

// TestDirtyBelow: what a start forgets, and what it finds again, need not be written.
func TestDirtyBelow(t *testing.T) {
	fs := newFS(t)
	c := New(fs, testDir)
	dirty := func(offset int64, want bool) {
		t.Helper()
		if got := c.DirtyBelow(offset); got != want {
			t.Errorf("dirty below %d: %v; entries %v", offset, got, c.Entries())
		}
	}
	dirty(0, false)
	c.Assign(1, 0)
	dirty(0, false) // an empty log
	dirty(1, true)
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	c.Assign(2, 10)
	dirty(10, false) // nothing was written in epoch 2
	dirty(11, true)
	f, err := c.BeginFlush()
	if err != nil || f.Finish(nil) != nil {
		t.Fatal(err)
	}
	c.Assign(3, 20)
	f.Settle()
	dirty(20, false)
	dirty(21, true)
	c.TruncateFromEnd(15)
	dirty(15, false) // the checkpoint was not asked to have more
	c.TruncateFromStart(5)
	dirty(15, true) // the first one begins elsewhere
	c.Clear()
	dirty(15, true)
	if c, err = Load(fs, testDir); err != nil {
		t.Fatal(err)
	}
	c.TruncateFromEnd(10)
	dirty(10, false) // the checkpoint has an epoch that began at the end
	c.TruncateFromEnd(0)
	dirty(10, true)
	if _, last := c.Latest(); last || !c.Dirty() {
		t.Error("an empty cache is not dirty")
	}
}
