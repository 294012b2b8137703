package vfs

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestCrashOutcomes plays each scenario of testdata/crash with many seeds, cuts the
// power at its end, and lists every state that the disk was then found in. Pages are
// four bytes, so that they can be seen; everything of the lines above "durable" has
// been synced.
func TestCrashOutcomes(t *testing.T) {
	datadriven.RunTest(t, "testdata/crash", func(t *testing.T, d *datadriven.TestData) string {
		found := map[string]bool{}
		for seed := range uint64(400) {
			s := newScenario(t, seed)
			for line := range strings.Lines(d.Input) {
				s.run(strings.TrimSpace(line))
			}
			s.fs.PowerCut()
			found[s.state()] = true
		}
		var states []string
		for state := range found {
			states = append(states, state)
		}
		slices.Sort(states)
		return strings.Join(states, "\n") + "\n"
	})
}

// scenario runs one line at a time; "A while B" runs B in the midst of the sync A.
type scenario struct {
	t     *testing.T
	fs    *CrashFS
	files map[string]File
}

func newScenario(t *testing.T, seed uint64) *scenario {
	s := &scenario{t: t, fs: NewCrash(rand.NewPCG(seed, 0)), files: map[string]File{}}
	s.fs.SetPageSize(4)
	return s
}

func (s *scenario) run(line string) {
	s.t.Helper()
	first, meanwhile, both := strings.Cut(line, " while ")
	if both {
		s.fs.OnSync(func(p SyncPoint) error {
			if !p.Done {
				s.fs.OnSync(nil)
				s.run(meanwhile)
			}
			return nil
		})
	}
	if err := s.do(strings.Fields(first)); err != nil {
		s.t.Fatalf("%s: %v", line, err)
	}
}

func (s *scenario) do(words []string) error {
	name := func(i int) string { return words[i] }
	switch words[0] {
	case "mkdir":
		return s.fs.MkdirAll(name(1), 0o755)
	case "create":
		return s.create(name(1))
	case "write": // name offset text
		off, err := strconv.ParseInt(words[2], 10, 64)
		if err == nil {
			_, err = s.files[name(1)].WriteAt([]byte(words[3]), off)
		}
		return err
	case "truncate":
		size, err := strconv.ParseInt(words[2], 10, 64)
		if err == nil {
			err = s.files[name(1)].Truncate(size)
		}
		return err
	case "rename":
		s.files[name(2)] = s.files[name(1)]
		return s.fs.Rename(name(1), name(2))
	case "remove":
		return s.fs.Remove(name(1))
	case "atomic": // name text
		return WriteFileAtomic(s.fs, name(1), []byte(words[2]))
	case "durable":
		return s.syncEverything()
	default:
		return s.doSync(words)
	}
}

func (s *scenario) doSync(words []string) error {
	switch words[0] {
	case "sync":
		return s.files[words[1]].Sync()
	case "syncdir":
		return s.fs.SyncDir(words[1])
	case "failing": // sync name | syncdir name
		s.fs.OnSync(func(SyncPoint) error { return syscall.EIO })
		err := s.doSync(words[1:])
		s.fs.OnSync(nil)
		if !errors.Is(err, syscall.EIO) {
			return fmt.Errorf("got %w instead of EIO", err)
		}
		return nil
	case "writeback":
		s.fs.Writeback()
	case "kill":
		s.fs.Kill()
		return s.reopen()
	case "cut":
		s.fs.PowerCutLosingAll()
		return s.reopen()
	default:
		return fmt.Errorf("unknown command %q", words[0])
	}
	return nil
}

func (s *scenario) create(name string) error {
	f, err := s.fs.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	s.files[name] = f
	return err
}

// reopen is what a new process does with the files it finds.
func (s *scenario) reopen() error {
	for name := range s.files {
		f, err := s.fs.OpenFile(name, os.O_RDWR, 0)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		s.files[name] = f
	}
	return nil
}

func (s *scenario) syncEverything() error {
	for _, f := range s.files {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return walk(s.fs, "/", func(name string, isDir bool) error {
		if !isDir {
			return nil
		}
		return s.fs.SyncDir(name)
	})
}

// state is the whole tree on one line.
func (s *scenario) state() string {
	var parts []string
	err := walk(s.fs, "/", func(name string, isDir bool) error {
		switch {
		case name == "/":
		case isDir:
			parts = append(parts, name+"/")
		default:
			data, err := ReadFile(s.fs, name)
			if err != nil {
				return err
			}
			text := strings.ReplaceAll(string(data), "\x00", ".")
			parts = append(parts, fmt.Sprintf("%s=%q", name, text))
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	if len(parts) == 0 {
		return "(nothing)"
	}
	return strings.Join(parts, " ")
}

func walk(fsys FS, dir string, visit func(name string, isDir bool) error) error {
	if err := visit(dir, true); err != nil {
		return err
	}
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := strings.TrimSuffix(dir, "/") + "/" + entry.Name()
		if entry.IsDir() {
			err = walk(fsys, name, visit)
		} else {
			err = visit(name, false)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func TestKillLeavesBytesButNoHandle(t *testing.T) {
	c := NewCrash(rand.NewPCG(1, 1))
	process := c.Process()
	f, err := process.OpenFile("/f", os.O_CREATE|os.O_RDWR, 0o644)
	check(t, err)
	_, err = f.WriteAt([]byte("written"), 0)
	check(t, err)
	lock, err := process.Lock("/lock")
	check(t, err)
	syncer, err := process.OpenSyncer("/")
	check(t, err)

	c.Kill()

	calls := map[string]func() error{
		"ReadAt":     func() error { _, err := f.ReadAt(make([]byte, 1), 0); return err },
		"WriteAt":    func() error { _, err := f.WriteAt([]byte("x"), 0); return err },
		"Size":       func() error { _, err := f.Size(); return err },
		"Truncate":   func() error { return f.Truncate(0) },
		"Sync":       func() error { return f.Sync() },
		"Close":      func() error { return f.Close() },
		"SyncAll":    func() error { return syncer.SyncAll([]File{f}) },
		"SyncDirs":   func() error { return syncer.SyncDirs([]string{"/"}) },
		"unlock":     func() error { return lock.Close() },
		"OpenFile":   func() error { _, err := process.OpenFile("/f", os.O_RDWR, 0); return err },
		"MkdirAll":   func() error { return process.MkdirAll("/d", 0o755) },
		"Remove":     func() error { return process.Remove("/f") },
		"RemoveAll":  func() error { return process.RemoveAll("/f") },
		"Rename":     func() error { return process.Rename("/f", "/g") },
		"Stat":       func() error { _, err := process.Stat("/f"); return err },
		"ReadDir":    func() error { _, err := process.ReadDir("/"); return err },
		"SyncDir":    func() error { return process.SyncDir("/") },
		"OpenSyncer": func() error { _, err := process.OpenSyncer("/"); return err },
		"Lock":       func() error { _, err := process.Lock("/lock"); return err },
		"Space":      func() error { _, err := process.Space("/"); return err },
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, ErrCrashed) {
			t.Errorf("%s after the kill: %v", name, err)
		}
	}

	data, err := ReadFile(c, "/f")
	check(t, err)
	if string(data) != "written" {
		t.Errorf("file holds %q", data)
	}
	_, err = c.Process().Lock("/lock")
	check(t, err)
}

// A hook can end the process at any sync point, before or after the bytes are safe.
func TestPowerCutAtTheNthSync(t *testing.T) {
	tests := []struct {
		n    int
		done bool
		want string
	}{
		{1, false, "(nothing)"},
		{1, true, "(nothing)"}, // synced, but its name is not
		{2, false, "(nothing)"},
		{2, true, `/f="one"`},
		{3, false, `/f="one"`},
		{3, true, `/f="onetwo"`},
	}
	for _, test := range tests {
		s := newScenario(t, 7)
		s.fs.OnSync(func(p SyncPoint) error {
			if p.N == test.n && p.Done == test.done {
				s.fs.PowerCutLosingAll()
			}
			return nil
		})
		err := func() error {
			for _, line := range []string{"create /f", "write /f 0 one", "sync /f", "syncdir /", "write /f 3 two", "sync /f"} {
				if err := s.do(strings.Fields(line)); err != nil {
					return err
				}
			}
			return nil
		}()
		if !errors.Is(err, ErrCrashed) {
			t.Errorf("cut at sync %d: the process went on to %v", test.n, err)
		}
		if got := s.state(); got != test.want {
			t.Errorf("cut at sync %d, done %v: %s, want %s", test.n, test.done, got, test.want)
		}
		if got := s.fs.SyncPoints(); got != test.n {
			t.Errorf("%d sync points, want %d", got, test.n)
		}
	}
}

// A sync that takes time promises what was written before it began, no more, and
// blocks nobody else meanwhile.
func TestSyncTakesVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScenario(t, 1)
		s.run("create /f")
		s.run("syncdir /")
		s.run("write /f 0 before")
		s.fs.OnSync(func(p SyncPoint) error {
			if !p.Done {
				<-time.After(5 * time.Millisecond)
			}
			return nil
		})
		start := time.Now()
		done := make(chan error)
		go func() { done <- s.files["/f"].Sync() }()
		synctest.Wait()
		s.run("write /f 6 meanwhile")
		check(t, <-done)
		if took := time.Since(start); took != 5*time.Millisecond {
			t.Errorf("the sync took %v", took)
		}
		s.fs.PowerCutLosingAll()
		if got, want := s.state(), `/f="before"`; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// Of two syncs of one file the later may end first; the earlier then changes nothing.
func TestSyncsEndOutOfOrder(t *testing.T) {
	s := newScenario(t, 1)
	s.run("create /f")
	s.run("syncdir /")
	s.run("write /f 0 old")
	s.fs.OnSync(func(p SyncPoint) error {
		if p.N == 2 && !p.Done {
			s.run("write /f 0 new")
			s.run("sync /f")
		}
		return nil
	})
	s.run("sync /f")
	s.fs.PowerCutLosingAll()
	if got, want := s.state(), `/f="new"`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestFullFileSystemStoresWhatFits(t *testing.T) {
	for name, fsys := range map[string]interface {
		FS
		SetCapacity(int64)
	}{"mem": NewMem(), "crash": NewCrash(rand.NewPCG(1, 1))} {
		t.Run(name, func(t *testing.T) {
			fsys.SetCapacity(10)
			f, err := fsys.OpenFile("/f", os.O_CREATE|os.O_RDWR, 0o644)
			check(t, err)
			_, err = f.WriteAt([]byte("12345678"), 0)
			check(t, err)
			n, err := f.WriteAt([]byte("abcd"), 8)
			if n != 2 || !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("WriteAt = %d, %v; want 2, ENOSPC", n, err)
			}
			n, err = f.WriteAt([]byte("XY"), 0)
			if n != 2 || err != nil {
				t.Errorf("overwrite = %d, %v", n, err)
			}
			if err := f.Truncate(11); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("growing truncation: %v", err)
			}
			if s, err := fsys.Space("/"); err != nil || s != (Space{TotalBytes: 10}) {
				t.Errorf("space %+v, %v", s, err)
			}
			check(t, f.Truncate(3))
			if s, _ := fsys.Space("/"); s.AvailBytes != 7 {
				t.Errorf("after truncation %+v", s)
			}
			check(t, fsys.Remove("/f"))
			if s, _ := fsys.Space("/"); s.AvailBytes != 10 {
				t.Errorf("after removal %+v", s)
			}
		})
	}
}

// The same seed and the same calls leave the same disk.
func TestCrashIsReproducible(t *testing.T) {
	play := func() string {
		s := newScenario(t, 99)
		for i := range 20 {
			s.run(fmt.Sprintf("create /%d", i))
			s.run(fmt.Sprintf("write /%d 0 aaaabbbbccccdddd", i))
			if i%7 == 0 {
				s.run("writeback")
			}
		}
		s.fs.PowerCut()
		return s.state()
	}
	if a, b := play(), play(); a != b {
		t.Errorf("two runs differ:\n%s\n%s", a, b)
	}
}

func TestClockStampsFiles(t *testing.T) {
	c := NewCrash(rand.NewPCG(1, 1))
	then := time.Unix(1_700_000_000, 0)
	c.SetClock(func() time.Time { return then })
	_, err := c.OpenFile("/f", os.O_CREATE|os.O_RDWR, 0o644)
	check(t, err)
	info, err := c.Stat("/f")
	check(t, err)
	if !info.ModTime().Equal(then) {
		t.Errorf("ModTime = %v", info.ModTime())
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
