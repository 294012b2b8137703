package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// told is a node that has answered, with the level of klamm.metadata in force and the highest
// that it knows.
func told(node int32, epoch int64, level, most int16) nodeFeatures {
	return nodeFeatures{
		node: node, answered: true, epoch: epoch,
		finalized: map[string]int16{klammMetadata: level}, most: map[string]int16{klammMetadata: most},
	}
}

func TestCompareFeatures(t *testing.T) {
	none := []int32{}
	for _, test := range []struct {
		name  string
		nodes []nodeFeatures
		want  featureLevel
		line  string
	}{
		{
			"all are alike",
			[]nodeFeatures{told(1, 9, 1, 1), told(2, 9, 1, 1)},
			featureLevel{klammMetadata, 1, 1, 1, none, none},
			"klamm.metadata 1",
		},
		{
			"some are newer",
			[]nodeFeatures{told(3, 9, 1, 1), told(1, 9, 1, 2), told(2, 9, 1, 1)},
			featureLevel{klammMetadata, 1, 1, 2, []int32{2, 3}, none},
			"klamm.metadata 1, 2 is held back by 2,3",
		},
		{
			"all are newer",
			[]nodeFeatures{told(1, 9, 1, 2), told(2, 9, 1, 2)},
			featureLevel{klammMetadata, 1, 2, 2, none, none},
			"klamm.metadata 1, may be raised to 2",
		},
		{
			"some are newer by more",
			[]nodeFeatures{told(1, 9, 1, 3), told(2, 9, 1, 2)},
			featureLevel{klammMetadata, 1, 2, 3, []int32{2}, none},
			"klamm.metadata 1, may be raised to 2",
		},
		{
			"one is silent",
			[]nodeFeatures{told(1, 9, 1, 2), {node: 2}},
			featureLevel{klammMetadata, 1, 2, 2, none, []int32{2}},
			"klamm.metadata 1, may be raised to 2, not known of 2",
		},
		{
			"one has not heard of it",
			[]nodeFeatures{told(1, 8, 1, 2), told(2, 9, 2, 2)},
			featureLevel{klammMetadata, 2, 2, 2, none, none},
			"klamm.metadata 2",
		},
		{
			"one does not have the feature",
			[]nodeFeatures{told(1, 9, 0, 1), {node: 2, answered: true, epoch: 9}},
			featureLevel{klammMetadata, 0, 0, 1, []int32{2}, none},
			"klamm.metadata 0, 1 is held back by 2",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := compareFeatures(test.nodes)
			if diff := cmp.Diff([]featureLevel{test.want}, got); diff != "" {
				t.Fatal(diff)
			}
			if line := got[0].String(); line != test.line {
				t.Errorf("%q, want %q", line, test.line)
			}
		})
	}
}

func TestPlanUpgrade(t *testing.T) {
	all := []featureLevel{
		{Feature: "group.version", Level: 0, Possible: 1, Newest: 1},
		{Feature: klammMetadata, Level: 1, Possible: 2, Newest: 3, HeldBackBy: []int32{2}},
	}
	raised := func(feature string, from, to int16) featureStep {
		return featureStep{feature: feature, from: from, to: to}
	}
	for _, test := range []struct {
		args []string
		want []featureStep
		err  string
	}{
		{nil, []featureStep{raised(klammMetadata, 1, 2)}, ""},
		{[]string{"klamm.metadata=1"}, []featureStep{raised(klammMetadata, 1, 1)}, ""},
		{[]string{"klamm.metadata=9"}, []featureStep{raised(klammMetadata, 1, 9)}, ""}, // the cluster knows better
		{[]string{"klamm.metadata=2", "group.version=1"}, []featureStep{raised("group.version", 0, 1), raised(klammMetadata, 1, 2)}, ""},
		{[]string{"group.verison=1"}, nil, "no node of this cluster has a feature group.verison"},
	} {
		wanted, err := parseLevels(test.args)
		if err != nil {
			t.Fatal(err)
		}
		steps, err := planUpgrade(all, wanted)
		if test.err != "" {
			if err == nil || err.Error() != test.err {
				t.Errorf("%q: %v, want %s", test.args, err, test.err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range steps {
			steps[i].newest, steps[i].held = 0, nil
		}
		if diff := cmp.Diff(test.want, steps, cmp.AllowUnexported(featureStep{})); diff != "" {
			t.Errorf("%q: %s", test.args, diff)
		}
	}
	all[1].Level = 2
	if _, err := planUpgrade(all, map[string]int16{klammMetadata: 1}); err == nil || err.Error() != "klamm.metadata is at 2; a level is not lowered" {
		t.Errorf("a lower level: %v", err)
	}
	steps, err := planUpgrade(all, nil)
	if err != nil || len(steps) != 1 || steps[0].result(true) != "unchanged, 3 is held back by 2" {
		t.Errorf("at the highest level that all know: %+v, %v", steps, err)
	}
}
