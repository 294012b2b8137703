package metamorphic

import (
	"flag"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klamm-mq/klamm/logstore/vfs"
)

var writeDir = flag.String("meta.write", "", "add testdata/dirs/NAME-clean and NAME-kill, as this version leaves them")

// TestOldDirectories opens data directories that earlier versions have left, after a
// clean stop and after a kill, and reads what was in them. A change of a format adds
// directories with -meta.write, and keeps the old ones.
func TestOldDirectories(t *testing.T) {
	if *writeDir != "" {
		leave(t, *writeDir+"-clean", Clean)
		leave(t, *writeDir+"-kill", Kill)
	}
	dirs, err := filepath.Glob("testdata/dirs/*")
	if err != nil || len(dirs) == 0 {
		t.Fatal(dirs, err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) { openOld(t, dir) })
	}
}

const wantFile = "want.txt"

func oldConfig() Config {
	c := Plain()
	c.Log.SegmentBytes, c.Log.IndexIntervalBytes = 6000, 600
	return c
}

// leave makes a directory with everything in it.
func leave(t *testing.T, name string, stop Stop) {
	r := newRun(oldConfig())
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	check(r.begin())
	_, err := r.all(Generate(rand.New(rand.NewPCG(7, 7)), 90))
	check(err)
	for producer := range int64(4) { // an open transaction would hide the rest
		_, err = r.endTxn(Op{P: producer})
		check(err)
	}
	want, err := r.read(r.start, 1<<20)
	check(err)
	if stop == Clean {
		check(r.d.Close(r.now, 17))
	} else {
		r.d.Flush()
		r.fs.Kill()
	}
	to := filepath.Join("testdata/dirs", name)
	check(copyTree(r.fs, "/data", vfs.OS(), to))
	check(os.WriteFile(filepath.Join(to, wantFile), []byte(want+"\n"), 0o644))
}

func openOld(t *testing.T, dir string) {
	r := newRun(oldConfig())
	if err := copyTree(vfs.OS(), dir, r.fs, "/data"); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(dir, wantFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.open(); err != nil {
		t.Fatal(err)
	}
	defer r.d.Abandon()
	got, err := r.read(int64(r.l.LogStart()), 1<<20)
	if err != nil || got != strings.TrimSpace(string(want)) {
		t.Errorf("%v\n got %s\nwant %s", err, got, want)
	}
	r.epoch, _ = r.l.LatestEpoch()
	if _, err := r.append(Op{N: 1, P: -1}); err != nil {
		t.Error(err)
	}
	if _, clean := r.d.PreviousBrokerEpoch(); clean != strings.HasSuffix(dir, "-clean") {
		t.Errorf("a clean stop: %v", clean)
	}
}

// copyTree copies a directory between file systems.
func copyTree(from vfs.FS, dir string, to vfs.FS, target string) error {
	entries, err := from.ReadDir(dir)
	if err != nil {
		return err
	}
	if err := to.MkdirAll(target, 0o755); err != nil {
		return err
	}
	for _, e := range entries {
		source, dest := filepath.Join(dir, e.Name()), filepath.Join(target, e.Name())
		if e.IsDir() {
			err = copyTree(from, source, to, dest)
		} else if e.Name() != ".lock" {
			err = copyFile(from, source, to, dest)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from vfs.FS, source string, to vfs.FS, dest string) error {
	data, err := vfs.ReadFile(from, source)
	if err != nil {
		return err
	}
	f, err := to.OpenFile(dest, os.O_CREATE|os.O_TRUNC|os.O_RDWR, fs.FileMode(0o644))
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		return err
	}
	return f.Close()
}
