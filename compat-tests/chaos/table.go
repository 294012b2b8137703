package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cost is what a fault has cost.
type cost struct {
	strike
	controller bool            // of the controllers, the node led
	unhealed   bool            // the one before was hasty
	gaps       []time.Duration // of each producer: the longest time without an acknowledgement
	ofOne      []time.Duration // the same for the partition that was silent longest
	moved      time.Duration   // until the node led nothing any more; 0: it led on
	whole      time.Duration   // from its end until all replicas were in sync; 0: nobody waited
}

func (c cost) line(producers []string) string {
	var gaps []string
	for i, name := range producers {
		gaps = append(gaps, fmt.Sprintf("%s %s (one partition %s)", name, shown(c.gaps[i]), shown(c.ofOne[i])))
	}
	role := ""
	if c.controller {
		role = ", the active controller"
	}
	return fmt.Sprintf("%s%s: gaps %s; leaders elsewhere after %s; whole after %s",
		c.strike, role, strings.Join(gaps, ", "), shown(c.moved), shown(c.whole))
}

func shown(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return d.Round(time.Millisecond).String()
}

// tables show what each kind of fault has cost.
func tables(producers []string, costs []cost) string {
	return "longest time without any acknowledgement, by producer, median / largest\n" +
		table(producers, costs, func(c cost) []time.Duration { return c.gaps }) +
		"longest time without an acknowledgement of one partition\n" +
		table(producers, costs, func(c cost) []time.Duration { return c.ofOne })
}

// table shows the median and the largest of what each kind of fault has cost:
//
//	fault    times  franz             java              leaders elsewhere  whole again
//	kill     3      1.2s / 1.9s       …                 612ms / 2.4s       1.4s / 2s
func table(producers []string, costs []cost, gaps func(cost) []time.Duration) string {
	rows := [][]string{append(append([]string{"fault", "times"}, producers...), "leaders elsewhere", "whole again")}
	byKind := map[string][]cost{}
	for _, c := range costs {
		name := c.kind.name
		if c.unhealed {
			name += " (unhealed)" // and what the one before left behind counts as well
		}
		byKind[name] = append(byKind[name], c)
	}
	for _, name := range slices.Sorted(maps.Keys(byKind)) {
		list := byKind[name]
		row := []string{name, strconv.Itoa(len(list))}
		for i := range producers {
			row = append(row, spread(list, func(c cost) time.Duration { return gaps(c)[i] }))
		}
		rows = append(rows, append(row,
			spread(list, func(c cost) time.Duration { return c.moved }), spread(list, func(c cost) time.Duration { return c.whole })))
	}
	return aligned(rows)
}

// spread is "median / largest" of what is not 0.
func spread(list []cost, of func(c cost) time.Duration) string {
	var all []time.Duration
	for _, c := range list {
		if d := of(c); d > 0 {
			all = append(all, d)
		}
	}
	if len(all) == 0 {
		return "-"
	}
	slices.Sort(all)
	return shown(all[(len(all)-1)/2]) + " / " + shown(all[len(all)-1])
}

func aligned(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len(cell))
		}
	}
	var out strings.Builder
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			line += fmt.Sprintf("%-*s  ", widths[i], cell)
		}
		out.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return out.String()
}
