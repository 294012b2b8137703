package countfs

import (
	"os"
	"testing"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
)

func TestCounts(t *testing.T) {
	c := Wrap(vfs.NewMem())
	f, err := c.OpenFile("/f", os.O_CREATE|os.O_RDWR, 0o644)
	check(t, err)
	_, err = f.WriteAt(make([]byte, 100), 0)
	check(t, err)
	_, err = f.WriteAt(make([]byte, 200), 100)
	check(t, err)
	check(t, f.Sync())
	syncer, err := c.OpenSyncer("/")
	check(t, err)
	check(t, syncer.SyncAll([]vfs.File{f}))

	if got, want := c.String(), "open=2 write=2/300B sync=2 syncall=1"; got != want {
		t.Errorf("counts %q, want %q", got, want)
	}
	if got, want := c.Of(hookfs.Write), (Count{Calls: 2, Bytes: 300}); got != want {
		t.Errorf("writes %+v, want %+v", got, want)
	}

	c.Reset()
	if got := c.String(); got != "" {
		t.Errorf("after Reset %q", got)
	}
	check(t, f.Close())
	if got := c.String(); got != "close=1" {
		t.Errorf("after Close %q", got)
	}
}

// Counting must not cost the fast path: sendfile still finds the descriptor.
func TestFilesShowTheOperatingSystem(t *testing.T) {
	f, err := Wrap(vfs.OS()).OpenFile(t.TempDir()+"/f", os.O_CREATE|os.O_RDWR, 0o644)
	check(t, err)
	defer f.Close()
	if f.OS() == nil {
		t.Error("OS() is nil")
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
