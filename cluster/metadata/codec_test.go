package metadata

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
)

// What a level writes is a promise to every release that knows it, so the bytes of a level that
// has been released never change. A new field or kind of record is written from the next level
// on: it has no effect in the files of those before.
func TestRecordBytesOfEachLevel(t *testing.T) {
	for level := MinMetadataLevel; level <= MaxMetadataLevel; level++ {
		t.Run(fmt.Sprint(level), func(t *testing.T) { recordBytes(t, level) })
	}
}

func recordBytes(t *testing.T, level int16) {
	byName := map[string]Record{}
	for _, r := range samples() {
		if _, err := writeVersion(r.kind(), level); err == nil {
			byName[Name(r)] = r
		}
	}
	shown := map[string]bool{}
	name := fmt.Sprintf("testdata/records-level-%d", level)
	datadriven.RunTest(t, name, func(t *testing.T, d *datadriven.TestData) string {
		var kind string
		d.ScanArgs(t, "kind", &kind)
		shown[kind] = true
		r, ok := byName[kind]
		if !ok {
			d.Fatalf(t, "no record %s at level %d", kind, level)
		}
		b, err := EncodeRecord(r, level)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		decoded, err := DecodeRecord(b)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		if diff := cmp.Diff(r, decoded); diff != "" && level == MaxMetadataLevel {
			d.Fatalf(t, "%s", diff)
		}
		return hex.Dump(b)
	})
	for kind := range byName {
		if !shown[kind] {
			t.Errorf("%s has no %s", name, kind)
		}
	}
}

func TestEntryBytes(t *testing.T) {
	entry := Entry{Term: 3, Number: 2, Records: []Record{TopicRecord{Name: "a"}, NoOpRecord{}}}
	b, err := EncodeEntry(entry, 0)
	if err != nil {
		t.Fatal(err)
	}
	const want = "08031002" + "2219" + "0801" + "4a15" + "0a0161" + "1210" + "00000000000000000000000000000000" + "2204" + "0801" + "1200"
	if got := hex.EncodeToString(b); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	batch := []Entry{entry, {Term: 9, Barrier: true}, {Term: 1 << 40, Number: 1 << 50}}
	var encoded [][]byte
	size := 0
	for _, e := range batch {
		b, err := EncodeEntry(e, 1)
		if err != nil {
			t.Fatal(err)
		}
		encoded = append(encoded, b)
		size += len(b) + BatchOverhead
	}
	b = EncodeBatch(encoded)
	if len(b) > size {
		t.Errorf("batch of %d bytes, at most %d were promised", len(b), size)
	}
	decoded, err := DecodeBatch(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(batch, decoded); diff != "" {
		t.Error(diff)
	}
	large := EncodeBatch([][]byte{make([]byte, 1<<20)})
	if len(large) > 1<<20+BatchOverhead {
		t.Errorf("large entry costs %d bytes more", len(large)-1<<20)
	}
}

// Optional lists: "not given" and "empty" are different decisions.
func TestEmptyListIsNotAbsentList(t *testing.T) {
	for _, r := range []Record{
		PartitionChangeRecord{ISR: []int32{}, ELR: []int32{}},
		PartitionChangeRecord{},
		ConfigRecord{Key: "k", Value: Ptr("")},
		ConfigRecord{Key: "k"},
		RegisterBrokerRecord{Broker{Rack: Ptr("")}},
		RegisterBrokerRecord{},
		BrokerChangeRecord{Fenced: Ptr(false)},
	} {
		b, err := EncodeRecord(r, 1)
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := DecodeRecord(b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, decoded); diff != "" {
			t.Error(diff)
		}
	}
}

// message builds protobuf bytes by hand: pairs of field number and varint or bytes.
func message(fields ...any) []byte {
	var b []byte
	for i := 0; i < len(fields); i += 2 {
		number := protowire.Number(fields[i].(int))
		switch v := fields[i+1].(type) {
		case int:
			b = protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), uint64(v))
		case []byte:
			b = protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), v)
		}
	}
	return b
}

func TestFutureAndDamagedRecords(t *testing.T) {
	topic := message(1, []byte("orders"), 2, make([]byte, 16))
	tests := []struct {
		name   string
		bytes  []byte
		future bool
		text   string
	}{
		{"unknown kind", message(1, 1, 99, message(1, 1)), true, "unknown kind"},
		{"newer version", message(1, 2, int(kindTopic), topic), true, "Topic record version 2, known up to 1"},
		{"huge version", message(1, 1<<31, int(kindTopic), topic), true, "Topic record version 2147483648"},
		{"newer version explains a broken field", message(1, 2, int(kindTopic), message(2, []byte("short"))), true, "version 2"},
		{"unknown field of the record", message(1, 1, int(kindTopic), topic, 50, 1), true, "unknown field in Record"},
		{"unknown field of the kind", message(1, 1, int(kindTopic), append(topic, message(9, 1)...)), true, "unknown field in Topic"},
		{"unknown field deep inside", message(1, 1, int(kindRegisterBroker), message(3, make([]byte, 16), 5, message(77, 1))), true, "unknown field in Endpoint"},
		{"no version", message(int(kindTopic), topic), false, "without version"},
		{"short id", message(1, 1, int(kindTopic), message(2, []byte("short"))), false, "id of 5 bytes"},
		{"number out of range", message(1, 1, int(kindFeatureLevel), message(1, []byte("f"), 2, 70000)), false, "not an int16"},
		{"not protobuf", []byte{0xff}, false, "decode metadata record"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, decode := range []func() error{
				func() error { _, err := DecodeRecord(test.bytes); return err },
				func() error {
					_, err := DecodeBatch(message(1, message(1, 1, 2, 1, 4, test.bytes)))
					return err
				},
			} {
				err := decode()
				if err == nil {
					t.Fatal("accepted")
				}
				if errors.Is(err, ErrUnsupported) != test.future {
					t.Errorf("%v: unsupported is %v", err, !test.future)
				}
				if !strings.Contains(err.Error(), test.text) && !strings.Contains(test.text, "decode") {
					t.Errorf("%q does not say %q", err, test.text)
				}
			}
		})
	}
	for what, b := range map[string][]byte{"an entry": message(1, message(1, 1, 17, 1)), "a batch": message(17, 1)} {
		if _, err := DecodeBatch(b); !errors.Is(err, ErrUnsupported) {
			t.Errorf("unknown field of %s: %v", what, err)
		}
	}
}

func TestTextThatIsNotUTF8IsRefused(t *testing.T) {
	if _, err := EncodeRecord(TopicRecord{Name: "\xff"}, 1); err == nil {
		t.Error("encoded")
	}
}

// A record is never written in a version that the cluster's level does not permit.
func TestWriteVersionFollowsTheLevel(t *testing.T) {
	for k := firstKind; k < kindsBound; k++ {
		for version, level := range kinds[k].levels {
			got, err := writeVersion(k, level)
			if err != nil || got != uint32(version+1) {
				t.Errorf("%s at level %d: version %d, %v", kinds[k].name, level, got, err)
			}
			if level < MinMetadataLevel || level > MaxMetadataLevel {
				t.Errorf("%s version %d is written at level %d, which does not exist", kinds[k].name, version+1, level)
			}
		}
		if _, err := writeVersion(k, kinds[k].levels[0]-1); err == nil {
			t.Errorf("%s was written below its first level", kinds[k].name)
		}
	}
}

// A level cannot be lowered below one from which on something is written.
func TestLevelsBetweenWhichRecordsChanged(t *testing.T) {
	table := []recordKind{{"old", []int16{1, 3}}, {"new", []int16{4}}}
	for _, c := range []struct {
		low, high int16
		changed   bool
	}{{1, 1, false}, {1, 2, false}, {2, 3, true}, {1, 3, true}, {3, 3, false}, {3, 4, true}, {4, 5, false}, {1, 5, true}} {
		if got := changedBetween(table, c.low, c.high); got != c.changed {
			t.Errorf("between %d and %d: %v", c.low, c.high, got)
		}
	}
	if RecordsChanged(MinMetadataLevel, MinMetadataLevel) || !RecordsChanged(MinMetadataLevel-1, MinMetadataLevel) {
		t.Error("the table of versions does not begin at the lowest level")
	}
}

func FuzzDecodeRecord(f *testing.F) {
	for _, r := range samples() {
		b, err := EncodeRecord(r, 1)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeRecord(b)
		if err != nil {
			return
		}
		again, err := EncodeRecord(r, 1)
		if err != nil {
			t.Fatal(err)
		}
		r2, err := DecodeRecord(again)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprintf("%#v", r) != fmt.Sprintf("%#v", r2) && !cmp.Equal(r, r2) {
			t.Fatal(cmp.Diff(r, r2))
		}
		// Whatever it says, an image takes it or refuses it.
		for _, image := range []*Image{Empty(), sampleImage(t)} {
			d := NewDelta(image)
			if err := d.Replay(r); err == nil && !d.InTransaction() {
				wantRebuilds(t, d.Image(Position{Index: image.pos.Index + 1, Term: 1}))
			}
		}
	})
}
