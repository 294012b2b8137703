package checkpoint

import (
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/errfs"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

const testFile = "/d/file"

func newFS(t testing.TB) vfs.FS {
	t.Helper()
	fs := vfs.NewMem()
	if err := fs.MkdirAll("/d", 0o755); err != nil {
		t.Fatal(err)
	}
	return fs
}

func put(t testing.TB, fs vfs.FS, text string) {
	t.Helper()
	if err := vfs.WriteFileAtomic(fs, testFile, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, fs vfs.FS) string {
	t.Helper()
	data, err := vfs.ReadFile(fs, testFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

var testID = uuid.UUID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

func TestOffsetsRoundTrip(t *testing.T) {
	fs := newFS(t)
	want := map[TopicPartition]int64{{"b", 10}: 4711, {"b", 2}: 0, {"a.b-c_d", 0}: 1<<63 - 1}
	if err := WriteOffsets(fs, testFile, want); err != nil {
		t.Fatal(err)
	}
	const text = "0\n3\na.b-c_d 0 9223372036854775807\nb 2 0\nb 10 4711\n"
	if got := withoutSum(get(t, fs)); got != text {
		t.Errorf("file\n%s, want\n%s", got, text)
	}
	got, err := ReadOffsets(fs, testFile)
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if err := WriteOffsets(fs, testFile, nil); err != nil || get(t, fs) != "0\n0\n" {
		t.Errorf("no offsets: %v, %q", err, get(t, fs))
	}
}

func TestFlushedRoundTrip(t *testing.T) {
	fs := newFS(t)
	want := map[TopicIDPartition]int64{{testID, 3}: 5, {testID, 0}: 4711, {uuid.UUID{}, 7}: 0}
	if err := WriteFlushed(fs, testFile, want); err != nil {
		t.Fatal(err)
	}
	const text = "0\n3\nAAAAAAAAAAAAAAAAAAAAAA 7 0\nAQIDBAUGBwgJCgsMDQ4PEA 0 4711\nAQIDBAUGBwgJCgsMDQ4PEA 3 5\ncrc32c f6306bff\n"
	if got := get(t, fs); got != text {
		t.Errorf("file\n%s, want\n%s", got, text)
	}
	got, err := ReadFlushed(fs, testFile)
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestSegmentsRoundTrip(t *testing.T) {
	fs := newFS(t)
	want := map[TopicIDPartition][]Segment{{testID, 3}: {{0, 138, 2}, {2, 70, 3}}, {testID, 0}: {{5, 1, 1<<63 - 1}}}
	if err := WriteSegments(fs, testFile, want); err != nil {
		t.Fatal(err)
	}
	const text = "0\n3\nAQIDBAUGBwgJCgsMDQ4PEA 0 5 1 9223372036854775807\nAQIDBAUGBwgJCgsMDQ4PEA 3 0 138 2\nAQIDBAUGBwgJCgsMDQ4PEA 3 2 70 3\n"
	if got := get(t, fs); got != text+crcLine([]byte(text))+"\n" {
		t.Errorf("file\n%s, want\n%s", got, text)
	}
	got, err := ReadSegments(fs, testFile)
	if err != nil || cmp.Diff(got, want) != "" {
		t.Errorf("%v, %v", got, err)
	}
	var format *FormatError
	for _, bad := range []string{
		"0\n1\nAQIDBAUGBwgJCgsMDQ4PEA 0 5 1\n",
		"0\n1\nAQIDBAUGBwgJCgsMDQ4PEA 0 5 1 x\n",
		"0\n1\n? 0 5 1 6\n",
		"0\n2\nAQIDBAUGBwgJCgsMDQ4PEA 3 2 70 3\nAQIDBAUGBwgJCgsMDQ4PEA 3 0 138 2\n",
	} {
		put(t, fs, bad+crcLine([]byte(bad))+"\n")
		if got, err := ReadSegments(fs, testFile); !errors.As(err, &format) {
			t.Errorf("%q: %v, %v", bad, got, err)
		}
	}
}

// TestFlushedNoticesEveryChange: no byte of the file can change unnoticed, since it
// decides between a torn tail and damage.
func TestFlushedNoticesEveryChange(t *testing.T) {
	mem := newFS(t)
	if err := WriteFlushed(mem, testFile, map[TopicIDPartition]int64{{testID, 3}: 5, {testID, 0}: 4711}); err != nil {
		t.Fatal(err)
	}
	text := get(t, mem)
	for i := range len(text) - 1 { // the last line end may be missing
		for _, bit := range []byte{1, 2, 4, 8, 16, 64} {
			changed := []byte(text)
			changed[i] ^= bit
			put(t, mem, string(changed))
			if got, err := ReadFlushed(mem, testFile); err == nil {
				t.Fatalf("byte %d ^ %d: read %v", i, bit, got)
			}
		}
		put(t, mem, text[:i])
		if got, err := ReadFlushed(mem, testFile); err == nil && i > 0 {
			t.Fatalf("cut to %d bytes: read %v", i, got)
		}
	}
}

func TestEpochsRoundTrip(t *testing.T) {
	fs := newFS(t)
	want := []EpochEntry{{0, 0}, {3, 4711}}
	if err := WriteEpochs(fs, testFile, want); err != nil {
		t.Fatal(err)
	}
	if got := withoutSum(get(t, fs)); got != "0\n2\n0 0\n3 4711\n" {
		t.Errorf("file %q", got)
	}
	got, err := ReadEpochs(fs, testFile)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// TestTolerance: what people and other programs do to text files.
func TestTolerance(t *testing.T) {
	fs := newFS(t)
	if got, err := ReadOffsets(fs, testFile); err != nil || len(got) != 0 {
		t.Errorf("missing file: %v, %v", got, err)
	}
	for name, text := range map[string]string{
		"empty":           "",
		"version alone":   "0\n",
		"no entries":      "0\n0\n",
		"only line ends":  "\n\n",
		"spaces for zero": "  0 \n 0\n",
	} {
		put(t, fs, text)
		if got, err := ReadOffsets(fs, testFile); err != nil || len(got) != 0 {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	want := map[TopicPartition]int64{{"a", 0}: 1, {"b", 1}: 2}
	for name, text := range map[string]string{
		"plain":           "0\n2\na 0 1\nb 1 2\n",
		"Windows":         "0\r\n2\r\na 0 1\r\nb 1 2\r\n",
		"spaces and tabs": "0\n2\n  a   0\t1 \nb 1  2\n\n\n",
	} {
		put(t, fs, text)
		if got, err := ReadOffsets(fs, testFile); err != nil || !maps.Equal(got, want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	put(t, fs, "0\n2\na 0 1\na 0 5\n")
	if got, err := ReadOffsets(fs, testFile); err != nil || got[TopicPartition{"a", 0}] != 5 {
		t.Errorf("a partition twice: %v, %v", got, err)
	}
}

func TestFormatErrors(t *testing.T) {
	offsets := func(fs vfs.FS) error { _, err := ReadOffsets(fs, testFile); return err }
	epochs := func(fs vfs.FS) error { _, err := ReadEpochs(fs, testFile); return err }
	flushed := func(fs vfs.FS) error { _, err := ReadFlushed(fs, testFile); return err }
	metadata := func(fs vfs.FS) error { _, err := ReadPartitionMetadata(fs, testFile); return err }
	for _, c := range []struct {
		read func(vfs.FS) error
		text string
		want string
	}{
		{offsets, "x\n", `/d/file:1: "x" is not a number`},
		{offsets, "-1\n", `/d/file:1: "-1" is not a number`},
		{offsets, "1\n0\n", `/d/file:1: version 1 is not known, want 0`},
		{offsets, "0\n\n\nx\n", `/d/file:2: "" is not a number`},
		{offsets, "0\n99999999999\n", `/d/file:2: "99999999999" is not a number`},
		{offsets, "0\n2\na 0 1\n", `/d/file:3: 2 entries announced, 1 found`},
		{offsets, "0\n1\na 0 1\nb 0 1\n", `/d/file:4: 1 entries announced, 2 found`},
		{offsets, "0\n1\na 0\n", `/d/file:3: "a 0": want topic, partition, offset`},
		{offsets, "0\n2\na 0 1\n\nb 0 1\n", `/d/file:4: "": want topic, partition, offset`},
		{offsets, "0\n1\na x 1\n", `/d/file:3: "a x 1": partition is not a number of 32 bits`},
		{offsets, "0\n1\na 4294967296 1\n", `/d/file:3: "a 4294967296 1": partition is not a number of 32 bits`},
		{offsets, "0\n1\na 0 1e3\n", `/d/file:3: "a 0 1e3": offset is not a number of 64 bits`},
		{epochs, "0\n1\n1 2 3\n", `/d/file:3: "1 2 3": want epoch, start offset`},
		{epochs, "0\n1\nx 2\n", `/d/file:3: "x 2": epoch is not a number of 32 bits`},
		{epochs, "0\n1\n1 x\n", `/d/file:3: "1 x": start offset is not a number of 64 bits`},
		{epochs, "0\n1\n1 -2\n", `/d/file:3: "1 -2": epoch and start offset are never negative`},
		{flushed, "0\n0\n", `/d/file:2: the CRC line is missing`},
		{flushed, "0\n0\ncrc32c 00000000\n", `/d/file:3: "crc32c 00000000" does not fit the lines above, which give "crc32c 2ab4b802"`},
		{flushed, withCRC("0\n1\nxyz 0 1\n"), `/d/file:3: "xyz 0 1": uuid "xyz": want 22 characters of base64url`},
		{flushed, withCRC("0\n1\n0 1\n"), `/d/file:3: "0 1": want topic id, partition, offset`},
		{flushed, withCRC("0\n1\nAQIDBAUGBwgJCgsMDQ4PEA x 1\n"), `/d/file:3: "AQIDBAUGBwgJCgsMDQ4PEA x 1": partition is not a number of 32 bits`},
		{flushed, withCRC("0\n1\nAQIDBAUGBwgJCgsMDQ4PEA 0 x\n"), `/d/file:3: "AQIDBAUGBwgJCgsMDQ4PEA 0 x": offset is not a number of 64 bits`},
		{metadata, "", `/d/file:1: version is missing`},
		{metadata, "version: 0\n", `/d/file:2: topic_id is missing`},
		{metadata, "version: 1\n", `/d/file:1: version "1" is not known, want 0`},
		{metadata, "topic_id: x\n", `/d/file:1: want "version: …", found "topic_id: x"`},
		{metadata, "version: 0\ntopic_id: x\n", `/d/file:2: uuid "x": want 22 characters of base64url`},
		{metadata, "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA\n", `/d/file:2: the topic id is zero`},
	} {
		fs := newFS(t)
		put(t, fs, c.text)
		err := c.read(fs)
		var format *FormatError
		if !errors.As(err, &format) || err.Error() != c.want {
			t.Errorf("%q: %v\nwant %s", c.text, err, c.want)
		}
	}
}

func withCRC(body string) string { return body + crcLine([]byte(body)) + "\n" }

// TestUnreadableFileIsNoEmptyOne: an error of the disk must not look like a first start.
func TestUnreadableFileIsNoEmptyOne(t *testing.T) {
	mem := errfs.Wrap(newFS(t))
	put(t, mem, "0\n0\n")
	mem.Add("read * err=EIO")
	for name, read := range map[string]func() error{
		"offsets":  func() error { _, err := ReadOffsets(mem, testFile); return err },
		"epochs":   func() error { _, err := ReadEpochs(mem, testFile); return err },
		"flushed":  func() error { _, err := ReadFlushed(mem, testFile); return err },
		"metadata": func() error { _, err := ReadPartitionMetadata(mem, testFile); return err },
		"clean":    func() error { _, _, err := ReadCleanShutdown(mem, testFile); return err },
	} {
		if err := read(); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPartitionMetadata(t *testing.T) {
	mem := newFS(t)
	if _, err := ReadPartitionMetadata(mem, testFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if err := WritePartitionMetadata(mem, testFile, testID); err != nil {
		t.Fatal(err)
	}
	if got := get(t, mem); got != "version: 0\ntopic_id: AQIDBAUGBwgJCgsMDQ4PEA\n" {
		t.Errorf("file %q", got)
	}
	if got, err := ReadPartitionMetadata(mem, testFile); err != nil || got != testID {
		t.Errorf("%v, %v", got, err)
	}
}

func TestCleanShutdown(t *testing.T) {
	mem := newFS(t)
	read := func(wantEpoch int64, wantClean bool) {
		t.Helper()
		epoch, clean, err := ReadCleanShutdown(mem, testFile)
		if epoch != wantEpoch || clean != wantClean || err != nil {
			t.Errorf("%d, %v, %v", epoch, clean, err)
		}
	}
	read(-1, false)
	if err := WriteCleanShutdown(mem, testFile, 42); err != nil {
		t.Fatal(err)
	}
	if got := get(t, mem); got != `{"version":0,"brokerEpoch":42}` {
		t.Errorf("file %q", got)
	}
	read(42, true)
	put(t, mem, "") // as Kafka before version 3.7
	read(-1, true)
	put(t, mem, `{"version":0,"brokerEpoch":7,"more":[1]}`)
	read(7, true)
	for range 2 {
		if err := RemoveCleanShutdown(mem, "/d", testFile); err != nil {
			t.Fatal(err)
		}
		read(-1, false)
	}
}

// TestWritesAreAtomic: a power cut at any sync of a write leaves the old content or the
// new, and the new once the write has returned.
func TestWritesAreAtomic(t *testing.T) {
	before := map[TopicPartition]int64{{"t", 0}: 1}
	after := map[TopicPartition]int64{{"t", 0}: 2, {"u", 1}: 3}
	for seed := range uint64(60) {
		crash := vfs.NewCrash(rand.NewPCG(seed, 0))
		crash.SetPageSize(8)
		if err := crash.MkdirAll("/d", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := crash.SyncDir("/"); err != nil {
			t.Fatal(err)
		}
		if err := WriteOffsets(crash, testFile, before); err != nil {
			t.Fatal(err)
		}
		cutAt := crash.SyncPoints() + 1 + int(seed%3)
		crash.OnSync(func(p vfs.SyncPoint) error {
			if p.N == cutAt && !p.Done {
				crash.PowerCut()
			}
			return nil
		})
		err := WriteOffsets(crash.Process(), testFile, after)
		crash.OnSync(nil)
		crash.PowerCut()
		got, readErr := ReadOffsets(crash, testFile)
		switch {
		case readErr != nil:
			t.Fatalf("seed %d: %v", seed, readErr)
		case err == nil && !maps.Equal(got, after):
			t.Fatalf("seed %d: written, but read %v", seed, got)
		case !maps.Equal(got, before) && !maps.Equal(got, after):
			t.Fatalf("seed %d: read %v", seed, got)
		}
	}
}

// FuzzRead: arbitrary bytes are an error or offsets that are written and read back.
func FuzzRead(f *testing.F) {
	f.Add([]byte("0\n1\na 0 1\n"))
	f.Add([]byte("version: 0\ntopic_id: AQIDBAUGBwgJCgsMDQ4PEA\n"))
	f.Add([]byte(withCRC("0\n1\nAQIDBAUGBwgJCgsMDQ4PEA 0 1\n")))
	f.Add([]byte(withCRC("0\n1\nAQIDBAUGBwgJCgsMDQ4PEA 0 1 70 2\n")))
	f.Add([]byte(`{"version":0,"brokerEpoch":42}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		mem := newFS(t)
		put(t, mem, string(data))
		_, _ = ReadEpochs(mem, testFile)
		_, _ = ReadPartitionMetadata(mem, testFile)
		if _, clean, err := ReadCleanShutdown(mem, testFile); !clean || err != nil {
			t.Fatalf("clean %v, %v", clean, err)
		}
		if offsets, err := ReadFlushed(mem, testFile); err == nil {
			if err := WriteFlushed(mem, testFile, offsets); err != nil {
				t.Fatal(err)
			}
			if again, err := ReadFlushed(mem, testFile); err != nil || !maps.Equal(again, offsets) {
				t.Fatalf("%v, %v", again, err)
			}
			put(t, mem, string(data))
		}
		if segments, err := ReadSegments(mem, testFile); err == nil {
			if err := WriteSegments(mem, testFile, segments); err != nil {
				t.Fatal(err)
			}
			if again, err := ReadSegments(mem, testFile); err != nil || cmp.Diff(again, segments) != "" {
				t.Fatalf("%v, %v", again, err)
			}
			put(t, mem, string(data))
		}
		if offsets, err := ReadOffsets(mem, testFile); err == nil {
			if err := WriteOffsets(mem, testFile, offsets); err != nil {
				t.Fatal(err)
			}
			if again, err := ReadOffsets(mem, testFile); err != nil || !maps.Equal(again, offsets) {
				t.Fatalf("%v, %v", again, err)
			}
		}
	})
}
