package uuid

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"pgregory.net/rapid"
)

func TestText(t *testing.T) {
	cases := map[string]UUID{
		"AAAAAAAAAAAAAAAAAAAAAA": Zero,
		"AAAAAAAAAAAAAAAAAAAAAQ": DirUnassigned, // Kafka's DirectoryId.UNASSIGNED
		"AAAAAAAAAAAAAAAAAAAAAg": DirLost,
		"_____________________w": {255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255},
		"MkU3OEVBNTcwNTJENDM2Qg": UUID([]byte("2E78EA57052D436B")),
	}
	for text, id := range cases {
		if got := id.String(); got != text {
			t.Errorf("%v is %s, want %s", [16]byte(id), got, text)
		}
		if got, err := Parse(text); err != nil || got != id {
			t.Errorf("Parse(%s) = %v, %v", text, got, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{
		"", "AAAA", "AAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAA==",
		"AAAAAAAAAAAAAAAAAAAA+A", "00000000-0000-0000-0000-000000000000",
	} {
		if id, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) = %s", text, id)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		if got, err := Parse(id.String()); err != nil || got != id {
			t.Fatalf("%v came back as %v, %v", id, got, err)
		}
	})
}

func TestNew(t *testing.T) {
	// The first draw would begin with a dash (0xf8… is "-…"), so it is drawn again.
	dash, good := bytes.Repeat([]byte{0xfb}, 16), bytes.Repeat([]byte{0x11}, 16)
	id, err := New(bytes.NewReader(append(dash, good...)))
	if err != nil {
		t.Fatal(err)
	}
	want := UUID(good)
	want[6], want[8] = 0x41, 0x91 // version 4, variant 2 as in RFC 9562
	if id != want {
		t.Errorf("%x, want %x", [16]byte(id), [16]byte(want))
	}
	if _, err := New(bytes.NewReader(good[:7])); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("from too little: %v", err)
	}
}

func TestIsZero(t *testing.T) {
	if !Zero.IsZero() || DirLost.IsZero() {
		t.Error("only Zero is zero")
	}
}
