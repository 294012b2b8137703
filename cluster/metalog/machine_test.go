package metalog

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// TestMachine tells which entries count, as a transcript:
//
//	apply at=INDEX/TERM term=TERM number=N     one record a line: topic NAME, remove NAME,
//	                                           partition NAME, begin, end, abort, future
//	barrier at=INDEX/TERM term=TERM
//	snapshot                                   and restore into another machine
func TestMachine(t *testing.T) {
	datadriven.Walk(t, "testdata/machine", func(t *testing.T, path string) {
		m := newMachine()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "apply":
				return applyEntry(m, position(t, d), metadata.Entry{
					Term: number(t, d, "term"), Number: number(t, d, "number"), Records: parseRecords(t, d),
				})
			case "barrier":
				return applyEntry(m, position(t, d), metadata.Entry{Term: number(t, d, "term"), Barrier: true})
			case "snapshot":
				return restoreMachine(m)
			default:
				d.Fatalf(t, "unknown command")
				return ""
			}
		})
	})
}

func applyEntry(m *machine, pos metadata.Position, e metadata.Entry) string {
	before := m.image
	delta, err := m.apply(pos, e)
	var out strings.Builder
	if err != nil {
		fmt.Fprintln(&out, err)
	}
	if delta == nil {
		return out.String()
	}
	if diff := metadata.DiffImages(before.At(pos), delta.Base().At(pos)); diff != "" {
		fmt.Fprintln(&out, "delta does not begin with the image before:", diff)
	}
	for c := range delta.Topics() {
		sign := "+"
		if c.Deleted() {
			sign = "-"
		}
		fmt.Fprintf(&out, "%s%s ", sign, c.Name())
	}
	fmt.Fprintf(&out, "[%s] at %d/%d, next of term %d is %d", strings.Join(topics(m.image), " "),
		m.image.Position().Index, m.image.Position().Term, e.Term, m.next(e.Term))
	if m.open != nil {
		fmt.Fprint(&out, ", transaction open")
	}
	return out.String() + "\n"
}

func restoreMachine(m *machine) string {
	s, err := m.snapshot()
	if err != nil {
		return err.Error() + "\n"
	}
	other := newMachine()
	delta := other.restore(s)
	if diff := metadata.DiffImages(m.image, other.image); diff != "" {
		return diff + "\n"
	}
	return fmt.Sprintf("%d topics created, entry %d of term %d was the last\n", count(delta), other.number, other.term)
}

func count(d *metadata.Delta) (n int) {
	for range d.Topics() {
		n++
	}
	return n
}

func position(t *testing.T, d *datadriven.TestData) metadata.Position {
	var at string
	d.ScanArgs(t, "at", &at)
	index, term, ok := strings.Cut(at, "/")
	i, err1 := strconv.ParseUint(index, 10, 64)
	n, err2 := strconv.ParseUint(term, 10, 64)
	if !ok || errors.Join(err1, err2) != nil {
		d.Fatalf(t, "at=%s", at)
	}
	return metadata.Position{Index: i, Term: n}
}

func number(t *testing.T, d *datadriven.TestData, name string) (n uint64) {
	d.ScanArgs(t, name, &n)
	return n
}

func parseRecords(t *testing.T, d *datadriven.TestData) (records []metadata.Record) {
	for line := range strings.Lines(d.Input) {
		kind, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		var id uuid.UUID
		copy(id[:], name)
		switch kind {
		case "topic":
			records = append(records, metadata.TopicRecord{Name: name, ID: id})
		case "remove":
			records = append(records, metadata.RemoveTopicRecord{ID: id})
		case "begin":
			records = append(records, metadata.BeginTransactionRecord{})
		case "end":
			records = append(records, metadata.EndTransactionRecord{})
		case "abort":
			records = append(records, metadata.AbortTransactionRecord{})
		case "future":
			records = append(records, metadata.FeatureLevelRecord{FeatureLevel: metadata.FeatureLevel{
				Name: metadata.FeatureMetadata, Level: metadata.MaxMetadataLevel + 1,
			}})
		default:
			d.Fatalf(t, "unknown record %q", line)
		}
	}
	return records
}
