package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// One partition 5..20 with 12 committed, and one 0..3 with nothing.
func TestPlanRows(t *testing.T) {
	known, fresh := topicPartition{"t", 0}, topicPartition{"t", 1}
	of := map[topicPartition]limits{known: {5, 20, 9}, fresh: {0, 3, 2}}
	committed := map[topicPartition]int64{known: 12}
	file := map[string]map[topicPartition]int64{"g": {known: 7, fresh: 100}}
	for _, c := range []struct {
		target   resetTarget
		want     []int64 // nil: refused
		warnings int
	}{
		{resetTarget{to: "to-earliest"}, []int64{5, 0}, 0},
		{resetTarget{to: "to-latest"}, []int64{20, 3}, 0},
		{resetTarget{to: "to-current"}, []int64{12, 3}, 0},
		{resetTarget{to: "to-offset", n: 7}, []int64{7, 3}, 1},
		{resetTarget{to: "to-offset", n: -1}, []int64{5, 0}, 2},
		{resetTarget{to: "to-datetime", timeMs: 1}, []int64{9, 2}, 0},
		{resetTarget{to: "by-duration", timeMs: 1}, []int64{9, 2}, 0},
		{resetTarget{to: "from-file", plan: file}, []int64{7, 3}, 1},
		{resetTarget{to: "shift-by", n: 1}, nil, 0},
	} {
		rows, warnings, err := planRows("g", []topicPartition{known, fresh}, committed, of, c.target)
		var got []int64
		for _, row := range rows {
			got = append(got, row.after)
		}
		if !reflect.DeepEqual(got, c.want) || len(warnings) != c.warnings || (err != nil) != (c.want == nil) {
			t.Errorf("%s: %v, %d warnings, %v; want %v, %d", c.target.to, got, len(warnings), err, c.want, c.warnings)
		}
	}
}

func TestShiftStaysWithinThePartition(t *testing.T) {
	p := topicPartition{"t", 0}
	of := map[topicPartition]limits{p: {5, 20, 9}}
	for by, want := range map[int64]int64{3: 15, -3: 9, 100: 20, -100: 5, 1<<63 - 1: 20, -1 << 63: 5} {
		rows, _, err := planRows("g", []topicPartition{p}, map[topicPartition]int64{p: 12}, of, resetTarget{to: "shift-by", n: by})
		if err != nil || rows[0].after != want || rows[0].before != 12 {
			t.Errorf("by %d: %+v, %v, want %d", by, rows, err, want)
		}
	}
}

// An offset that was committed beyond the partition is current all the same.
func TestToCurrentIsNotBounded(t *testing.T) {
	p := topicPartition{"t", 0}
	rows, _, err := planRows("g", []topicPartition{p}, map[topicPartition]int64{p: 99}, map[topicPartition]limits{p: {0, 3, 3}}, resetTarget{to: "to-current"})
	if err != nil || rows[0].after != 99 {
		t.Errorf("%+v, %v", rows, err)
	}
}

func TestDatetimesAndPeriods(t *testing.T) {
	for text, want := range map[string]int64{
		"2026-11-01T00:00:00Z": 1793491200000, "2026-11-01T02:00:00+02:00": 1793491200000, "2026-11-01T00:00:00": 1793491200000,
		"2026-11-01T00:00:00.250": 1793491200250, "@17": 17,
	} {
		if got, ok := parseDatetime(text); !ok || got != want {
			t.Errorf("%s: %d, %v, want %d", text, got, ok, want)
		}
	}
	if _, ok := parseDatetime("yesterday"); ok {
		t.Error("yesterday is taken for a time")
	}
	for text, want := range map[string]time.Duration{"2h30m": 150 * time.Minute, "PT2H30M": 150 * time.Minute, "P1D": 24 * time.Hour} {
		if got, err := parsePeriod(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "2", "-2h", "soon"} {
		if got, err := parsePeriod(text); err == nil {
			t.Errorf("%q is taken as %v", text, got)
		}
	}
}

func TestResetFiles(t *testing.T) {
	a, b := topicPartition{"t", 0}, topicPartition{"u.v", 3}
	one := map[string]map[topicPartition]int64{"g": {a: 5, b: 7}}
	for _, c := range []struct {
		text   string
		groups []string
		want   map[string]map[topicPartition]int64 // nil: refused
	}{
		{"t,0,5\nu.v,3,7\n", []string{"g"}, one},
		{"g,t,0,5\n\"g\", \"u.v\", 3, 7", []string{"g"}, one},
		{"g,t,0,5\nh,t,0,6\n", nil, map[string]map[topicPartition]int64{"g": {a: 5}, "h": {a: 6}}},
		{"t,0,5\n", []string{"g", "h"}, nil},
		{"t,0\n", []string{"g"}, nil},
		{"t,x,5\n", []string{"g"}, nil},
		{"t,0,\n", []string{"g"}, nil},
		{"t,-1,5\n", []string{"g"}, nil},
		{"\"t,0,5\n", []string{"g"}, nil},
	} {
		name := filepath.Join(t.TempDir(), "offsets.csv")
		if err := os.WriteFile(name, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readResetFile(name, c.groups)
		if (err != nil) != (c.want == nil) || err == nil && !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q for %v: %v, %v", c.text, c.groups, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), name) {
			t.Errorf("%q: the error does not name the file: %v", c.text, err)
		}
	}
}
