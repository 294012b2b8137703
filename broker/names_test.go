package broker

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"github.com/klamm-mq/klamm/cluster/metalog"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// A name is this node's only if it is everywhere whom the name stands for.
func TestNameThatStandsForSeveral(t *testing.T) {
	self, other := metalog.State{NodeID: 1, DirectoryID: uuid.UUID{1}}, metalog.State{NodeID: 2, DirectoryID: uuid.UUID{2}}
	emptied := metalog.State{NodeID: 1, DirectoryID: uuid.UUID{3}}
	silent := errors.New("silent")
	for name, test := range map[string]struct {
		there map[string]any // who answers, or the error
		ask   []string
		want  metalog.State
		fails bool
	}{
		"it alone":                      {map[string]any{"a": self}, []string{"a"}, self, false},
		"it twice":                      {map[string]any{"a": self, "b": self}, []string{"a", "b"}, self, false},
		"it and another one":            {map[string]any{"a": self, "b": other}, []string{"a", "b"}, other, false},
		"it on another disk":            {map[string]any{"a": self, "b": emptied}, []string{"a", "b"}, emptied, false},
		"it and one that is silent":     {map[string]any{"a": self, "b": silent}, []string{"a", "b"}, metalog.State{}, true},
		"it and one that refuses":       {map[string]any{"a": self, "b": syscall.ECONNREFUSED}, []string{"a", "b"}, metalog.State{}, true},
		"it, not at one of its own":     {map[string]any{"a": self, "own": syscall.ECONNREFUSED}, []string{"own", "a"}, self, false},
		"nobody":                        {nil, nil, metalog.State{}, true},
		"nobody at one of its own":      {map[string]any{"own": syscall.ECONNREFUSED}, []string{"own"}, metalog.State{}, true},
		"one that is silent at its own": {map[string]any{"a": self, "own": silent}, []string{"a", "own"}, metalog.State{}, true},
	} {
		probe := func(_ context.Context, address string) (metalog.State, error) {
			if err, failed := test.there[address].(error); failed {
				return metalog.State{}, err
			}
			return test.there[address].(metalog.State), nil
		}
		nobody := func(address string, err error) bool { return address == "own" && isRefused(err) }
		got, err := whoAnswers(t.Context(), test.ask, self, probe, nobody)
		if got != test.want || (err != nil) != test.fails {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
