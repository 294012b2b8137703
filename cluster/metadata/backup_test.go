package metadata

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/klamm-mq/klamm/protocol/uuid"
)

func sampleBackup(t testing.TB) Backup {
	return Backup{
		Created: time.Date(2026, 5, 4, 3, 2, 1, 987_000_000, time.UTC), NodeID: 3, Release: "1.2.3", Image: sampleImage(t),
	}
}

func backupBytes(t testing.TB, b Backup) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := WriteBackup(&out, b); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestBackupRoundTrip(t *testing.T) {
	want := sampleBackup(t)
	got, err := ReadBackup(bytes.NewReader(backupBytes(t, want)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := DiffImages(want.Image, got.Image); diff != "" {
		t.Error(diff)
	}
	if got.Image = want.Image; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if err := WriteBackup(&bytes.Buffer{}, Backup{Image: Empty()}); err == nil || !strings.Contains(err.Error(), "knows of no cluster") {
		t.Errorf("without a cluster: %v", err)
	}
}

// The first release's file stays readable, and is still what is written.
func TestBackupBytes(t *testing.T) {
	golden, err := os.ReadFile("testdata/backup-1")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(golden, backupBytes(t, sampleBackup(t))) {
		t.Error("a backup has other bytes than those of testdata/backup-1")
	}
	if _, err := ReadBackup(bytes.NewReader(golden)); err != nil {
		t.Error(err)
	}
}

// Whatever byte is another one, or missing, or too many: the file is refused.
func TestDamagedBackupIsRefused(t *testing.T) {
	whole := backupBytes(t, sampleBackup(t))
	for i := range whole {
		for _, change := range []byte{1, 0x80, 0xff} {
			damaged := slices.Clone(whole)
			damaged[i] ^= change
			if _, err := ReadBackup(bytes.NewReader(damaged)); err == nil {
				t.Fatalf("byte %d of %d changed by %#x: accepted", i, len(whole), change)
			}
		}
		_, err := ReadBackup(bytes.NewReader(whole[:i]))
		if err == nil || !strings.Contains(err.Error(), "cut off") {
			t.Fatalf("the first %d of %d bytes: %v", i, len(whole), err)
		}
	}
	if _, err := ReadBackup(bytes.NewReader(append(slices.Clone(whole), 0))); err == nil || !strings.Contains(err.Error(), "wrong checksum") {
		t.Errorf("a byte too many: %v", err)
	}
}

// seal gives a file the checksum that its bytes have.
func seal(b []byte) []byte {
	sum := sha256.Sum256(b[:len(b)-sha256.Size])
	return append(slices.Clone(b[:len(b)-sha256.Size]), sum[:]...)
}

func TestForeignBackupIsRefused(t *testing.T) {
	whole := backupBytes(t, sampleBackup(t))
	with := func(at int, b ...byte) []byte { return seal(slices.Concat(whole[:at], b, whole[at+len(b):])) }
	for _, c := range []struct {
		name, want string
		file       []byte
		newer      bool
	}{
		{"newer", "format 2, known up to 1: written by a newer release", with(8, 0, 0, 0, 2), true},
		{"no version", "there is no format 0", with(8, 0, 0, 0, 0), false},
		{"another file", "this is no backup", with(0, 'P'), false},
		{"header too long", "header of 4294967295 bytes", with(12, 0xff, 0xff, 0xff, 0xff), false},
		{"no JSON", "header: ", with(backupHeaderSize, '<'), false},
		{"header of another image", "the header says", seal(bytes.Replace(whole, []byte(`"cluster":"c"`), []byte(`"cluster":"d"`), 1)), false},
	} {
		_, err := ReadBackup(bytes.NewReader(c.file))
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrUnsupported) != c.newer {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func FuzzReadBackup(f *testing.F) {
	whole := backupBytes(f, sampleBackup(f))
	f.Add(whole)
	f.Add(whole[:40])
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, file := range [][]byte{b, seal(append(slices.Clone(b), make([]byte, sha256.Size)...))} {
			if backup, err := ReadBackup(bytes.NewReader(file)); err == nil {
				wantRebuilds(t, backup.Image)
				if _, err := ReadBackup(bytes.NewReader(backupBytes(t, backup))); err != nil {
					t.Errorf("what was read cannot be written: %v", err)
				}
			}
		}
	})
}

// Everything that goes on where the lost log may have been is far beyond it; the rest is as it
// was, and nobody is trusted with the records.
func TestRestored(t *testing.T) {
	b := sampleBackup(t)
	b.Image = b.Image.At(Position{Index: 500, Term: 7})
	s, err := b.Restored(time.Time{}, rand.NewChaCha8([32]byte{1}))
	if err != nil {
		t.Fatal(err)
	}
	if want := (Position{Index: 500 + 1<<40, Term: 7 + 1<<20}); s.Image.Position() != want {
		t.Errorf("position %v, want %v", s.Image.Position(), want)
	}
	if s.Lineage.IsZero() || s.Image.ClusterID() != "c" || s.Image.NextProducerID() != 1000+1<<40 {
		t.Errorf("lineage %s, cluster %s, next producer id %d", s.Lineage, s.Image.ClusterID(), s.Image.NextProducerID())
	}
	for old := range b.Image.Brokers() {
		r := s.Image.Broker(old.ID)
		want := *old
		want.Epoch, want.Fenced, want.InControlledShutdown, want.IncarnationID = old.Epoch+1<<40, true, false, r.IncarnationID
		if diff := cmp.Diff(&want, r); diff != "" || r.IncarnationID == old.IncarnationID {
			t.Errorf("broker %d: %s", old.ID, diff)
		}
	}
	for topic := range b.Image.Topics() {
		for i, old := range topic.Partitions {
			want := *old
			want.Leader, want.ISR, want.ELR, want.LastKnownELR, want.RecoveryState = NoLeader, nil, nil, nil, Recovered
			want.LeaderEpoch, want.PartitionEpoch = old.LeaderEpoch+1<<20, old.PartitionEpoch+1<<20
			got := s.Image.TopicByID(topic.ID).Partition(int32(i))
			if diff := cmp.Diff(&want, got); diff != "" || !got.Undecided() || old.Undecided() {
				t.Errorf("%s-%d: %s", topic.Name, i, diff)
			}
		}
	}
	for r, values := range b.Image.Configs() {
		if diff := cmp.Diff(values, s.Image.Config(r)); diff != "" {
			t.Error(diff)
		}
	}
	wantRebuilds(t, s.Image)

	again, err := Backup{Image: s.Image}.Restored(time.Time{}, rand.NewChaCha8([32]byte{2}))
	if err != nil || again.Lineage == s.Lineage || again.Image.Position().Term <= s.Image.Position().Term {
		t.Errorf("restored again: lineage %s, position %v, %v", again.Lineage, again.Image.Position(), err)
	}
}

// TestSameBackupRestoredTwice: what the cluster that was restored first has used, the second one
// does not use again.
func TestSameBackupRestoredTwice(t *testing.T) {
	b := sampleBackup(t)
	b.Created, b.Image = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), b.Image.At(Position{Index: 500, Term: 7})
	restored := func(from Backup, after time.Duration) *Image {
		s, err := from.Restored(b.Created.Add(after), rand.NewChaCha8([32]byte{1}))
		if err != nil {
			t.Fatal(err)
		}
		return s.Image
	}
	// later wants all numbers of an image to be beyond those of an earlier one, and how far at least.
	later := func(what string, image, earlier *Image, few, many int64) {
		t.Helper()
		if got := int64(image.Position().Term) - int64(earlier.Position().Term); got < few {
			t.Errorf("%s: term %d later", what, got)
		}
		if got := int64(image.Position().Index) - int64(earlier.Position().Index); got < many {
			t.Errorf("%s: position %d later", what, got)
		}
		if got := image.NextProducerID() - earlier.NextProducerID(); got < many {
			t.Errorf("%s: %d producer ids later", what, got)
		}
		for r := range image.Brokers() {
			if got := r.Epoch - earlier.Broker(r.ID).Epoch; got < many || r.Epoch > int64(image.Position().Index) {
				t.Errorf("%s: broker epoch %d, %d later", what, r.Epoch, got)
			}
		}
		for topic := range image.Topics() {
			for i, p := range topic.Partitions {
				old := earlier.TopicByID(topic.ID).Partition(int32(i))
				if got := int64(min(p.LeaderEpoch-old.LeaderEpoch, p.PartitionEpoch-old.PartitionEpoch)); got < few {
					t.Errorf("%s: epochs %d later", what, got)
				}
			}
		}
	}
	first := restored(b, time.Hour)
	later("the lost one", first, b.Image, 1<<20+3600, 1<<40+3600<<20)
	later("a minute after the first time", restored(b, time.Hour+time.Minute), first, 60, 60<<20)

	again := Backup{Created: b.Created.Add(time.Hour), Image: first} // in the same second
	second := restored(again, time.Hour)
	later("with a backup of the restored one", second, first, 1<<20, 1<<40)
	later("a minute after that", restored(again, time.Hour+time.Minute), second, 60, 60<<20)
	later("by a clock that is behind", restored(b, -time.Hour), b.Image, 1<<20, 1<<40)
	later("by a clock that is far ahead", restored(b, 200*365*24*time.Hour), b.Image, 1<<20, 1<<40)
}

func TestRestoredTooOften(t *testing.T) {
	b := sampleBackup(t)
	times := 0
	for ; times < 10_000; times++ {
		s, err := b.Restored(time.Time{}, rand.NewChaCha8([32]byte{1}))
		if err != nil {
			break
		}
		b.Image = s.Image
	}
	if times < 2000 || times == 10_000 {
		t.Errorf("it could be restored %d times", times)
	}
	image, _ := derive(t, nil, bootstrap)
	s, err := Backup{Image: image}.Restored(time.Time{}, rand.NewChaCha8([32]byte{1}))
	if err != nil || s.Image.NextProducerID() != 1<<40 || s.Lineage == uuid.Zero {
		t.Errorf("an image without producer ids: next %d, %v", s.Image.NextProducerID(), err)
	}
}
