package raftstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"

	"github.com/klamm-mq/klamm/logstore/vfs"
)

func openSnapshots(t *testing.T, fsys vfs.FS) *Snapshots {
	t.Helper()
	s, err := OpenSnapshots(fsys, "/d/snapshots", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newDir(t *testing.T, fsys vfs.FS) {
	t.Helper()
	if err := errors.Join(fsys.MkdirAll("/d", 0o755), fsys.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
}

var servers = raft.Configuration{Servers: []raft.Server{{ID: "1/x", Address: "a:1"}, {Suffrage: raft.Nonvoter, ID: "2/y", Address: "b:2"}}}

// write makes a snapshot at index, in pieces.
func write(s *Snapshots, index uint64, payload []byte) error {
	sink, err := s.Create(1, index, index/10, servers, index-1, nil)
	if err != nil {
		return err
	}
	for piece := range slices.Chunk(payload, 1000) {
		if _, err := sink.Write(piece); err != nil {
			return errors.Join(err, sink.Cancel())
		}
	}
	return sink.Close()
}

func bytesOf(index uint64) []byte { return bytes.Repeat([]byte{byte(index)}, 5000+int(index)) }

// indexes lists the snapshots and checks that each of them can be read as it was written.
func indexes(t *testing.T, s *Snapshots) (list []uint64) {
	t.Helper()
	metas, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, listed := range metas {
		meta, payload, err := s.Open(listed.ID)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(payload)
		if err := errors.Join(err, payload.Close()); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, bytesOf(meta.Index)) {
			t.Fatalf("snapshot %s: %d bytes", meta.ID, len(got))
		}
		want := raft.SnapshotMeta{
			Version: 1, ID: listed.ID, Index: meta.Index, Term: meta.Index / 10,
			Configuration: servers, ConfigurationIndex: meta.Index - 1, Size: int64(len(got)),
		}
		if diff := cmp.Diff(want, *meta) + cmp.Diff(meta, listed); diff != "" {
			t.Fatal(diff)
		}
		list = append(list, meta.Index)
	}
	return list
}

func TestSnapshotsKeepTheNewestTwo(t *testing.T) {
	mem := vfs.NewMem()
	newDir(t, mem)
	s := openSnapshots(t, mem)
	if got := indexes(t, s); len(got) != 0 {
		t.Errorf("empty store has %v", got)
	}
	for _, index := range []uint64{20, 30, 40, 25} {
		if err := write(s, index, bytesOf(index)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if diff := cmp.Diff([]uint64{40, 30}, indexes(t, s)); diff != "" {
			t.Error(diff)
		}
		s = openSnapshots(t, mem)
	}
	sink, err := s.Create(1, 50, 5, servers, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := sink.Cancel(); err != nil {
		t.Error(err)
	}
	if err := errors.Join(sink.Close(), sink.Cancel()); err != nil {
		t.Errorf("after Cancel: %v", err)
	}
	if diff := cmp.Diff([]uint64{40, 30}, indexes(t, s)); diff != "" {
		t.Error(diff)
	}
	if _, err := s.Create(0, 50, 5, servers, 1, nil); err == nil {
		t.Error("created one of an old version")
	}
}

// Each flipped bit and each missing byte is noticed, and the older snapshot is still there.
func TestDamagedSnapshot(t *testing.T) {
	mem := vfs.NewMem()
	newDir(t, mem)
	s := openSnapshots(t, mem)
	for _, index := range []uint64{20, 30} {
		if err := write(s, index, bytesOf(index)); err != nil {
			t.Fatal(err)
		}
	}
	metas, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	name := s.name(metas[0].ID)
	whole, err := vfs.ReadFile(mem, name)
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, damaged []byte) {
		t.Helper()
		if err := vfs.WriteFileAtomic(mem, name, damaged); err != nil {
			t.Fatal(err)
		}
		if _, r, err := s.Open(metas[0].ID); err == nil {
			t.Fatalf("%s was not noticed: %v", what, r.Close())
		} else if corrupt := new(CorruptionError); !errors.As(err, &corrupt) || corrupt.File != name {
			t.Fatalf("%s: %v", what, err)
		}
		list, err := s.List()
		if err != nil || len(list) == 0 || list[len(list)-1].Index != 20 {
			t.Fatalf("%s: list %v, %v", what, list, err)
		}
	}
	for pos := range whole {
		damaged := bytes.Clone(whole)
		damaged[pos] ^= 1 << (pos % 8)
		try(fmt.Sprint("flipped bit at ", pos), damaged)
	}
	for _, size := range []int{0, 1, 15, 16, 17, 100, len(whole) - 13, len(whole) - 1} {
		try(fmt.Sprint("only bytes ", size), whole[:size])
	}
	try("one more byte", append(bytes.Clone(whole), 0))
}

// A snapshot exists as a whole or not at all, and once Close has returned it exists.
func TestSnapshotAndPowerCut(t *testing.T) {
	for seed := range uint64(200) {
		disk := vfs.NewCrash(rand.NewPCG(seed, 1))
		newDir(t, disk)
		cutAt := 1 + int(seed)%8
		s := openSnapshots(t, disk.Process())
		points := 0
		disk.OnSync(func(vfs.SyncPoint) error {
			if points++; points == cutAt {
				disk.PowerCut()
			}
			return nil
		})
		var done []uint64
		for _, index := range []uint64{20, 30, 40, 50, 60} {
			if write(s, index, bytesOf(index)) == nil {
				done = append(done, index)
			}
		}
		disk.OnSync(nil)
		s = openSnapshots(t, disk.Process())
		got := indexes(t, s)
		if n := len(done); n > 0 && (len(got) == 0 || got[0] < done[n-1]) {
			t.Fatalf("seed %d: finished %v, found %v", seed, done, got)
		}
		entries, err := disk.ReadDir("/d/snapshots")
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) != len(got) {
			t.Fatalf("seed %d: files %v, snapshots %v", seed, entries, got)
		}
	}
}

func TestSnapshotOnAFullDisk(t *testing.T) {
	disk := vfs.NewCrash(rand.NewPCG(1, 1))
	newDir(t, disk)
	s := openSnapshots(t, disk)
	if err := write(s, 20, bytesOf(20)); err != nil {
		t.Fatal(err)
	}
	disk.SetCapacity(8000)
	if err := write(s, 30, bytesOf(30)); err == nil {
		t.Error("wrote a snapshot that does not fit")
	}
	if diff := cmp.Diff([]uint64{20}, indexes(t, s)); diff != "" {
		t.Error(diff)
	}
	if entries, err := disk.ReadDir("/d/snapshots"); err != nil || len(entries) != 1 {
		t.Errorf("files %v, %v", entries, err)
	}
}

// damage overwrites bytes of a file.
func damage(t *testing.T, fsys vfs.FS, name string, pos int64, b []byte) {
	t.Helper()
	file, err := fsys.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteAt(b, pos)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}

// A bad frame that a later one knows to have been synced is damage; one that no sync can
// have covered is a torn tail.
func TestTornTailAndDamage(t *testing.T) {
	open := func() (*vfs.MemFS, Store) {
		mem := vfs.NewMem()
		newDir(t, mem)
		s, err := OpenFiles(mem, "/d/raft")
		if err != nil {
			t.Fatal(err)
		}
		return mem, s
	}
	name := segmentName("/d/raft", 1)

	mem, s := open() // entries 1 to 3, then 4 to 6 in one write
	if err := errors.Join(s.StoreLogs(entries(1, 1, 3)), s.StoreLogs(entries(1, 4, 6))); err != nil {
		t.Fatal(err)
	}
	at := s.(*fileStore).segments[0].pos
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	damage(t, mem, name, at[4]+20, []byte{0xee}) // 5: its sync may not have been reached
	s, err := OpenFiles(mem, "/d/raft")
	if err != nil {
		t.Fatal(err)
	}
	if last, _ := s.LastIndex(); last != 4 {
		t.Errorf("last index %d after a torn tail", last)
	}
	if err := errors.Join(s.StoreLogs(entries(2, 5, 7)), s.StoreLogs(entries(2, 8, 8)), s.Close()); err != nil {
		t.Fatal(err)
	}
	damage(t, mem, name, at[1]+20, []byte{0xee}) // 2: entry 4 was written after its sync
	_, err = OpenFiles(mem, "/d/raft")
	if corrupt := new(CorruptionError); !errors.As(err, &corrupt) || corrupt.Pos != at[1] || corrupt.File != name {
		t.Errorf("damage: %v", err)
	}
}

// Whatever a segment holds: it opens with what is sound, or with an error, and what opened
// can be appended to.
func FuzzOpenSegment(f *testing.F) {
	var frames []byte
	for _, l := range entries(3, 1, 4) {
		frames = appendFrame(frames, l.Index-1, l)
	}
	f.Add(frames)
	f.Add(frames[:len(frames)-3])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		mem := vfs.NewMem()
		newDir(t, mem)
		if err := mem.MkdirAll("/d/raft", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := vfs.WriteFileAtomic(mem, segmentName("/d/raft", 1), b); err != nil {
			t.Fatal(err)
		}
		s, err := OpenFiles(mem, "/d/raft")
		if err != nil {
			return
		}
		last, _ := s.LastIndex()
		if err := errors.Join(s.StoreLogs(entries(9, last+1, last+2)), s.Close()); err != nil {
			t.Fatal(err)
		}
		if s, err = OpenFiles(mem, "/d/raft"); err != nil {
			t.Fatal(err)
		}
		if again, _ := s.LastIndex(); again != last+2 {
			t.Fatalf("last index %d, want %d", again, last+2)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// A write that fails leaves nothing behind, at once or with the next write, even if the
// next entries have the same size as those that failed.
func TestFailedAppendLeavesNothing(t *testing.T) {
	disk := vfs.NewCrash(rand.NewPCG(1, 1))
	newDir(t, disk)
	s, err := OpenFiles(disk, "/d/raft")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.StoreLogs(entries(1, 1, 3)); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("device is gone")
	disk.OnSync(func(vfs.SyncPoint) error { return broken })
	if err := s.StoreLogs(entries(1, 4, 8)); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	disk.OnSync(nil)
	if last, _ := s.LastIndex(); last != 3 {
		t.Errorf("last index %d", last)
	}
	if err := errors.Join(s.StoreLogs(entries(1, 4, 5)), s.Close()); err != nil {
		t.Fatal(err)
	}
	if s, err = OpenFiles(disk, "/d/raft"); err != nil {
		t.Fatal(err)
	}
	if last, _ := s.LastIndex(); last != 5 {
		t.Errorf("last index %d after opening again", last)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
