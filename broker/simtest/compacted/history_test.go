package compacted

import (
	"strings"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/protocol/batch"
)

func value(key, id string) Record     { return Record{Key: key, ID: id} }
func tombstone(key, id string) Record { return Record{Key: key, ID: id, Tombstone: true} }

func TestRecordsKeepTheirIDs(t *testing.T) {
	for _, want := range []Record{value("a", "1"), value("", "2"), tombstone("a", "3")} {
		v := batch.New(batch.BuilderOptions{}, New(5, want))
		if err := batch.Iterate(v, nil, func(r batch.Record) error {
			if got := Of(&r); got != want {
				t.Errorf("%v, want %v", got, want)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// A cleaner that does anything but its duty is found.
func TestHistory(t *testing.T) {
	before := map[int64]Record{0: value("a", "1"), 1: value("b", "2"), 2: value("a", "3"), 3: value("c", "4"), 4: tombstone("c", "5"), 5: value("a", "6")}
	for _, c := range []struct {
		name  string
		again bool // a second cleaning, after the retention
		after map[int64]Record
		want  string // of the error
	}{
		{"as it should be", false, map[int64]Record{1: value("b", "2"), 2: value("a", "3"), 4: tombstone("c", "5"), 5: value("a", "6")}, ""},
		{"as it should be, later", true, map[int64]Record{1: value("b", "2"), 2: value("a", "3"), 5: value("a", "6")}, ""},
		{"not at all", false, before, "is still at"},
		{"too much", false, map[int64]Record{2: value("a", "3"), 4: tombstone("c", "5"), 5: value("a", "6")}, "missing at 1"},
		{"above the end", false, map[int64]Record{1: value("b", "2"), 4: tombstone("c", "5"), 5: value("a", "6")}, "missing at 2"},
		{"the tombstone too early", false, map[int64]Record{1: value("b", "2"), 2: value("a", "3"), 5: value("a", "6")}, "missing at 4"},
		{"the tombstone alone", true, map[int64]Record{1: value("b", "2"), 2: value("a", "3"), 3: value("c", "4"), 5: value("a", "6")}, "came back"},
		{"at another offset", false, map[int64]Record{1: value("b", "2"), 2: value("a", "6"), 4: tombstone("c", "5")}, "where"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := History{Retention: time.Second}
			now := time.UnixMilli(0)
			if err := h.Begin(before, 5, now); err != nil {
				t.Fatal(err)
			}
			if c.again {
				if err := h.Begin(before, 5, now.Add(time.Second)); err != nil {
					t.Fatal(err)
				}
			}
			err := h.Check(c.after, 0, 6)
			if err == nil {
				err = h.End(c.after, 0, 5)
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if h.MayMiss(0, 1) != true || h.MayMiss(0, 2) || h.MayMiss(5, 6) {
				t.Error("what may be missing is not what was replaced")
			}
			h.Cut(3)
			if _, ok := h.Of(3); ok {
				t.Error("what was cut is still known")
			}
		})
	}
}

// TestExcusedRecordsAreReplaced: what a replica has lost with its branch, and cleans all the same,
// is no record of the branch that goes on.
func TestExcusedRecordsAreReplaced(t *testing.T) {
	log := map[int64]Record{0: value("a", "1"), 1: tombstone("b", "2")}
	h := History{}
	h.Excuse(log, 2)
	if r, ok := h.Of(1); !ok || r != log[1] {
		t.Fatalf("%v %v, want %v", r, ok, log[1])
	}
	log[1] = value("c", "3")
	if err := h.Check(log, 0, 2); err != nil {
		t.Error(err)
	}
	if err := h.Begin(log, 2, time.UnixMilli(0)); err != nil {
		t.Error(err)
	}
	if h.MayMiss(1, 2) {
		t.Error("the newest record of a key may be missing")
	}
}
