package chaos

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// cost is what a fault has cost.
type cost struct {
	strike
	controller bool            // of the controllers, the node led
	gaps       []time.Duration // of each producer: the longest time without an acknowledgement
	moved      time.Duration   // until the node led nothing any more; 0: it led on
	whole      time.Duration   // from its end until all replicas were in sync; 0: nobody waited
}

func (c cost) line(producers []string) string {
	var gaps []string
	for i, name := range producers {
		gaps = append(gaps, fmt.Sprintf("%s %s", name, shown(c.gaps[i])))
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

// table shows the median and the largest of what each kind of fault has cost:
//
//	fault    times  franz             java              leaders elsewhere  whole again
//	kill     3      1.2s / 1.9s       …                 612ms / 2.4s       1.4s / 2s
func table(producers []string, costs []cost) string {
	rows := [][]string{append(append([]string{"fault", "times"}, producers...), "leaders elsewhere", "whole again")}
	byKind := map[string][]cost{}
	var names []string
	for _, c := range costs {
		if byKind[c.kind.name] == nil {
			names = append(names, c.kind.name)
		}
		byKind[c.kind.name] = append(byKind[c.kind.name], c)
	}
	slices.Sort(names)
	for _, name := range names {
		list := byKind[name]
		row := []string{name, fmt.Sprint(len(list))}
		for i := range producers {
			row = append(row, spread(list, func(c cost) time.Duration { return c.gaps[i] }))
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
