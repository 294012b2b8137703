package wire

import (
	"io"
	"os"
	"sync/atomic"
	"testing"
)

// deafRegion is a file that cannot be read, as one on a bad sector, and notes who tried.
type deafRegion struct {
	fileRegion
	failed atomic.Int32
}

func (r *deafRegion) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.fileRegion.ReadAt(p, off)
	if err != nil {
		r.failed.Add(1)
	}
	return n, err
}

// TestRegionThatCannotBeSentLearnsOfIt: sendfile's error says which end has failed to
// nobody but the connection; the owner of the file hears of it from the region.
func TestRegionThatCannotBeSentLearnsOfIt(t *testing.T) {
	file, _ := randomFile(t, 1<<20)
	unreadable, err := os.OpenFile(file.Name(), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unreadable.Close()
	region := &deafRegion{fileRegion: fileRegion{file: unreadable, len: 1 << 20}}
	r := newSocketRig(t, Options{Handler: regionHandler(region)})
	conn := r.connect()
	mustWrite(t, conn, metadata(1, ""))
	if _, err := readAnswer(conn); err == nil {
		t.Error("an answer whose records cannot be read is complete")
	}
	eventually(t, "the region is released", func() bool { return region.released.Load() == 1 })
	if region.failed.Load() == 0 {
		t.Error("the region has not heard that it could not be read")
	}
}

// TestClientThatLeftIsNotTheFilesFault: nothing is read again for it.
func TestClientThatLeftIsNotTheFilesFault(t *testing.T) {
	file, _ := randomFile(t, 16<<20)
	region := &deafRegion{fileRegion: fileRegion{file: file, len: 16 << 20}}
	r := newSocketRig(t, Options{Handler: regionHandler(region)})
	conn := r.connect()
	mustWrite(t, conn, metadata(1, ""))
	if _, err := io.ReadFull(conn, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the region is released", func() bool { return region.released.Load() == 1 })
	if n := region.reads.Load(); n > 0 {
		t.Errorf("the file is read %d times for a client that has left", n)
	}
}
