package checkpoint

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/klamm-mq/klamm/logstore/vfs"
)

// withoutSum is a file as Kafka writes it.
func withoutSum(text string) string {
	return strings.TrimRight(text, " \t\n") + "\n"
}

// TestChangedBitsAreFound in the files whose format is Kafka's: what can be read is what was
// written. So it is with what is cut off; and a file without checksum is believed.
func TestChangedBitsAreFound(t *testing.T) {
	offsets := map[TopicPartition]int64{{"a", 0}: 4711, {"b-c", 12}: 9}
	epochs := []EpochEntry{{0, 0}, {3, 4711}}
	for name, file := range map[string]struct {
		write func(vfs.FS) error
		same  func(vfs.FS) (bool, error)
	}{
		"offsets": {
			func(fs vfs.FS) error { return WriteOffsets(fs, testFile, offsets) },
			func(fs vfs.FS) (bool, error) {
				got, err := ReadOffsets(fs, testFile)
				return maps.Equal(got, offsets), err
			},
		},
		"epochs": {
			func(fs vfs.FS) error { return WriteEpochs(fs, testFile, epochs) },
			func(fs vfs.FS) (bool, error) {
				got, err := ReadEpochs(fs, testFile)
				return slices.Equal(got, epochs), err
			},
		},
	} {
		fs := newFS(t)
		if err := file.write(fs); err != nil {
			t.Fatal(err)
		}
		whole := []byte(get(t, fs))
		want := func(what string, content []byte) {
			t.Helper()
			put(t, fs, string(content))
			if same, err := file.same(fs); err == nil && !same {
				t.Errorf("%s, %s: %q is believed", name, what, content)
			}
		}
		for i := range whole {
			for bit := range 8 {
				changed := bytes.Clone(whole)
				changed[i] ^= 1 << bit
				want("a flipped bit", changed)
			}
			if i > 3 { // as in Kafka nothing, or a version alone, are no entries
				want("cut off", whole[:i])
			}
		}
		put(t, fs, withoutSum(string(whole)))
		if same, err := file.same(fs); err != nil || !same {
			t.Errorf("%s without checksum: %v", name, err)
		}
	}
}
