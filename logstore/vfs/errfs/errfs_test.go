package errfs

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/klamm-mq/klamm/logstore/vfs"
)

func TestRules(t *testing.T) {
	tests := []struct {
		rule  string
		calls string // calls on the file system, see script
		want  string // for each call "." or the error
	}{
		{"write /a/*.log nth=3 err=ENOSPC", "w/a/1.log w/a/2.log w/a/1.log w/a/1.log", ". . no-space ."},
		{"write /a/*.log nth=1", "w/a/b/1.log w/b/1.log w/a/1.index w/a/1.log", ". . . io"},
		{"write *.log from=2", "w/a/1.log w/b/1.log w/b/1.log", ". io io"},
		{"sync dir=/d1", "s/d1/x s/d1/y/z s/d10/x s/d2/x", "io io . ."},
		{"sync dir=/", "s/x", "io"},
		{"syncdir /d1", "D/d1 D/d2", "io ."},
		{"rename *.new", "R/a>/b.new R/b.new>/a R/a>/b", "io io ."},
		{"any nth=2 err=EACCES", "w/a s/a w/a", ". permission ."},
		{"read", "r/a w/a", "io ."},
		{"open /x err=ENOENT", "o/x o/y", "not-found ."},
		{"sync /b", "G/a,/b G/a", "io ."},
		{"syncall /", "G/a G/b", "io io"},
		{"lock", "L/l", "io"},
		{"any", "o/x w/a r/a s/a t/a z/a D/d1 R/a>/b m/d m! d/ S/a x/a X/a L/l p/ G/a c/a", "io io io io io io io io io io io io io io io io io io"},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			inner := vfs.NewMem()
			e := Wrap(inner)
			s := newScript(t, e, test.calls)
			e.Add(test.rule)
			if got := s.run(); got != test.want {
				t.Errorf("calls %s\n got %s\nwant %s", test.calls, got, test.want)
			}
			if got, want := e.Fired(), failures(test.want); got != want {
				t.Errorf("Fired = %d, want %d", got, want)
			}
			e.Clear()
			if _, err := e.Stat("/"); err != nil {
				t.Errorf("after Clear: %v", err)
			}
		})
	}
}

func TestPartialReadAndWrite(t *testing.T) {
	e := Wrap(vfs.NewMem())
	f, err := e.OpenFile("/f", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	e.Add("write /f nth=1 partial=3 err=ENOSPC")
	e.Add("read /f nth=1 partial=2")
	n, err := f.WriteAt([]byte("abcdef"), 0)
	if n != 3 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("WriteAt = %d, %v; want 3, ENOSPC", n, err)
	}
	buf := make([]byte, 3)
	n, err = f.ReadAt(buf, 0)
	if n != 2 || !errors.Is(err, syscall.EIO) || string(buf[:2]) != "ab" {
		t.Errorf("ReadAt = %d %q, %v; want 2 ab, EIO", n, buf, err)
	}
	if n, err = f.ReadAt(buf, 0); n != 3 || err != nil || string(buf) != "abc" {
		t.Errorf("second ReadAt = %d %q, %v", n, buf, err)
	}
}

// A file that was made to fail at Close is closed all the same.
func TestFailingCloseCloses(t *testing.T) {
	e := Wrap(vfs.NewMem(), "close")
	f, err := e.OpenFile("/f", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("Close = %v", err)
	}
	e.Clear()
	if err := f.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("second Close = %v", err)
	}
}

// Nobody can read around the rules.
func TestFilesHideTheOperatingSystem(t *testing.T) {
	f, err := Wrap(vfs.OS()).OpenFile(t.TempDir()+"/f", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.OS() != nil {
		t.Error("OS() is not nil")
	}
}

func TestBadRulesPanic(t *testing.T) {
	for _, rule := range []string{"", "wirte /a", "write nth=x", "write err=EWHAT", "write color=red", "write [", "write partial=", "write from="} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("rule %q was accepted", rule)
				}
			}()
			Wrap(vfs.NewMem(), rule)
		}()
	}
}

// script makes calls given as a letter and names: w write, r read, s sync, t truncate,
// z size, c close (of a file), G group commit, o open, m mkdir, m! open a syncer,
// d list, D sync directory, S stat, x remove, X remove all, L lock, p space, R rename.
type script struct {
	t      *testing.T
	fs     vfs.FS
	calls  []string
	files  map[string]vfs.File
	syncer vfs.Syncer
}

// newScript makes what the calls name, before the rule is added.
func newScript(t *testing.T, fsys vfs.FS, calls string) *script {
	s := &script{t: t, fs: fsys, calls: strings.Fields(calls), files: map[string]vfs.File{}}
	s.must(fsys.MkdirAll("/d1", 0o755))
	s.must(fsys.MkdirAll("/d2", 0o755))
	for _, call := range s.calls {
		if !strings.Contains("wrstzcxGR", call[:1]) {
			continue
		}
		for _, name := range strings.FieldsFunc(call[1:], func(r rune) bool { return r == ',' || r == '>' }) {
			s.open(name)
		}
	}
	var err error
	s.syncer, err = fsys.OpenSyncer("/")
	s.must(err)
	return s
}

func (s *script) open(name string) {
	s.must(s.fs.MkdirAll(name[:strings.LastIndex(name, "/")+1], 0o755))
	f, err := s.fs.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	s.must(err)
	_, err = f.WriteAt([]byte("x"), 0)
	s.must(err)
	s.files[name] = f
}

func (s *script) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *script) run() string {
	var out []string
	for _, call := range s.calls {
		out = append(out, verdict(s.call(call[0], call[1:])))
	}
	return strings.Join(out, " ")
}

func (s *script) call(letter byte, name string) (err error) {
	f := s.files[name]
	switch letter {
	case 'w':
		_, err = f.WriteAt([]byte("x"), 0)
	case 'r':
		_, err = f.ReadAt(make([]byte, 1), 0)
	case 's':
		err = f.Sync()
	case 't':
		err = f.Truncate(1)
	case 'z':
		_, err = f.Size()
	case 'c':
		err = f.Close()
	default:
		err = s.callFS(letter, name)
	}
	return err
}

func (s *script) callFS(letter byte, name string) (err error) {
	switch letter {
	case 'o':
		_, err = s.fs.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	case 'm':
		if name == "!" {
			_, err = s.fs.OpenSyncer("/")
			break
		}
		err = s.fs.MkdirAll(name, 0o755)
	case 'd':
		_, err = s.fs.ReadDir(name)
	case 'D':
		err = s.fs.SyncDir(name)
	case 'S':
		_, err = s.fs.Stat(name)
	case 'x':
		err = s.fs.Remove(name)
	case 'X':
		err = s.fs.RemoveAll(name)
	case 'L':
		_, err = s.fs.Lock(name)
	case 'p':
		_, err = s.fs.Space(name)
	case 'R':
		from, to, _ := strings.Cut(name, ">")
		err = s.fs.Rename(from, to)
	case 'G':
		var files []vfs.File
		for _, name := range strings.Split(name, ",") {
			files = append(files, s.files[name])
		}
		err = s.syncer.SyncAll(files)
	}
	return err
}

func verdict(err error) string {
	switch {
	case err == nil:
		return "."
	case errors.Is(err, syscall.EIO):
		return "io"
	case errors.Is(err, syscall.ENOSPC):
		return "no-space"
	case errors.Is(err, os.ErrPermission):
		return "permission"
	case errors.Is(err, os.ErrNotExist):
		return "not-found"
	}
	return err.Error()
}

func failures(verdicts string) (n int) {
	for _, v := range strings.Fields(verdicts) {
		if v != "." {
			n++
		}
	}
	return n
}
