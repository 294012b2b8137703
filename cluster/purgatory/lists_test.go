package purgatory

import (
	"fmt"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestLists runs the transcripts of the core: who watches what, who is due when.
//
//	watch NAME keys=(a,b) at=SECONDS
//	end NAME
//	watching KEY
//	due SECONDS
func TestLists(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		l := newLists[string]()
		items := map[string]*Item[string]{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "watch":
				items[d.CmdArgs[0].Key] = watchArgs(t, &l, d)
			case "end":
				it := items[d.CmdArgs[0].Key]
				l.remove(it)
				it.finish(Satisfied)
			case "watching":
				return names(items, l.watching(d.CmdArgs[0].Key, nil))
			case "due":
				var sec int
				d.ScanArgs(t, "at", &sec)
				return names(items, l.due(time.Unix(int64(sec), 0)))
			}
			return state(&l, items)
		})
	})
}

func watchArgs(t *testing.T, l *lists[string], d *datadriven.TestData) *Item[string] {
	var at int
	d.ScanArgs(t, "at", &at)
	arg, _ := d.Arg("keys")
	it := &Item[string]{}
	it.begin(nil, arg.Vals)
	it.deadline = time.Unix(int64(at), 0)
	l.add(it)
	return it
}

func names(items map[string]*Item[string], tickets []ticket[string]) string {
	var out []string
	for _, tk := range tickets {
		for name, it := range items {
			if it == tk.item {
				out = append(out, name)
			}
		}
	}
	if len(out) == 0 {
		return "nobody\n"
	}
	return strings.Join(out, " ") + "\n"
}

func state(l *lists[string], items map[string]*Item[string]) string {
	var b strings.Builder
	keys := make([]string, 0, len(l.watchers))
	for k := range l.watchers {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		fmt.Fprintf(&b, "%s: %s", k, names(items, l.watching(k, nil)))
	}
	next := "none"
	if at, ok := l.nextDeadline(); ok {
		next = fmt.Sprint(at.Unix(), "s")
	}
	fmt.Fprintf(&b, "waiting %d, next deadline %s\n", l.len(), next)
	return b.String()
}
