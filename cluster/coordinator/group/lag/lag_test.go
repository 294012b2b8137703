package lag

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/klamm-mq/klamm/cluster/coordinator/group"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

var errElsewhere = errors.New("led by another broker")

// fakeGroups and fakeLogs are what a test makes them.
type fakeGroups []group.CommittedOffset

func (f *fakeGroups) CommittedOffsets(_ context.Context, limit int) ([]group.CommittedOffset, int) {
	return (*f)[:min(limit, len(*f))], max(0, len(*f)-limit)
}

// fakeLogs have one record a second, written in second of its offset, from start to end.
type fakeLogs struct {
	start, end int64
	reads      int
	err        error
}

func (f *fakeLogs) Bounds(_ uuid.UUID, partition int32) (int64, int64, error) {
	if partition == 3 {
		return -1, -1, errElsewhere
	}
	return f.start, f.end, nil
}

func (f *fakeLogs) BatchTime(_ uuid.UUID, _ int32, offset int64) (int64, error) {
	f.reads++
	return offset * 1000, f.err
}

// image has the topic t with four partitions.
func image(t *testing.T) *metadata.Image {
	t.Helper()
	d := metadata.NewDelta(metadata.Empty())
	records := []metadata.Record{metadata.TopicRecord{Name: "t", ID: uuid.UUID{1}}}
	for p := range int32(4) {
		records = append(records, metadata.PartitionRecord{TopicID: uuid.UUID{1}, Partition: metadata.Partition{
			Index: p, Leader: 1, Replicas: []int32{1}, Directories: []uuid.UUID{{9}}, ISR: []int32{1},
		}})
	}
	if err := d.ReplayAll(records...); err != nil {
		t.Fatal(err)
	}
	return d.Image(metadata.Position{Index: 1, Term: 1})
}

type fixture struct {
	groups   fakeGroups
	logs     fakeLogs
	registry *prometheus.Registry
}

func newFixture(t *testing.T, maxSeries int) *fixture {
	f := &fixture{logs: fakeLogs{start: 10, end: 100}, registry: prometheus.NewRegistry()}
	i := image(t)
	f.registry.MustRegister(New(Options{Groups: &f.groups, Logs: &f.logs, Image: func() *metadata.Image { return i }, MaxSeries: maxSeries}))
	return f
}

// gather is each series as "name group topic partition", without what all names have.
func (f *fixture) gather(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := f.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			_, name, _ := strings.Cut(family.GetName(), "_consumergroup_")
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			series[name] = m.GetGauge().GetValue()
		}
	}
	return series
}

func expect(t *testing.T, got, want map[string]float64) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// at is a commit; labels come sorted by their names: group, partition, topic.
func at(partition int32, offset int64) group.CommittedOffset {
	return group.CommittedOffset{Group: "g", Topic: "t", Partition: partition, Offset: offset}
}

func TestLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 0)
		now := time.Since(time.UnixMilli(0)).Seconds()
		for _, c := range []struct {
			what              string
			offset            int64
			lag, writtenAtSec float64 // -1: no lag, no age
		}{
			{"behind", 40, 60, 40},
			{"at the end", 100, 0, -1},
			{"beyond the end", 200, 0, -1},
			{"retention has removed what it was to read", 3, 90, 10},
		} {
			f.groups = fakeGroups{at(0, c.offset)}
			age := 0.0
			if c.writtenAtSec >= 0 {
				age = now - c.writtenAtSec
			}
			t.Log(c.what)
			expect(t, f.gather(t), map[string]float64{
				"current_offset g 0 t": float64(c.offset), "lag g 0 t": c.lag, "lag_seconds g 0 t": age, "partitions_left_out": 0,
			})
		}
	})
}

// Of a topic that is gone, or is another one of that name, nothing is told; of a partition
// that another broker leads, how far the group is.
func TestWhatCannotBeMeasured(t *testing.T) {
	f := newFixture(t, 0)
	gone, again, same := at(0, 50), at(0, 50), at(1, 100)
	gone.Topic, again.TopicID, same.TopicID = "gone", uuid.UUID{2}, uuid.UUID{1}
	f.groups = fakeGroups{gone, again, same, at(3, 50), at(7, 50)}
	expect(t, f.gather(t), map[string]float64{
		"current_offset g 1 t": 100, "lag g 1 t": 0, "lag_seconds g 1 t": 0, "current_offset g 3 t": 50, "partitions_left_out": 0,
	})
	f.groups, f.logs.err = fakeGroups{at(0, 50)}, errors.New("the disk is gone")
	expect(t, f.gather(t), map[string]float64{"current_offset g 0 t": 50, "lag g 0 t": 50, "partitions_left_out": 0})
}

func TestSeriesAreBounded(t *testing.T) {
	f := newFixture(t, 2)
	f.groups = fakeGroups{at(0, 100), at(1, 100), at(2, 100)}
	got := f.gather(t)
	if len(got) != 2*3+1 || got["partitions_left_out"] != 1 {
		t.Errorf("%v", slices.Sorted(maps.Keys(got)))
	}
}

// What is no text cannot be a label, and nobody can read 32 KiB.
func TestOddNamesAreLeftOut(t *testing.T) {
	f := newFixture(t, 0)
	bytes, long, longest := at(0, 100), at(0, 100), at(1, 100)
	bytes.Group, long.Group, longest.Group = "g\xff", strings.Repeat("g", maxName+1), strings.Repeat("g", maxName)
	f.groups = fakeGroups{bytes, long, longest}
	if got := f.gather(t); len(got) != 3+1 || got["partitions_left_out"] != 2 {
		t.Errorf("%v", slices.Sorted(maps.Keys(got)))
	}
}

// A log is asked again only when the group has committed again, and not too often.
func TestAgesAreReadOnce(t *testing.T) {
	f := newFixture(t, 0)
	f.groups = fakeGroups{at(0, 50), at(1, 60)}
	for want, change := range []func(){
		2: func() {}, 3: func() { f.groups[0].Offset = 51 }, 4: func() { f.groups[0].Offset = 50 },
	} {
		if change == nil {
			continue
		}
		change()
		f.gather(t)
		f.gather(t)
		if f.logs.reads != want {
			t.Errorf("%d reads, want %d", f.logs.reads, want)
		}
	}
	f.groups, f.logs.reads = nil, 0
	for g := range 300 {
		for p := range int32(3) {
			f.groups = append(f.groups, group.CommittedOffset{Group: fmt.Sprintf("g%03d", g), Topic: "t", Partition: p, Offset: 50})
		}
	}
	for g := range 200 {
		f.groups = append(f.groups, group.CommittedOffset{Group: fmt.Sprintf("h%03d", g), Topic: "t", Offset: 50})
	}
	f.gather(t)
	if f.logs.reads != maxAges {
		t.Errorf("%d reads for %d partitions", f.logs.reads, len(f.groups))
	}
	f.gather(t)
	if want := len(f.groups); f.logs.reads != want {
		t.Errorf("%d reads in two rounds for %d partitions", f.logs.reads, want)
	}
}
