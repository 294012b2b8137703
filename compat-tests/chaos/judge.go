package chaos

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// awaitReaders waits until each reader has what was acknowledged, and each group has
// committed the end of each partition.
func (l *load) awaitReaders() {
	l.t.Helper()
	deadline := time.Now().Add(drain)
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for {
		late := l.late()
		if len(late) == 0 {
			return
		}
		if time.Now().After(deadline) {
			l.t.Errorf("%s after the last record: %s", drain, strings.Join(late, "; "))
			return
		}
		<-look.C
	}
}

// late says which reader has not come to the end.
func (l *load) late() (late []string) {
	for i, topic := range l.topics {
		ends, err := l.ends(topic)
		if err != nil {
			return []string{err.Error()}
		}
		late = append(late, l.lateGroup(i, ends)...)
		for _, f := range l.followers {
			for p, end := range ends {
				if at := f.position(p); f.h == l.histories[i] && at < end {
					late = append(late, fmt.Sprintf("%s is at %d of %s-%d, which ends at %d", f.name, at, topic, p, end))
				}
			}
		}
	}
	return late
}

func (l *load) lateGroup(i int, ends map[int32]int64) (late []string) {
	topic, group := l.topics[i], l.readerOf(i).name
	if n := l.histories[i].unread(); n > 0 {
		return []string{fmt.Sprintf("group %s has not read %d records", group, n)}
	}
	committed, err := l.admin.FetchOffsets(l.t.Context(), group)
	if err != nil {
		return []string{err.Error()}
	}
	for p, end := range ends {
		if at, _ := committed.Lookup(topic, p); at.At != end {
			late = append(late, fmt.Sprintf("group %s has committed %d of %s-%d, which ends at %d", group, at.At, topic, p, end))
		}
	}
	return late
}

// ends are the ends of a topic's partitions, for consumers.
func (l *load) ends(topic string) (map[int32]int64, error) {
	listed, err := l.admin.ListEndOffsets(l.t.Context(), topic)
	if err == nil {
		err = listed.Error()
	}
	ends := map[int32]int64{}
	for p, end := range listed[topic] {
		ends[p] = end.Offset
	}
	return ends, err
}

// served is what the brokers serve in the end: values by partition and offset.
type served map[place]string

// judge compares what is served with what everybody was told. It returns what is served of
// each topic, and the faults that it has found.
func (l *load) judge() (all map[string]served, faults []string) {
	l.t.Helper()
	all = map[string]served{}
	for i, topic := range l.topics {
		ends, err := l.ends(topic)
		if err != nil {
			l.t.Fatal(err)
		}
		h := l.histories[i]
		all[topic] = l.readAll(topic, ends)
		found := h.check(all[topic], ends)
		l.t.Logf("%s: %d acknowledged, %d given up, %d read again, %d faults", topic, len(h.acked), h.failed, h.again, len(found))
		for _, fault := range found {
			faults = append(faults, topic+": "+fault)
		}
	}
	return all, faults
}

func (l *load) readAll(topic string, ends map[int32]int64) served {
	l.t.Helper()
	client := l.newClient(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()
	var total int64
	for _, end := range ends {
		total += end
	}
	all := served{}
	for int64(len(all)) < total {
		fetches := client.PollFetches(l.t.Context())
		if err := fetches.Err(); err != nil {
			l.t.Fatal(err)
		}
		fetches.EachRecord(func(rec *kgo.Record) { all[place{rec.Partition, rec.Offset}] = string(rec.Value) })
	}
	return all
}

// report fails the test with the first faults of a list.
func (l *load) report(faults []string) {
	l.t.Helper()
	for _, fault := range faults[:min(len(faults), maxFaults)] {
		l.t.Error(fault)
	}
	if more := len(faults) - maxFaults; more > 0 {
		l.t.Errorf("and %d more", more)
	}
}
