package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/klamm-mq/klamm/configs"
)

// resetTarget is where to reset: the flag that says so, with its value.
type resetTarget struct {
	to     string
	n      int64 // of to-offset and shift-by
	timeMs int64 // of to-datetime and by-duration
	plan   map[string]map[topicPartition]int64
}

// parseDatetime reads a time; without a zone it is UTC, as for Kafka's tools.
func parseDatetime(s string) (ms int64, ok bool) {
	if ms, ok := parseTime(s); ok {
		return ms, true
	}
	return parseTime(s + "Z")
}

// parsePeriod reads 2h30m and what Kafka's tools take, P1DT2H.
func parsePeriod(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		d, err = configs.ParseISODuration(s)
	}
	if err != nil || d < 0 {
		return 0, usagef("--by-duration %s: want a duration such as 2h30m or PT2H30M", s)
	}
	return d, nil
}

// planReset finds the partitions of one group and where each goes. Kafka's
// GroupOffsetsResetter is the model.
func planReset(ctx context.Context, admin *kadm.Client, name string, named []topicPartition, committedOnes bool, target resetTarget) ([]resetRow, []string, error) {
	fetched, err := admin.FetchOffsets(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	committed := map[topicPartition]int64{}
	fetched.Each(func(o kadm.OffsetResponse) {
		if o.Err == nil && o.At >= 0 {
			committed[topicPartition{o.Topic, o.Partition}] = o.At
		}
	})
	parts := named
	switch {
	case target.plan != nil:
		if parts, err = planned(ctx, admin, name, target.plan[name]); err != nil {
			return nil, nil, err
		}
	case committedOnes:
		parts = sortedPartitions(committed)
	}
	if len(parts) == 0 {
		return nil, nil, nil
	}
	limits, err := limitsOf(ctx, admin, parts, target)
	if err != nil {
		return nil, nil, err
	}
	return planRows(name, parts, committed, limits, target)
}

// planned are the partitions that a file names for a group.
func planned(ctx context.Context, admin *kadm.Client, name string, offsets map[topicPartition]int64) ([]topicPartition, error) {
	if len(offsets) == 0 {
		return nil, errors.New("the file does not mention it")
	}
	asked := map[topicPartition]bool{}
	for p := range offsets {
		asked[p] = true
	}
	return existing(ctx, admin, asked, nil)
}

// limits are the bounds of one partition, and where the wanted time falls.
type limits struct{ begin, end, atTime int64 }

func limitsOf(ctx context.Context, admin *kadm.Client, parts []topicPartition, target resetTarget) (map[topicPartition]limits, error) {
	topics := topicsOf(parts)
	begins, err := admin.ListStartOffsets(ctx, topics...)
	if err != nil {
		return nil, err
	}
	ends, err := admin.ListEndOffsets(ctx, topics...)
	if err != nil {
		return nil, err
	}
	times := ends
	if target.to == "to-datetime" || target.to == "by-duration" {
		if times, err = admin.ListOffsetsAfterMilli(ctx, target.timeMs, topics...); err != nil {
			return nil, err
		}
	}
	found := map[topicPartition]limits{}
	for _, p := range parts {
		begin, known1 := begins.Lookup(p.topic, p.partition)
		end, known2 := ends.Lookup(p.topic, p.partition)
		at, known3 := times.Lookup(p.topic, p.partition)
		if err := cmp.Or(begin.Err, end.Err, at.Err); err != nil || !known1 || !known2 || !known3 {
			return nil, fmt.Errorf("offsets of %s: %w", p, orNoAnswer(err))
		}
		found[p] = limits{begin.Offset, end.Offset, at.Offset}
	}
	return found, nil
}

// planRows decides. An offset outside of a partition becomes the nearest inside, with a
// warning.
func planRows(name string, parts []topicPartition, committed map[topicPartition]int64, of map[topicPartition]limits, target resetTarget) (rows []resetRow, warnings []string, err error) {
	var nothing []string
	for _, p := range parts {
		row := resetRow{group: name, topicPartition: p, before: -1}
		at, known := committed[p]
		if known {
			row.before = at
		}
		wanted := target.offset(name, p, row.before, of[p])
		if target.to == "shift-by" && !known {
			nothing = append(nothing, p.String())
			continue
		}
		row.after = wanted
		if target.to != "to-current" {
			row.after = min(max(wanted, of[p].begin), of[p].end)
		}
		if row.after != wanted {
			warnings = append(warnings, fmt.Sprintf("%s: offset %d is outside of %d to %d, %d is taken", p, wanted, of[p].begin, of[p].end, row.after))
		}
		rows = append(rows, row)
	}
	if len(nothing) > 0 {
		return nil, nil, fmt.Errorf("--shift-by needs a committed offset; there is none of %s", strings.Join(nothing, ", "))
	}
	return rows, warnings, nil
}

func (t resetTarget) offset(group string, p topicPartition, committed int64, of limits) int64 {
	switch t.to {
	case "to-earliest":
		return of.begin
	case "to-latest":
		return of.end
	case "to-offset":
		return t.n
	case "shift-by":
		return saturatingAdd(committed, t.n)
	case "from-file":
		return t.plan[group][p]
	case "to-current":
		if committed >= 0 {
			return committed
		}
		return of.end
	default: // by time
		return of.atTime
	}
}

// saturatingAdd keeps a huge shift from wrapping around.
func saturatingAdd(a, b int64) int64 {
	sum := a + b
	switch {
	case b > 0 && sum < a:
		return 1<<63 - 1
	case b < 0 && sum > a:
		return -1 << 63
	}
	return sum
}
