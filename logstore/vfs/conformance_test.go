package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// The file systems in memory must do what the operating system does: each case runs
// on all of them in an empty directory.

func TestConformance(t *testing.T) {
	for name, test := range conformance {
		t.Run(name, func(t *testing.T) {
			t.Run("os", func(t *testing.T) { test(t, env{t, OS(), t.TempDir()}) })
			t.Run("mem", func(t *testing.T) { test(t, newEnv(t, NewMem())) })
			t.Run("crash", func(t *testing.T) { test(t, newEnv(t, NewCrash(rand.NewPCG(1, 2)))) })
			t.Run("process", func(t *testing.T) { test(t, newEnv(t, NewCrash(rand.NewPCG(1, 2)).Process())) })
		})
	}
}

var conformance = map[string]func(*testing.T, env){
	"read and write": func(t *testing.T, e env) {
		f := e.open("f", os.O_CREATE|os.O_RDWR)
		e.write(f, 0, "hello")
		e.write(f, 7, "gap")
		e.content("f", "hello\x00\x00gap")
		e.size(f, 10)

		buf := make([]byte, 4)
		n, err := f.ReadAt(buf, 8)
		if n != 2 || !errors.Is(err, io.EOF) {
			t.Errorf("read over the end = %d, %v; want 2, EOF", n, err)
		}
		n, err = f.ReadAt(buf, 100)
		if n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("read beyond the end = %d, %v; want 0, EOF", n, err)
		}
		n, err = f.ReadAt(buf[:0], 0)
		if n != 0 || err != nil {
			t.Errorf("read of nothing = %d, %v; want 0, nil", n, err)
		}
		if _, err := f.ReadAt(buf, -1); err == nil {
			t.Error("read at -1 succeeded")
		}
		if _, err := f.WriteAt(buf, -1); err == nil {
			t.Error("write at -1 succeeded")
		}
	},
	"truncate shrinks, grows with zeros and forgets": func(t *testing.T, e env) {
		f := e.open("f", os.O_CREATE|os.O_RDWR)
		e.write(f, 0, "secret")
		e.ok(f.Truncate(2))
		e.content("f", "se")
		e.ok(f.Truncate(5))
		e.content("f", "se\x00\x00\x00")
		e.write(f, 6, "x")
		e.content("f", "se\x00\x00\x00\x00x")
		if err := f.Truncate(-1); err == nil {
			t.Error("truncation to -1 succeeded")
		}
	},
	"open flags": func(t *testing.T, e env) {
		_, err := e.fs.OpenFile(e.path("f"), os.O_RDWR, 0o644)
		e.is(err, fs.ErrNotExist)
		_, err = e.fs.OpenFile(e.path("no/f"), os.O_RDWR|os.O_CREATE, 0o644)
		e.is(err, fs.ErrNotExist)
		e.write(e.open("f", os.O_CREATE|os.O_EXCL|os.O_WRONLY), 0, "abc")
		_, err = e.fs.OpenFile(e.path("f"), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
		e.is(err, fs.ErrExist)
		e.open("f", os.O_CREATE|os.O_RDWR)
		e.content("f", "abc")
		e.open("f", os.O_RDWR|os.O_TRUNC)
		e.content("f", "")
		_, err = e.fs.OpenFile(e.path("f/below"), os.O_CREATE|os.O_RDWR, 0o644)
		e.failed(err)
		_, err = e.fs.OpenFile(e.dir, os.O_RDWR, 0)
		e.failed(err)
	},
	"handles obey their mode": func(t *testing.T, e env) {
		w := e.open("f", os.O_CREATE|os.O_WRONLY)
		e.write(w, 0, "abc")
		_, err := w.ReadAt(make([]byte, 1), 0)
		e.failed(err)
		r := e.open("f", os.O_RDONLY)
		_, err = r.WriteAt([]byte("x"), 0)
		e.failed(err)
		e.failed(r.Truncate(0))
		_, err = e.open("f", os.O_WRONLY|os.O_APPEND).WriteAt([]byte("x"), 0)
		e.failed(err)
		e.content("f", "abc")
	},
	"closed handles are dead": func(t *testing.T, e env) {
		f := e.open("f", os.O_CREATE|os.O_RDWR)
		e.ok(f.Close())
		_, err := f.WriteAt([]byte("x"), 0)
		e.is(err, os.ErrClosed)
		_, err = f.ReadAt(make([]byte, 1), 0)
		e.is(err, os.ErrClosed)
		e.is(f.Truncate(0), os.ErrClosed)
		e.is(f.Sync(), os.ErrClosed)
		e.is(f.Close(), os.ErrClosed)
		_, err = f.Size()
		e.is(err, os.ErrClosed)
	},
	"an open file outlives its name": func(t *testing.T, e env) {
		f := e.open("f", os.O_CREATE|os.O_RDWR)
		e.write(f, 0, "old")
		e.ok(e.fs.Remove(e.path("f")))
		e.write(e.open("f", os.O_CREATE|os.O_RDWR), 0, "new")
		e.write(f, 3, "er")
		buf := make([]byte, 5)
		if _, err := f.ReadAt(buf, 0); err != nil || string(buf) != "older" {
			t.Errorf("removed file reads %q, %v", buf, err)
		}
		e.content("f", "new")
	},
	"rename replaces": func(t *testing.T, e env) {
		e.create("a", "A")
		e.create("b", "B")
		e.ok(e.fs.Rename(e.path("a"), e.path("b")))
		e.content("b", "A")
		e.list("", "b")
		e.ok(e.fs.Rename(e.path("b"), e.path("b")))
		e.content("b", "A")
		e.is(e.fs.Rename(e.path("a"), e.path("c")), fs.ErrNotExist)
		e.ok(e.fs.MkdirAll(e.path("d/e"), 0o755))
		e.failed(e.fs.Rename(e.path("d"), e.path("d/e/f")))
		e.failed(e.fs.Rename(e.path("b"), e.path("d")))
		e.ok(e.fs.Rename(e.path("b"), e.path("d/e/b")))
		e.ok(e.fs.Rename(e.path("d/e"), e.path("moved")))
		e.content("moved/b", "A")
	},
	"directories": func(t *testing.T, e env) {
		e.ok(e.fs.MkdirAll(e.path("x/y/z"), 0o755))
		e.ok(e.fs.MkdirAll(e.path("x/y"), 0o755))
		e.create("x/b", "12")
		e.create("x/a", "1")
		e.list("x", "a b y/")
		e.failed(e.fs.MkdirAll(e.path("x/a/c"), 0o755))
		e.failed(e.fs.Remove(e.path("x/y")))
		e.ok(e.fs.Remove(e.path("x/y/z")))
		e.is(e.fs.Remove(e.path("x/y/z")), fs.ErrNotExist)
		e.ok(e.fs.RemoveAll(e.path("x")))
		e.ok(e.fs.RemoveAll(e.path("x")))
		e.ok(e.fs.RemoveAll(e.path("no/such")))
		e.list("", "")
		_, err := e.fs.ReadDir(e.path("x"))
		e.is(err, fs.ErrNotExist)
	},
	"stat": func(t *testing.T, e env) {
		e.create("f", "12345")
		info, err := e.fs.Stat(e.path("f"))
		e.ok(err)
		if info.Name() != "f" || info.Size() != 5 || info.IsDir() || info.ModTime().IsZero() {
			t.Errorf("Stat = %s, %d bytes, dir %v", info.Name(), info.Size(), info.IsDir())
		}
		info, err = e.fs.Stat(e.dir)
		e.ok(err)
		if !info.IsDir() {
			t.Error("the directory is none")
		}
		_, err = e.fs.Stat(e.path("no"))
		e.is(err, fs.ErrNotExist)
		_, err = e.fs.Stat(e.path("f/x"))
		e.failed(err)
	},
	"modification time": func(t *testing.T, e env) {
		e.create("f", "12345")
		then := time.UnixMilli(1_700_000_000_123)
		e.ok(e.fs.SetModTime(e.path("f"), then))
		info, err := e.fs.Stat(e.path("f"))
		e.ok(err)
		if !info.ModTime().Equal(then) {
			t.Errorf("ModTime = %v, want %v", info.ModTime(), then)
		}
		e.is(e.fs.SetModTime(e.path("no"), then), fs.ErrNotExist)
	},
	"locks exclude": func(t *testing.T, e env) {
		lock, err := e.fs.Lock(e.path(".lock"))
		e.ok(err)
		_, err = e.fs.Lock(e.path(".lock"))
		e.is(err, ErrLocked)
		e.ok(lock.Close())
		e.is(lock.Close(), os.ErrClosed)
		again, err := e.fs.Lock(e.path(".lock"))
		e.ok(err)
		e.ok(again.Close())
		e.list("", ".lock")
	},
	"syncs": func(t *testing.T, e env) {
		var files []File
		for i := range 6 { // enough for one syncfs
			f := e.open(fmt.Sprint("f", i), os.O_CREATE|os.O_RDWR)
			e.write(f, 0, "x")
			files = append(files, f)
		}
		e.ok(files[0].Sync())
		e.ok(e.fs.SyncDir(e.dir))
		e.is(e.fs.SyncDir(e.path("no")), fs.ErrNotExist)
		syncer, err := e.fs.OpenSyncer(e.dir)
		e.ok(err)
		e.ok(syncer.SyncAll(nil))
		e.ok(syncer.SyncAll(files[:2]))
		e.ok(syncer.SyncAll(files))
		e.ok(syncer.SyncDirs(nil))
		e.ok(syncer.SyncDirs([]string{e.dir, e.path("no")}))
		e.ok(syncer.SyncDirs([]string{e.dir, e.dir, e.dir, e.dir, e.dir}))
		e.ok(syncer.Close())
		_, err = e.fs.OpenSyncer(e.path("no"))
		e.is(err, fs.ErrNotExist)
		e.ok(files[1].Close())
		e.is(syncer.SyncAll(files[1:2]), os.ErrClosed)
	},
	"space": func(t *testing.T, e env) {
		s, err := e.fs.Space(e.dir)
		e.ok(err)
		if s.TotalBytes == 0 || s.AvailBytes > s.TotalBytes {
			t.Errorf("space %+v", s)
		}
		_, err = e.fs.Space(e.path("no"))
		e.is(err, fs.ErrNotExist)
	},
	"helpers": func(t *testing.T, e env) {
		e.ok(WriteFileAtomic(e.fs, e.path("f"), []byte("one, long")))
		e.ok(WriteFileAtomic(e.fs, e.path("f"), []byte("two")))
		e.content("f", "two")
		e.list("", "f")
		_, err := ReadFile(e.fs, e.path("no"))
		e.is(err, fs.ErrNotExist)
		e.is(WriteFileAtomic(e.fs, e.path("no/f"), nil), fs.ErrNotExist)
	},
	"concurrent use": func(t *testing.T, e env) {
		f := e.open("f", os.O_CREATE|os.O_RDWR)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				block := bytes.Repeat([]byte{byte('a' + i)}, 1000)
				for j := range 10 {
					if _, err := f.WriteAt(block, int64(j*8000+i*1000)); err != nil {
						t.Error(err)
					}
				}
				if err := f.Sync(); err != nil {
					t.Error(err)
				}
				if _, err := f.ReadAt(make([]byte, 1000), int64(i*1000)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		data, err := ReadFile(e.fs, e.path("f"))
		e.ok(err)
		for i, b := range data {
			if want := byte('a' + i/1000%8); b != want {
				t.Fatalf("byte %d = %c, want %c", i, b, want)
			}
		}
	},
}

// env is one run: a file system and an empty directory on it.
type env struct {
	t   *testing.T
	fs  FS
	dir string
}

func newEnv(t *testing.T, fsys FS) env {
	e := env{t, fsys, "/data"}
	e.ok(fsys.MkdirAll(e.dir, 0o755))
	return e
}

func (e env) path(name string) string { return filepath.Join(e.dir, name) }

func (e env) open(name string, flag int) File {
	e.t.Helper()
	f, err := e.fs.OpenFile(e.path(name), flag, 0o644)
	e.ok(err)
	e.t.Cleanup(func() { f.Close() })
	return f
}

func (e env) create(name, content string) {
	e.t.Helper()
	f := e.open(name, os.O_CREATE|os.O_TRUNC|os.O_RDWR)
	e.write(f, 0, content)
	e.ok(f.Close())
}

func (e env) write(f File, off int64, text string) {
	e.t.Helper()
	if n, err := f.WriteAt([]byte(text), off); n != len(text) || err != nil {
		e.t.Fatalf("WriteAt = %d, %v", n, err)
	}
}

func (e env) content(name, want string) {
	e.t.Helper()
	got, err := ReadFile(e.fs, e.path(name))
	e.ok(err)
	if string(got) != want {
		e.t.Errorf("%s holds %q, want %q", name, got, want)
	}
}

func (e env) list(dir, want string) {
	e.t.Helper()
	entries, err := e.fs.ReadDir(e.path(dir))
	e.ok(err)
	var names []string
	for _, entry := range entries {
		name := entry.Name()
		if entry.IsDir() {
			name += "/"
		}
		names = append(names, name)
	}
	if got := strings.Join(names, " "); got != want {
		e.t.Errorf("directory holds %q, want %q", got, want)
	}
}

func (e env) size(f File, want int64) {
	e.t.Helper()
	if got, err := f.Size(); err != nil || got != want {
		e.t.Errorf("Size = %d, %v; want %d", got, err, want)
	}
}

func (e env) ok(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

func (e env) is(err, want error) {
	e.t.Helper()
	if !errors.Is(err, want) {
		e.t.Errorf("error %v, want %v", err, want)
	}
}

func (e env) failed(err error) {
	e.t.Helper()
	if err == nil {
		e.t.Error("succeeded")
	}
}
