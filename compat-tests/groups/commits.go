package groups

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// committed is what the group has committed, by partition.
func (l *life) committed() map[int32]int64 {
	l.t.Helper()
	offsets, err := l.fetch(l.t.Context())
	if err != nil {
		l.t.Fatalf("fetch the group's offsets: %v", err)
	}
	return offsets
}

func (l *life) fetch(ctx context.Context) (map[int32]int64, error) {
	fetched, err := l.admin.FetchOffsets(ctx, l.group)
	if err != nil {
		return nil, err
	}
	offsets := map[int32]int64{}
	fetched.Each(func(o kadm.OffsetResponse) {
		if o.Err == nil && o.Topic == l.topic {
			offsets[o.Partition] = o.At
		}
	})
	return offsets, nil
}

// ahead tells whether every partition has been committed further than before.
func (l *life) ahead(before map[int32]int64) bool {
	ctx, cancel := context.WithTimeout(l.t.Context(), time.Second)
	defer cancel()
	now, err := l.fetch(ctx)
	if err != nil {
		return false // the broker has just started
	}
	for p := range int32(partitions) {
		if now[p] <= before[p] {
			return false
		}
	}
	return true
}

// watchCommits looks at what is committed all the while; stop tells where it went back.
func (l *life) watchCommits() (stop func() []string) {
	ctx, cancel := context.WithCancel(context.Background())
	var faults []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		highest := map[int32]int64{}
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			now, err := l.fetch(ctx)
			if err != nil {
				continue // the broker may be down
			}
			for p, was := range highest {
				if at, found := now[p]; !found || at < was {
					faults = append(faults, fmt.Sprintf("partition %d: %d was committed, now it is %d (%v)", p, was, at, found))
				}
			}
			for p, at := range now {
				highest[p] = max(highest[p], at)
			}
		}
	}()
	return func() []string {
		cancel()
		<-done
		return faults
	}
}

// maxFaults bounds what a failure prints.
const maxFaults = 10

// judge looks at what the group has done when its members are gone.
func (l *life) judge(faults []string) {
	l.t.Helper()
	if l.goesBack {
		l.t.Logf("commits of the library that went back: %q", faults[:min(len(faults), maxFaults)])
		faults = nil
	}
	if !l.allRead() {
		faults = append(faults, missing(&l.acked, &l.seen)...)
	}
	ends, err := l.admin.ListEndOffsets(l.t.Context(), l.topic)
	if err != nil {
		l.t.Fatal(err)
	}
	committed, late := l.committed(), l.late
	ends.Each(func(end kadm.ListedOffset) {
		behind := end.Offset - committed[end.Partition]
		if late -= behind; behind < 0 || late < 0 {
			faults = append(faults, fmt.Sprintf("partition %d ends at %d, committed is %d", end.Partition, end.Offset, committed[end.Partition]))
		}
	})
	for _, fault := range faults[:min(len(faults), maxFaults)] {
		l.t.Error(fault)
	}
	if len(faults) > maxFaults {
		l.t.Errorf("and %d more", len(faults)-maxFaults)
	}
}
