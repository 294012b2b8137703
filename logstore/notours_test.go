package logstore

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/klamm-mq/klamm/logstore/vfs"
)

// What only has a name like a partition's is somebody else's, for instance where a home
// directory was given as the log directory: nothing of it is renamed or deleted. A
// creation that a crash has torn goes, and a segment with records is set aside.
func TestDirectoriesOfOthersAreLeftAlone(t *testing.T) {
	for name, c := range map[string]struct {
		files []string // ending in "/": a directory; "+" in front: with a byte
		want  string   // left, removed or stray
	}{
		"photos":                   {[]string{"+cat.jpg", "album/"}, "left"},
		"only a directory":         {[]string{"album/"}, "left"},
		"a log of somebody's":      {[]string{"+server.log"}, "left"},
		"one of ours, and another": {[]string{"leader-epoch-checkpoint", "+notes.txt"}, "left"},
		"nothing":                  {nil, "removed"},
		"torn creation":            {[]string{"00000000000000000000.log", "00000000000000000000.index", "partition.metadata.tmp"}, "removed"},
		"records":                  {[]string{"+00000000000000000000.log", "00000000000000000007.snapshot"}, "stray"},
		"a segment among others":   {[]string{"00000000000000000000.log", "+notes.txt"}, "stray"},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			o := testOptions(fs)
			dir := o.Path + "/photos-2024"
			if err := fs.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			for _, file := range c.files {
				putFile(t, fs, dir+"/", file)
			}
			d, report := mustOpen(t, o, epochTime, DefaultConfig())
			defer d.Abandon()
			before := namesIn(t, fs, o.Path)
			d.removeRetired(epochTime)
			after := namesIn(t, fs, o.Path)
			got := "removed"
			switch {
			case slices.Contains(after, "photos-2024"):
				got = "left"
			case len(report.SetAside) == 1 && slices.Contains(after, report.SetAside[0]):
				got = "stray"
			}
			if got != c.want {
				t.Errorf("%s, want %s; %q, then %q", got, c.want, before, after)
			}
			if got == "left" && len(namesIn(t, fs, dir)) != len(c.files) {
				t.Errorf("left with %q of %q", namesIn(t, fs, dir), c.files)
			}
		})
	}
}

func putFile(t *testing.T, fs vfs.FS, prefix, file string) {
	t.Helper()
	name, content := strings.CutPrefix(file, "+") // content: with a byte
	if dir, ok := strings.CutSuffix(name, "/"); ok {
		if err := fs.MkdirAll(prefix+dir, 0o755); err != nil {
			t.Fatal(err)
		}
		return
	}
	f, err := fs.OpenFile(prefix+name, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !content {
		return
	}
	if _, err := f.WriteAt([]byte("x"), 0); err != nil {
		t.Fatal(err)
	}
}

func namesIn(t *testing.T, fs vfs.FS, dir string) (names []string) {
	t.Helper()
	entries, err := fs.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// What looks like a partition's directory tells a used log directory from a new one.
func TestFirstPartition(t *testing.T) {
	fs := vfs.NewMem()
	o := testOptions(fs)
	d, _ := mustOpen(t, o, epochTime, DefaultConfig())
	defer d.Abandon()
	first := func() string {
		t.Helper()
		name, err := d.FirstPartition()
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, dir := range []string{"/photos-2024", "/album", "/t-0.482dc5302a9365e6426a5dcd09fee937-stray"} {
		if err := fs.MkdirAll(o.Path+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	putFile(t, fs, o.Path+"/photos-2024/", "+cat.jpg")
	if got := first(); got != "" {
		t.Errorf("%q in a directory without partitions", got)
	}
	mustBear(t, d, testID("t", 3), DefaultConfig())
	if got := first(); got != "t-3" {
		t.Errorf("%q, want t-3", got)
	}
}
