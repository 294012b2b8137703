package metalog

import (
	"log/slog"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/klamm-mq/klamm/cluster/metadata"
)

// TestNothingIsAppliedBehindAnEntryThatCannotBe: the image would not be what the others have,
// and neither would a snapshot of it.
func TestNothingIsAppliedBehindAnEntryThatCannotBe(t *testing.T) {
	l := newLog(Options{Logger: slog.New(slog.DiscardHandler)})
	var failures []error
	l.fsm.fail = func(err error) { failures = append(failures, err) }
	entry, err := metadata.EncodeEntry(metadata.Entry{Term: 1}, metadata.MaxMetadataLevel)
	if err != nil {
		t.Fatal(err)
	}
	apply := func(index uint64, data []byte) (refused bool) {
		_, refused = l.fsm.Apply(&raft.Log{Index: index, Term: 1, Data: data}).(error)
		return refused
	}
	if apply(1, metadata.EncodeBatch([][]byte{entry})) {
		t.Fatal("a good entry is refused")
	}
	if !apply(2, []byte{0xff, 0xff}) || len(failures) != 1 {
		t.Fatalf("garbage is applied: %v", failures)
	}
	before := l.fsm.image.Load()
	if !apply(3, metadata.EncodeBatch([][]byte{entry})) || l.fsm.image.Load() != before {
		t.Error("an entry behind it is applied")
	}
	if _, err := l.fsm.Snapshot(); err == nil {
		t.Error("a snapshot of what is not true")
	}
}
